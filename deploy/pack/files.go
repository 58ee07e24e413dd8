package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func readJSON(file string, value any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, value); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func writeJSON(file string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return write(file, string(text)+"\n", plain)
}

// The modes of files that are installed.
const (
	plain      = 0o644
	executable = 0o755
)

// write writes a file, and creates the folders above it.
func write(file, text string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), mode)
}

func copyFile(to, from string, mode os.FileMode) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return write(to, string(content), mode)
}
