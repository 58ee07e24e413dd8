//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// oddTools are definitions of tools, each of which alone makes a client of the official SDK refuse the whole list.
var oddTools = map[string]string{
	"properties_list":      `"inputSchema":{"type":"object","properties":[]}`,
	"properties_null":      `"inputSchema":{"type":"object","properties":null,"required":null}`,
	"properties_flags":     `"inputSchema":{"type":"object","properties":{"a":true,"b":false,"c":null,"d":[]}}`,
	"required_text":        `"inputSchema":{"type":"object","required":"a"}`,
	"no_type":              `"inputSchema":{"type":["object","null"]}`,
	"no_input":             `"inputSchema":[]`,
	"output_array":         `"inputSchema":{"type":"object"},"outputSchema":{"type":"array","items":{}}`,
	"output_nullable":      `"inputSchema":{"type":"object"},"outputSchema":{"type":["object","null"]}`,
	"output_ref":           `"inputSchema":{"type":"object"},"outputSchema":{"$ref":"#/$defs/Gone"}`,
	"output_deep_ref":      `"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"items":{"$ref":"#/$defs/Gone"}}}}`,
	"output_far_ref":       `"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"$ref":"https://example.com/s.json"}}}`,
	"output_unknown_type":  `"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"type":"money"}}}`,
	"output_bound":         `"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"anyOf":[{"type":"number","minimum":1,"exclusiveMinimum":true}]}}}`,
	"output_lists":         `"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":[],"required":null}`,
	"output_deep_lists":    `"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"type":"array","items":{"properties":[],"required":{}}}}}`,
	"output_pattern":       `"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"^[\\w-.]+\\@"}}}`,
	"output_nullable_only": `"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"nullable":true}}}`,
	"output_same_id":       `"inputSchema":{"type":"object"},"outputSchema":{"$id":"x","type":"object","properties":{"a":{"type":"string"}}}`,
	"output_same_id_too":   `"inputSchema":{"type":"object"},"outputSchema":{"$id":"x","type":"object","properties":{"b":{"type":"string"}}}`,
	"output_old_id":        `"inputSchema":{"type":"object"},"outputSchema":{"id":"x","type":"object"}`,
	"output_format":        `"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"type":"string","format":{}}}}`,
	"output_enum":          `"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"enum":[]}}}`,
	"annotations_text":     `"inputSchema":{"type":"object"},"annotations":{"title":5,"readOnlyHint":"yes","idempotentHint":true}`,
	"annotations_list":     `"inputSchema":{"type":"object"},"annotations":[]`,
	"icons_odd":            `"inputSchema":{"type":"object"},"icons":[{"src":5},{"src":"https://example.com/i.png","sizes":"48x48","theme":"blue"}]`,
	"icons_object":         `"inputSchema":{"type":"object"},"icons":{"src":"x"}`,
	"meta_list":            `"inputSchema":{"type":"object"},"_meta":[]`,
	"title_number":         `"inputSchema":{"type":"object"},"title":5,"description":["a"]`,
	"execution_odd":        `"inputSchema":{"type":"object"},"execution":{"taskSupport":"maybe"}`,
	"good": `"inputSchema":{"type":"object","properties":{"a":{"type":"string"}},"required":[]},` +
		`"outputSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"^(?!x)[a-z_-]{1,3}$"}}}`,
}

// oddItems are the other lists, with items that make a client refuse them.
const oddItems = `"resources":[{"uri":"a://1"},{"uri":"a://2","name":"two","description":null,"mimeType":5,"size":"1","annotations":[]},{"name":"no address"},7,
	{"uri":"a://3","name":"three","annotations":{"audience":["you","user"],"priority":7,"lastModified":"yesterday"}}],
	"resourceTemplates":[{"uriTemplate":"a://{x}","title":5},{"name":"none"}],
	"prompts":[{"name":"p","arguments":null},{"name":"q","arguments":[{"description":"no name"},{"name":"a","required":"yes"}]},{"title":"none"}]`

// TestOddLists: entries of a server that strict clients refuse do not make onecall's lists unreadable for a client of the official
// TypeScript SDK: they are mended or, if that is impossible, left out alone.
func TestOddLists(t *testing.T) {
	t.Parallel()
	requireFile(t, "@modelcontextprotocol", "sdk", "package.json")
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var tools []string
	for name, rest := range oddTools {
		tools = append(tools, `{"name":"`+name+`",`+rest+`}`)
	}
	slices.Sort(tools)
	folder := t.TempDir()
	lists := filepath.Join(folder, "lists.json")
	text := `{"tools":[` + strings.Join(tools, ",") + `],` + oddItems + `}`
	if err := os.WriteFile(lists, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := filepath.Abs(filepath.Join("..", "testdata", "mcp", "clients", "odd-server.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	one := map[string]any{"command": anyNode(t), "args": []string{server, lists}}
	for name, servers := range map[string]map[string]any{"one": {"odd": one}, "two": {"odd": one, "odd2": one}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := writeJSON(t, t.TempDir(), "onecall.json", map[string]any{"mcpServers": servers})
			cmd := script(t, "lists.mjs", binary, "serve", "--surface", "flat", "--config", config)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, stderr.String())
			}
			checkOddLists(t, out, len(servers))
			for _, warning := range []string{"output_array", "output_unknown_type", "no address", `\"title\":\"none\"`} {
				if !strings.Contains(stderr.String(), warning) {
					t.Errorf("no warning names %s: %s", warning, stderr.String())
				}
			}
		})
	}
}

func checkOddLists(t *testing.T, out []byte, servers int) {
	t.Helper()
	var read struct {
		Tools                                map[string]struct{ InputSchema, OutputSchema, Annotations json.RawMessage }
		Calls, Resources, Templates, Prompts []string
	}
	if err := json.Unmarshal(out, &read); err != nil {
		t.Fatal(err)
	}
	for name := range oddTools {
		count := 0
		for _, call := range read.Calls {
			if call == "called "+name {
				count++
			}
		}
		if count != servers {
			t.Errorf("%s was listed and called %d times, want %d", name, count, servers)
		}
	}
	for _, name := range []string{"output_array", "output_ref", "output_deep_ref", "output_far_ref", "output_unknown_type"} {
		if tool := read.Tools[name]; servers == 1 && tool.OutputSchema != nil {
			t.Errorf("%s: output schema %s, want none", name, tool.OutputSchema)
		}
	}
	if tool := read.Tools["output_bound"]; servers == 1 && !strings.Contains(string(tool.OutputSchema), `"exclusiveMinimum":1`) {
		t.Errorf("output_bound: output schema %s, want a bound that is a number", tool.OutputSchema)
	}
	if tool := read.Tools["annotations_text"]; servers == 1 && string(tool.Annotations) != `{"idempotentHint":true}` {
		t.Errorf("annotations_text: annotations %s, want the hint that is one", tool.Annotations)
	}
	for list, names := range map[string][]string{"a://1 two three": read.Resources, "a://{x}": read.Templates, "p q": read.Prompts} {
		if got := strings.Join(names[:min(len(names), len(strings.Fields(list)))], " "); got != list {
			t.Errorf("got %q, want %q", names, list)
		}
	}
}
