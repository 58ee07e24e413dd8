//go:build e2e

package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// registryModule is the module of the MCP registry, which has the schemas of its entries.
const registryModule = "github.com/modelcontextprotocol/registry@v1.8.8"

type entry struct {
	Schema      string `json:"$schema"`
	Name        string
	Description string
	Version     string
	Packages    []struct {
		RegistryType, Identifier, Version, FileSHA256 string
	}
}

// TestRegistry checks that the entry is valid by the registry's schema and its other rules: each package names the server, which proves its
// owner, an image has its version in its name only, and a bundle has a checksum.
func TestRegistry(t *testing.T) {
	t.Parallel()
	dist := newDist(t)
	packed := filepath.Join(dist, "onecall.mcpb")
	if err := write(packed, "bundle", plain); err != nil {
		t.Fatal(err)
	}
	if err := registry(dist, packed); err != nil {
		t.Fatal(err)
	}
	text := read(t, dist, "server.json")
	var server entry
	if err := json.Unmarshal([]byte(text), &server); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(server.Schema, "/2025-12-11/server.schema.json") {
		t.Errorf("the schema is %s, want that of 2025-12-11, which the registry requires", server.Schema)
	}
	if server.Version != "1.2.3" || len(server.Packages) != 3 {
		t.Fatalf("got %+v, want the version 1.2.3 and 3 packages", server)
	}
	var npmManifest struct{ Name, MCPName string }
	if err := json.Unmarshal([]byte(distribution{}.template("npm/package.json")), &npmManifest); err != nil {
		t.Fatal(err)
	}
	label := regexp.MustCompile(`(?m)^LABEL io\.modelcontextprotocol\.server\.name="(.*)"$`).FindStringSubmatch(read(t, "deploy",
		"Containerfile"))
	if label == nil || label[1] != server.Name || npmManifest.MCPName != server.Name {
		t.Errorf("the image is labeled %q, the package named %q, want %s of the server", label, npmManifest.MCPName, server.Name)
	}
	for _, p := range server.Packages {
		var ok bool
		switch p.RegistryType {
		case "npm":
			ok = p.Identifier == npmManifest.Name && p.Version == "1.2.3"
		case "oci":
			ok = strings.HasSuffix(p.Identifier, ":1.2.3") && p.Version == ""
		case "mcpb":
			ok = p.FileSHA256 == fmt.Sprintf("%x", sha256.Sum256([]byte("bundle"))) && strings.Contains(p.Identifier, "/v1.2.3/")
		}
		if !ok {
			t.Errorf("got package %+v, want the released version of its type", p)
		}
	}
	validateEntry(t, text)
}

// validateEntry validates the entry against its schema.
func validateEntry(t *testing.T, text string) {
	t.Helper()
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Skip("needs the go command: ", err)
	}
	file := filepath.Join(strings.TrimSpace(string(cache)), registryModule, "internal", "validators", "schemas", "2025-12-11.json")
	schema, err := jsonschema.NewCompiler().Compile(file)
	if err != nil {
		t.Skipf("the module cache has no registry: run `go mod download %s`", registryModule)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Error(err)
	}
	value.(map[string]any)["description"] = strings.Repeat("x", 101)
	if schema.Validate(value) == nil {
		t.Error("a description of 101 characters is valid")
	}
}
