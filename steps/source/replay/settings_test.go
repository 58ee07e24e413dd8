package replay_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// TestSettingsOfParts checks that settings stand before the first line that depends on them, and again only when they change.
func TestSettingsOfParts(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	recorder := replay.NewRecorder(&file, nil)
	for _, settings := range []string{`{"lite":true}`, `{"lite":true}`, "", `{"lite":false}`} {
		var given []byte
		if settings != "" {
			given = []byte(settings)
		}
		recorder.WithSettings(given).Observe(t.Context(), &steps.Spec{Name: "s.f"}, []byte(`{}`), []byte("1"), nil)
	}
	var kinds []string
	for line := range strings.Lines(file.String()) {
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &members); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, string(members["settings"]))
	}
	if got, want := strings.Join(kinds, "|"), `{"lite":true}|||{}||{"lite":false}|`; got != want {
		t.Errorf("got the settings %s of the lines, want %s:\n%s", got, want, file.String())
	}
	c, err := replay.Read(&file, "parts")
	if err != nil {
		t.Fatal(err)
	}
	if string(c.Settings()) != `{"lite":false}` || len(c.Warnings()) != 2 {
		t.Errorf("got %s, %v, want the last settings and a warning for each change", c.Settings(), c.Warnings())
	}
}

// TestConfigureRecorded checks that what the configuration of a replay sets wins over the recording, which fills the rest.
func TestConfigureRecorded(t *testing.T) {
	t.Parallel()
	base := baseRegistry(t, steps.Spec{Name: "s.known", Input: json.RawMessage(`{"type":"object","properties":{"a":{},"b":{}}}`)})
	c, err := replay.Read(strings.NewReader(`{"function":{"name":"s.known","effect":"read","heavy":"always","answer":{"drop":["x"],"top":2},"fields":"a","defaults":{"a":1},`+
		`"undo":{"fn":"s.back","args":{"id":"$result"}}}}
{"function":{"name":"s.other","effect":"write","aliases":{"x":"a"},"idempotencyKey":{"arg":"key","ttlMs":1000}}}
{"fn":"s.known","args":{"a":2},"result":2}
{"fn":"s.other","args":{"a":2},"result":3}`), "calls.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	c.Configure = func(fn steps.Function) steps.Function {
		if fn.Name == "s.known" {
			fn.Defaults = json.RawMessage(`{"a":2}`)
		}
		return fn
	}
	r := mustRegistry(t, c, base)
	ctx := c.Cursor(t.Context(), "")
	for call, want := range map[string]string{"s.known {}": "2", `s.other {"x":2,"key":"of another run"}`: "3"} {
		fn, args, _ := strings.Cut(call, " ")
		if got := ask(ctx, r, fn, args); got != want {
			t.Errorf("%s: got %s, want %s", call, got, want)
		}
	}
	known, err := r.Resolve("s.known")
	if err != nil {
		t.Fatal(err)
	}
	if s := known.Spec(); s.Effect != steps.Read || s.Heavy != "always" || s.Undo == nil || s.Undo.Function != "s.back" ||
		s.Answer == nil || s.Answer.Top != 2 || s.Fields != "a" || len(s.Answer.Drop) != 1 {
		t.Errorf("got %+v, want what the line says of the function", s)
	}
}
