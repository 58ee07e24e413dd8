package groups

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestGitHubSizes(t *testing.T) {
	t.Parallel()
	view, count := github(t), counter(t)
	a := mustNew(t, &Config{Groups: githubGroups}).Arrange(view)
	if len(a.Dispatchers) != 13 || len(a.Rest) != 0 {
		t.Fatalf("got %d dispatchers and %d functions in the rest, want 13 and 0", len(a.Dispatchers), len(a.Rest))
	}
	list, wide, helps := 0, 0, 0
	for _, d := range a.Dispatchers {
		list += count(encode(d, 24, count))
		wide += count(encode(d, 40, count))
		answer, given := d.Help(nil, &HelpOptions{Limit: 2000, Count: count})
		if count(answer) > 2000 || !json.Valid(answer) {
			t.Errorf("help of %s has %d tokens, want at most 2000 of valid JSON", d.Name, count(answer))
		}
		helps += count(answer)
		t.Logf("%-10s %3d functions: %2d tokens; help %4d with %3d signatures", d.Name, len(d.functions), count(encode(d, 24, count)),
			count(answer), len(given))
	}
	t.Logf("13 dispatchers for %d functions: %d tokens, %d with longer descriptions; all helps: %d", view.Len(), list, wide, helps)
	if list > 1420 { // 31 tokens of each are the fields of a fetch beside continuation_token and mode, which strict hosts drop otherwise
		t.Errorf("the dispatchers have %d tokens, want at most 1420", list)
	}
	var lines []int
	for _, d := range a.Dispatchers {
		p := newPage(d, &Help{}, &HelpOptions{})
		for _, f := range d.functions {
			lines = append(lines, count(p.line(f, levelSummary)))
		}
	}
	slices.Sort(lines)
	t.Logf("a function's line in help: median %d tokens, maximum %d", lines[len(lines)/2], lines[len(lines)-1])
	if median := lines[len(lines)/2]; median > 120 {
		t.Errorf("the median line has %d tokens, want at most 120", median)
	}
}

// TestGitHubCallsAndSchemas calls every operation as help shows it, and gets its complete schema.
func TestGitHubCallsAndSchemas(t *testing.T) {
	t.Parallel()
	view := github(t)
	for name, c := range map[string]*Config{"groups": {Groups: githubGroups}, "resources": {Autodispatch: true}} {
		a := mustNew(t, c).Arrange(view)
		called := 0
		for _, d := range a.Dispatchers {
			for _, f := range d.functions {
				call, _ := json.Marshal(map[string]string{"resource": f.label, "action": f.action})
				if r, faults := d.Read(call); len(faults) > 0 || r.Entry != f.entry {
					t.Fatalf("%s: %s does not call %s: %v", name, call, f.entry.Spec().Name, faults)
				}
				ask, _ := json.Marshal(map[string]any{"action": "help", "params": map[string]string{"action": f.entry.Spec().Name}, "schema": true})
				r, faults := d.Read(ask)
				if len(faults) > 0 || len(r.Help.scope) != 1 {
					t.Fatalf("%s: %s does not ask for one function: %v", name, ask, faults)
				}
				if called++; called%20 == 0 {
					answer, _ := d.Help(r.Help, &HelpOptions{Limit: 10, Count: bytesAsTokens})
					if !strings.Contains(string(answer), `"inputSchema":`+string(f.entry.Spec().Input)) {
						t.Errorf("help of %s lacks the input schema: %s", f.entry.Spec().Name, answer)
					}
				}
			}
		}
		t.Logf("%s: %d dispatchers", name, len(a.Dispatchers))
		if len(a.Dispatchers) > 100 {
			t.Errorf("%s: %d dispatchers, want at most 100", name, len(a.Dispatchers))
		}
		if called != view.Len() {
			t.Errorf("%s: %d functions were called, want %d", name, called, view.Len())
		}
	}
}
