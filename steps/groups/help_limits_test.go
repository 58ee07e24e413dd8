package groups

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/decode"
)

func TestHelpHasLosslessSchemas(t *testing.T) {
	t.Parallel()
	d := network(t)
	// The schema of one function is never cut: the limit does not apply.
	got, given := helpOf(t, d, `{"action":"help","resource":"device.list","schema":true}`,
		HelpOptions{Limit: 50, Lite: true, Taught: func(string) bool { return true }})
	entry := d.functions[2].entry
	function := gjson.Get(got, `resources.device.list`)
	if function.Get("inputSchema").Raw != string(entry.Spec().Input) || function.Get("outputSchema").Raw != string(entry.Spec().Output) {
		t.Errorf("got %s, want the schemas of device.list in full", got)
	}
	if function.Get("description").Str != entry.Spec().Description || function.Get("effect").Str != "read" ||
		!slices.Equal(given, []string{"net.device.list"}) {
		t.Errorf("got %s, given %q, want the whole description, effect read and net.device.list", got, given)
	}
	if got, _ = helpOf(t, d, `{"schema":true}`, HelpOptions{}); strings.Count(got, `"inputSchema"`) != 2 ||
		strings.Count(got, `"effect":"destroy"`) != 1 {
		t.Errorf("got %s, want 2 input schemas and 1 effect destroy", got)
	}
	if got, _ = helpOf(t, d, `{"schema":true}`, HelpOptions{Limit: 300}); len(got) > 300 || strings.Contains(got, "inputSchema") {
		t.Errorf("got %s, want at most 300 bytes without schemas", got)
	}
}

// TestHelpAtEveryLimit checks the answer at each limit: it stays within the limit, has no duplicate key, and counts every resource.
func TestHelpAtEveryLimit(t *testing.T) {
	t.Parallel()
	d := mustNew(t, &Config{Groups: []Group{{Name: "g", Resources: []string{"*"}}}}).Arrange(registry(t, "s.a.list", "s.a.get", "s.a-b.list",
		"s.a.c.list", "s.a.c.d.get", "s.a_b.get", "s.x.list", "s.y.list")).Dispatchers[0]
	seen := map[string]bool{}
	for limit := range 900 {
		answer, given := d.Help(nil, &HelpOptions{Limit: limit, Count: bytesAsTokens})
		if f := duplicateKeys(answer); f != "" {
			t.Fatalf("limit %d: help repeats a key: %s: %s", limit, f, answer)
		}
		seen[string(answer)] = true
		if len(answer) > max(limit, 40) {
			t.Errorf("limit %d: help has %d bytes: %s, want at most %d", limit, len(answer), answer, max(limit, 40))
		}
		reported := int(gjson.GetBytes(answer, "more_resources").Int())
		counted := 0
		gjson.GetBytes(answer, "resources").ForEach(func(_, value gjson.Result) bool {
			if reported++; value.Type == gjson.Number {
				counted++
			}
			return true
		})
		if counted == 0 && reported != 7 || reported > 7 {
			t.Errorf("limit %d: %d resources are listed or counted, want 7: %s", limit, reported, answer)
		}
		if signs := strings.Count(string(answer), "(…)"); counted == 0 && limit > 400 && len(given) != signs {
			t.Errorf("limit %d: %d signatures are reported as given, want the %d of help", limit, len(given), signs)
		}
	}
	if len(seen) < 15 {
		t.Errorf("only %d different answers, want at least 15", len(seen))
	}
}

// TestSuggestedCallsAreComplete: a call that help or a fault shows works as written, however long its names are.
func TestSuggestedCallsAreComplete(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("thing_", 20)
	names := []string{"s." + long + ".list", "s." + long + ".get", "s.x.list"}
	d := mustNew(t, &Config{Groups: []Group{{Name: "g", Resources: []string{"s"}}}}).Arrange(registry(t, names...)).Dispatchers[0]
	calls := map[string]bool{}
	for limit := range 700 {
		for _, ask := range []string{`{}`, `{"resource":"` + long + `"}`} {
			answer, _ := helpOf(t, d, ask, HelpOptions{Limit: limit + 1})
			if more := gjson.Get(answer, "more").Str; more != "" {
				calls[more[strings.IndexByte(more, '{'):strings.LastIndexByte(more, '}')+1]] = true
			}
		}
	}
	_, faults := d.Read([]byte(`{"resource":"` + long + `","action":"get","schema":true}`))
	text := faults[0].Message
	calls[text[strings.IndexByte(text, '{'):strings.LastIndexByte(text, '}')+1]] = true
	for call := range calls {
		if r, faults := d.Read([]byte(call)); len(faults) > 0 || len(r.Help.scope) == 0 {
			t.Errorf("the suggested call %s fails: %v", call, faults)
		}
	}
	if len(calls) < 3 {
		t.Errorf("got calls %v, want at least 3", calls)
	}
}

func duplicateKeys(text []byte) string {
	if _, f := decode.Compact(text); f != nil {
		return f.Message
	}
	return ""
}
