package groups

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestSuggestions: each name is suggested once, and the listed names are those that the call could use.
func TestSuggestions(t *testing.T) {
	t.Parallel()
	d := mustNew(t, &Config{Autodispatch: true}).Arrange(registry(t, "files.read_file", "files.read_text_file",
		"files.write_file")).Dispatchers[0]
	_, faults := d.Read([]byte(`{"action":"read_fil"}`))
	if f := faults[0]; !slices.Equal(f.Nearest, []string{"read_file", "read_text_file"}) ||
		!slices.Equal(f.Available, []string{"read_file", "read_text_file", "write_file"}) {
		t.Errorf("got nearest %v, available %v, want both that read as nearest, and all three", f.Nearest, f.Available)
	}
	_, faults = lab(t).Read([]byte(`{"action":"lst"}`))
	if f := faults[0]; !slices.Contains(f.Available, "device_type") || f.Nearest[0] != "list" {
		t.Errorf("got nearest %v, available %v, want list first, and device_type", f.Nearest, f.Available)
	}
}

// TestHugePaths: a path that is longer than any name is compared with none. The test is not parallel, because it measures allocations.
func TestHugePaths(t *testing.T) {
	const functions = 2000
	var names []string
	for i := range functions {
		names = append(names, fmt.Sprintf("s.resource_%d.part.list_%d", i, i))
	}
	d := mustNew(t, &Config{Groups: []Group{{Name: "g", Resources: []string{"s"}}}}).Arrange(registry(t, names...)).Dispatchers[0]
	huge := strings.Repeat("a", 1<<20)
	for _, call := range []string{`{"resource":"` + huge + `","action":"list_7"}`, `{"resource":"` + huge + `","action":"part.list_7"}`,
		`{"resource":"` + huge + `"}`} {
		allocated := testing.AllocsPerRun(1, func() {
			if r, faults := d.Read([]byte(call)); r != nil || len(faults) != 1 || faults[0].At != "/resource" || len(faults[0].Message) > 1000 {
				t.Errorf("got %+v, %d faults, want one at /resource", r, len(faults))
			}
		})
		if allocated > functions/4 {
			t.Errorf("%.40s: %.0f allocations, want at most %d", call, allocated, functions/4)
		}
	}
}

// drawnNames draws function names from few words, so that names share many parts.
func drawnNames(t *rapid.T) []string {
	word := rapid.SampledFrom([]string{"a", "b", "ab", "a_b", "list", "get", "help", "explain", "a-b", "é"})
	name := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(word, 1, 4).Draw(t, "words"), ".")
	})
	return rapid.SliceOfNDistinct(name, 1, 12, rapid.ID).Draw(t, "names")
}

func TestReadAgainstTheRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		names := drawnNames(rt)
		a := mustNew(t, &Config{Groups: []Group{{Name: "g", Resources: []string{"*"}}}}).Arrange(registry(t, names...))
		if len(a.Dispatchers) == 0 {
			return
		}
		d := a.Dispatchers[0]
		piece := rapid.SampledFrom([]string{"", "a", "b", "ab", "A_B", "a.b", "list", "get", "ab.list", "help", "b.help", "explain", "xy", "Ab"})
		call, _ := json.Marshal(map[string]any{"resource": piece.Draw(rt, "resource"), "action": piece.Draw(rt, "action")})
		r, faults := d.Read(call)
		checkRequest(rt, d, call, r, faults)
	})
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"resource":"device","action":"list","params":{"site":"a"}}`, `{"action":"get","id":1,"repoId":"r"}`, `{}`, `null`, ``,
		`{"action":"help","params":{"action":"list"},"schema":true}`, `{"params":{"continuation_token":"oc1_1"}}`,
		`{"action":"explain","resource":"device.list","again":true}`, `{"action":"get","budget":{"maxTotalTokens":9}}`,
	} {
		f.Add([]byte(seed))
	}
	d := lab(f)
	count := func(text []byte) int { return len(text) / 4 }
	f.Fuzz(func(t *testing.T, call []byte) {
		r, faults := d.Read(call)
		checkRequest(t, d, call, r, faults)
		if r != nil && r.Help != nil {
			if answer, _ := d.Help(r.Help, &HelpOptions{Limit: 100, Count: count}); !json.Valid(answer) {
				t.Fatalf("%s: help is not JSON: %s", call, answer)
			}
		}
	})
}
