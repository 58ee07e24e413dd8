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

// registryModule is the MCP registry, which has the schemas of what it takes.
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

// TestRegistry: the entry fits the registry's schema, and the rules that the registry has beside it: each package proves that it is
// ours by the server's name, an image has its version in its name only, and a bundle has a checksum.
func TestRegistry(t *testing.T) {
	t.Parallel()
	dist := distributed(t)
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
		t.Errorf("the registry refuses schemas but that of 2025-12-11, not %s", server.Schema)
	}
	if server.Version != "1.2.3" || len(server.Packages) != 3 {
		t.Fatalf("%+v", server)
	}
	var main struct{ Name, MCPName string }
	if err := json.Unmarshal([]byte(distribution{}.template("npm/package.json")), &main); err != nil {
		t.Fatal(err)
	}
	label := regexp.MustCompile(`(?m)^LABEL io\.modelcontextprotocol\.server\.name="(.*)"$`).FindStringSubmatch(read(t, "deploy",
		"Containerfile"))
	if label == nil || label[1] != server.Name || main.MCPName != server.Name {
		t.Errorf("the server is %s, the image says %q, the package says %q", server.Name, label, main.MCPName)
	}
	for _, p := range server.Packages {
		var ok bool
		switch p.RegistryType {
		case "npm":
			ok = p.Identifier == main.Name && p.Version == "1.2.3"
		case "oci":
			ok = strings.HasSuffix(p.Identifier, ":1.2.3") && p.Version == ""
		case "mcpb":
			ok = p.FileSHA256 == fmt.Sprintf("%x", sha256.Sum256([]byte("bundle"))) && strings.Contains(p.Identifier, "/v1.2.3/")
		}
		if !ok {
			t.Errorf("%+v", p)
		}
	}
	validate(t, text)
}

// validate holds the entry to the schema that it names.
func validate(t *testing.T, text string) {
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
		t.Error("the schema takes anything")
	}
}
