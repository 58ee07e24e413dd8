package chain_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
)

// TestSaveAs: chosen literals become params with the literal as their default, and everything else keeps its spelling.
func TestSaveAs(t *testing.T) {
	t.Parallel()
	const text = `{"key":"k","dryRun":false,"input":{"region":"eu"},"steps":[{"id":"make","fn":"bin.put","args":{"key":"$$a","labels":["x",{"size":1.50}],"where":"$input.region"}},
		{"fn":"bin.put","args":{"key":"$0.id","n":12345678901234567890,"on":true}}],"return":"$1"}`
	saved, faults := chain.SaveAs([]byte(text), []chain.Param{{"0.key", "name"}, {"make.labels.1.size", "size"}, {"1.n", "count"},
		{"1.on", "on"}})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	want, err := os.ReadFile("../testdata/chain/saved-as.json")
	if err != nil || string(saved) != string(want) {
		t.Errorf("%v, saved:\n%s\nwant\n%s", err, saved, want)
	}
	if _, faults := chain.Saved("x", saved, &chain.Options{}); len(faults) > 0 {
		t.Errorf("SaveAs wrote an invalid saved chain: %v", faults)
	}
}

// TestSavedForm: calls are saved in their short form, in chains within chains and in undos too, and mean the same. A function whose name could
// be taken for a field keeps fn.
func TestSavedForm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"steps":[{"fn":"bin.put","args":{"a":{"fn":"x","args":{}}},"id":"b"}]}`:                `{"steps":[{"bin.put":{"a":{"fn":"x","args":{}}},"id":"b"}]}`,
		`{"steps":[{"args":{"a":1},"id":"b","fn":"bin.put"},{"fn":"bin.get"}]}`:                  `{"steps":[{"id":"b","bin.put":{"a":1}},{"bin.get":{}}]}`,
		`{"steps":[{"fn":"retry","args":{}},{"fn":"or_else"},{"expr":"1"}]}`:                     `{"steps":[{"fn":"retry","args":{}},{"fn":"or_else"},{"expr":"1"}]}`,
		`{"steps":[{"fn":"a.b","undo":{"fn":"a.c","args":{"x":1}}}]}`:                            `{"steps":[{"a.b":{},"undo":{"a.c":{"x":1}}}]}`,
		`{"steps":[{"chain":{"steps":[{"fn":"a.b","args":null}]},"args":{"fn":"x"}}]}`:           `{"steps":[{"chain":{"steps":[{"a.b":{}}]},"args":{"fn":"x"}}]}`,
		`{"input":{"fn":"x","args":{}},"steps":[{"a.b":{"y":"$input.fn"}}],"return":{"fn":"x"}}`: `{"input":{"fn":"x","args":{}},"steps":[{"a.b":{"y":"$input.fn"}}],"return":{"fn":"x"}}`,
	} {
		saved, faults := chain.SaveAs([]byte(text), nil)
		var compact bytes.Buffer
		if err := json.Compact(&compact, saved); err != nil || len(faults) > 0 || compact.String() != want {
			t.Errorf("%s is saved as %s, want %s: %v, %v", text, compact.String(), want, err, faults)
		}
	}
}

// TestSaveAsRefused: a place that does not exist, or is not a literal, is refused with the places that exist.
func TestSaveAsRefused(t *testing.T) {
	t.Parallel()
	const text = `{"input":{"region":"eu"},"steps":[{"id":"make","fn":"bin.put","args":{"key":"a","tags":["x"]}},{"fn":"bin.put","args":{"key":"$0.id"}}]}`
	for _, c := range []struct {
		pointer, name, says string
		available           []string
	}{
		{"7.key", "n", `no step "7"`, []string{"make", "1"}},
		{"make.kye", "n", `no "kye"`, []string{"key", "tags"}},
		{"0.tags.4", "n", `no "4"`, []string{"0"}},
		{"0.key.x", "n", `no "x"`, nil},
		{"0", "n", "name an argument", []string{"key", "tags"}},
		{"1.key", "n", "not a literal", nil},
		{"0.key", "a b", "not a valid name", nil},
		{"0.key", "region", "reads $input.region already", nil},
	} {
		_, faults := chain.SaveAs([]byte(text), []chain.Param{{c.pointer, c.name}})
		if len(faults) != 1 || !strings.Contains(faults[0].Message, c.says) || !slices.Equal(faults[0].Available, c.available) {
			t.Errorf("%s=%s: %v, available %v; want %q, available %v", c.pointer, c.name, faults, faults[0].Available, c.says, c.available)
		}
	}
}
