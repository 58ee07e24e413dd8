package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// registry writes DIST/server.json, the entry of the MCP registry, for a packed bundle. $BUNDLE in its template stands for the SHA-256 of
// the bundle.
func registry(folder, packed string) error {
	dist, err := readDistribution(folder)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(packed)
	if err != nil {
		return err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	return write(filepath.Join(folder, "server.json"), strings.ReplaceAll(dist.template("server.json"), "$BUNDLE", sum), plain)
}
