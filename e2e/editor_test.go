//go:build e2e && unix

package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/config"
)

// TestEditor checks that an editor that finds the published schemas by $schema completes keys and words of chains and configurations,
// explains them, and marks errors at their positions.
func TestEditor(t *testing.T) {
	t.Parallel()
	packages := npmPackages(t)
	const chainSchema, configSchema = `"$schema":"chain.schema.json"`, `"$schema":"config.schema.json"`
	tests := []struct {
		text        string
		diagnostics []string // the beginnings of the expected diagnostics
		completions []string // some of the expected completions
		hover       string   // part of the expected text on hover
	}{
		{text: `{` + chainSchema + `,"steps":[{"id":"a","fn":"fs.cat","args":{"path":"a"}},{"forEach":"$a",` +
			`"chain":{"steps":[{"expr":"1"}]}}],"return":"$a"}`},
		{text: `{` + chainSchema + `,"█":1}`, diagnostics: []string{`"": Property  is not allowed`},
			completions: []string{"steps", "input", "params", "return", "onError", "budget"}},
		{text: `{` + chainSchema + `,"steps":[{"█":1}]}`, diagnostics: []string{`1: Incorrect type`},
			completions: []string{"fn", "args", "id", "expr", "when", "forEach", "select", "orElse", "retry", "undo"}},
		{text: `{` + chainSchema + `,"steps":[{"f█n":"fs.cat"}]}`, completions: []string{"fn"}, hover: "The function's name"},
		{text: `{` + chainSchema + `,"steps":[{"forE█ach":"$0","chain":{"steps":[]}}]}`, completions: []string{"forEach"},
			diagnostics: []string{`[]: Array has too few items`}, hover: "array"},
		{text: `{` + chainSchema + `,"steps":[{"fn":"a"}],"onError":"█"}`, completions: []string{`"stop"`, `"continue"`, `"undo"`},
			diagnostics: []string{`"": Value is not accepted`},
			hover:       "After a failure"},
		{text: `{` + chainSchema + `,"steps":[{"fn":"fs.cat","agrs":{}},{"fn":7},{"id":"9x","expr":"1"}]}`, diagnostics: []string{
			`"agrs": Value is not accepted`, `7: Incorrect type`, `"9x": String does not match`}},
		{text: `{` + chainSchema + `,"steps":[],"budget":{"maxTotalTokens":1}}`,
			diagnostics: []string{`[]: Array has too few items`, `1: Value is below the minimum`}},
		{text: `{` + configSchema + `,"mcpServers":{"a":{"command":"npx","█":1}}}`, diagnostics: []string{`"": Property  is not allowed`},
			completions: []string{"args", "env", "cwd", "startTimeoutMs"}},
		{text: `{` + configSchema + `,"mcpServer":{}}`, diagnostics: []string{`"mcpServer": Property mcpServer is not allowed`}},
	}
	request := map[string]any{"schemas": map[string]json.RawMessage{
		"file:///example/chain.schema.json": chain.ChainSchema(), "file:///example/config.schema.json": config.Schema()}}
	var documents []string
	for i := range tests {
		documents = append(documents, tests[i].text)
	}
	request["documents"] = documents
	input, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "../testdata/editor/ask.mjs", filepath.Dir(packages))
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("ask.mjs: %v: %s", err, stderr.Bytes())
	}
	var answers []struct {
		Diagnostics, Completions []string
		Hover                    string
	}
	if err := json.Unmarshal(output, &answers); err != nil || len(answers) != len(tests) {
		t.Fatalf("ask.mjs: %v, %s, want %d answers", err, output, len(tests))
	}
	for i, test := range tests {
		got := answers[i]
		if !slices.EqualFunc(got.Diagnostics, test.diagnostics, strings.HasPrefix) {
			t.Errorf("%s: diagnostics %q, want the prefixes %q", test.text, got.Diagnostics, test.diagnostics)
		}
		for _, want := range test.completions {
			if !slices.Contains(got.Completions, want) {
				t.Errorf("%s: %s is not among the completions %q", test.text, want, got.Completions)
			}
		}
		if !strings.Contains(got.Hover, test.hover) {
			t.Errorf("%s: hover %q, want %q in it", test.text, got.Hover, test.hover)
		}
	}
}
