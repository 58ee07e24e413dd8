package mcp_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps/source/files"
)

// TestToolExample runs the example in the description of the tool chain, unchanged.
func TestToolExample(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{"a.md": "one\ntwo\nthree\nfour\n", "b.md": "five\n", "c.txt": "no"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	source, err := files.New(&files.Options{Root: folder})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, nil)
	if err := s.catalog.Add("fs", source); err != nil {
		t.Fatal(err)
	}
	client := s.stdio(t, reader, nil)
	list, err := client.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var example string
	for _, tool := range list.Tools {
		if tool.Name == "chain" {
			_, rest, _ := strings.Cut(tool.Description, "Example: ")
			example, _, _ = strings.Cut(rest, "\n")
		}
	}
	var request map[string]any
	if err := json.Unmarshal([]byte(example), &request); err != nil {
		t.Fatalf("the example %q: %v", example, err)
	}
	text, failed := mcptest.Ask(t, client, "chain", example)
	if failed || gjson.Get(text, "result").Raw != `["one\ntwo\nthree\n","five\n"]` {
		t.Errorf("the example answers %s, want %s", text, `["one\ntwo\nthree\n","five\n"]`)
	}
}
