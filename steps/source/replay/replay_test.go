package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// base returns a registry of functions that must not be called.
func base(t testing.TB, specs ...steps.Spec) *steps.Registry {
	t.Helper()
	var fns []steps.Function
	for _, spec := range specs {
		fns = append(fns, steps.Function{Spec: spec, Call: func(context.Context, []byte) ([]byte, error) {
			t.Error("a function of the base was called")
			return nil, errors.New("called")
		}})
	}
	registry, err := steps.NewRegistry(fns, nil)
	if err != nil {
		t.Fatal(err)
	}
	return registry
}

func load(t testing.TB, registry *steps.Registry, lines ...string) (*replay.Cassette, *steps.Registry) {
	t.Helper()
	c, err := replay.Read(strings.NewReader(strings.Join(lines, "\n")), "calls.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	replayed, err := c.Registry(registry)
	if err != nil {
		t.Fatal(err)
	}
	return c, replayed
}

// ask calls a function and shows the result, or the error's code and message.
func ask(ctx context.Context, r *steps.Registry, fn, args string) string {
	entry, err := r.Resolve(fn)
	if err != nil {
		return err.Error()
	}
	result, err := entry.Call(ctx, []byte(args))
	if err != nil {
		return err.Error()
	}
	return string(result)
}

func TestAnswersInOrder(t *testing.T) {
	t.Parallel()
	c, r := load(t, base(t),
		`{"fn":"s.f","args":{"a":1},"result":"first"}`,
		`{"fn":"s.f","args":{"a":2},"result":"other"}`,
		`{"fn":"s.f","args":{"a":1.0},"error":{"code":"timeout","message":"second"}}`,
		`{"fn":"s.f","args":{"a":1e0},"result":{"z":717897987691852588770249,"a":1.10,"é":"\u00e9"}}`,
		`{"fn":"s.g","result":null}`)
	want := []string{`"first"`, `timeout: second`, `{"z":717897987691852588770249,"a":1.10,"é":"\u00e9"}`,
		`{"z":717897987691852588770249,"a":1.10,"é":"\u00e9"}`}
	for run := range 2 {
		ctx := c.Cursor(t.Context(), "")
		for i, want := range want {
			if got := ask(ctx, r, "s.f", `{"a":1}`); got != want {
				t.Errorf("run %d, call %d: %s, want %s", run, i, got, want)
			}
			if got := ask(ctx, r, "s.f", `{"a":2}`); got != `"other"` {
				t.Errorf("run %d: %s", run, got)
			}
		}
		if got := ask(ctx, r, "s.g", `{}`); got != `null` {
			t.Errorf("run %d: %s", run, got)
		}
	}
}

func TestChainsSeeTheirLines(t *testing.T) {
	t.Parallel()
	c, r := load(t, base(t),
		`{"fn":"s.g","args":{},"result":1,"chain":"one"}`,
		`{"fn":"s.g","args":{},"result":2}`,
		`{"fn":"s.f","args":{},"result":1,"chain":"one"}`,
		`{"fn":"s.f","args":{},"result":2}`,
		`{"fn":"s.f","args":{},"result":3,"chain":"two"}`,
		`{"fn":"s.f","args":{},"result":4,"chain":"one"}`,
		`{"fn":"s.f","args":{"only":"two"},"result":5,"chain":"two"}`)
	for chain, want := range map[string]string{"one": "1 2 4 4 1 2 2", "two": "2 3 3 3 2 2 2", "": "2 2 2 2 2 2 2", "three": "2 2 2 2 2 2 2"} {
		ctx := c.Cursor(t.Context(), chain)
		var got []string
		for range 4 {
			got = append(got, ask(ctx, r, "s.f", `{}`))
		}
		for range 3 {
			got = append(got, ask(ctx, r, "s.g", `{}`))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("chain %q: %v, want %s", chain, got, want)
		}
		if got := ask(ctx, r, "s.f", `{"only":"two"}`); (got == "5") != (chain == "two") {
			t.Errorf("chain %q: %s", chain, got)
		}
	}
}

func TestNotRecorded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 500)
	c, r := load(t, base(t, steps.Spec{Name: "s.silent"}),
		`{"fn":"s.f","args":{"path":"a/b.go","limit":10,"long":"`+long+`"},"result":1}`,
		`{"fn":"s.f","args":{"path":"main.go","limit":20},"result":2}`,
		`{"fn":"s.f","args":{"path":"main.go","limit":30},"result":2}`,
		`{"fn":"s.f","args":{"path":"main.go","limit":30},"result":3}`,
		`{"fn":"s.f","args":{"path":"secret.go","limit":21},"result":4,"chain":"other"}`)
	ctx := c.Cursor(t.Context(), "mine")
	tests := []struct{ fn, args, nearest string }{
		{"s.f", `{"path":"main.go","limit":31}`, `{"path":"main.go","limit":30}`},
		{"s.f", `{"path":"man.go","limit":20.0}`, `{"path":"main.go","limit":20}`},
		{"s.f", `{"path":"secret.go","limit":21}`, `{"path":"main.go","limit":20}`},
		{"s.f", `{"limit":1e1}`, `{"path":"a/b.go","limit":10,"long":"` + long[:160]},
		{"s.f", `{}`, `{"path":"main.go","limit":20}`},
		{"s.silent", `{}`, ""},
	}
	for _, test := range tests {
		entry, err := r.Resolve(test.fn)
		if err != nil {
			t.Fatal(err)
		}
		_, err = entry.Call(ctx, []byte(test.args))
		f, ok := fault.As(err)
		if !ok || f.Code != fault.NotRecorded {
			t.Errorf("%s: %v", test.args, err)
			continue
		}
		nearest := ""
		if len(f.Nearest) > 0 {
			nearest = f.Nearest[0]
		}
		if !strings.HasPrefix(nearest, test.nearest) || (test.nearest == "") != (nearest == "") || len(nearest) > 210 {
			t.Errorf("%s: nearest %q, want %q", test.args, nearest, test.nearest)
		}
		if !strings.Contains(f.Message, test.nearest) || !strings.Contains(f.Message, "calls.jsonl") || !strings.Contains(f.Message, test.fn) {
			t.Errorf("%s: %s", test.args, f.Message)
		}
	}
	// What was not there changes nothing for the calls that are.
	if got := ask(ctx, r, "s.f", `{"path":"main.go","limit":30}`); got != "2" {
		t.Errorf("got %s", got)
	}
}

func TestNamesAndSpecs(t *testing.T) {
	t.Parallel()
	known := steps.Spec{Name: "box.device.list", Effect: steps.Read, EffectDeclared: true,
		Input: json.RawMessage(`{"type":"object","properties":{"limit":{"type":"integer"}},"additionalProperties":false}`)}
	c, r := load(t, base(t, known, steps.Spec{Name: "fs.grep", Input: json.RawMessage(`{"type":"object","required":["pattern"]}`)}),
		`{"fn":"boxDeviceList","args":{"limit":1},"result":"folded"}`,
		`{"fn":"grep","args":{"file":"x"},"result":"a stranger, though fs.grep is known"}`,
		`{"fn":"make_order","args":{"n":1},"result":1,"effect":"destroy"}`,
		`{"fn":"makeOrder","args":{"n":2},"result":2,"effect":"read"}`,
		`{"fn":"look","args":{},"result":0,"effect":"read"}`,
		`{"fn":"makeOrder","args":{"n":3},"result":"1st"}`,
		`{"fn":"make_order","args":{"n":3},"result":"2nd"}`,
		`{"fn":"makeOrder","args":{"n":3},"result":"3rd"}`)
	ctx := c.Cursor(t.Context(), "")
	tests := []struct{ fn, args, want string }{
		{"box.device.list", `{"limit":1}`, `"folded"`},
		{"device.list", `{"limit":1.0}`, `"folded"`},
		{"grep", `{"file":"x"}`, `"a stranger, though fs.grep is known"`},
		{"make_order", `{"n":1}`, `1`},
		{"make.order", `{"n":2}`, `2`},
		{"make_order", `{"n":3}`, `"1st"`},
		{"make_order", `{"n":3}`, `"2nd"`},
		{"make_order", `{"n":3}`, `"3rd"`},
	}
	for _, test := range tests {
		if got := ask(ctx, r, test.fn, test.args); got != test.want {
			t.Errorf("%s: %s, want %s", test.fn, got, test.want)
		}
	}
	if got := ask(ctx, r, "box.device.list", `{"limit":"x"}`); !strings.HasPrefix(got, string(fault.BadArguments)) {
		t.Errorf("arguments that do not fit the schema: %s", got)
	}
	var shown []string
	for _, entry := range r.All() {
		spec := entry.Spec()
		shown = append(shown, fmt.Sprintf("%s %v %v", spec.Name, spec.Effect, spec.EffectDeclared))
	}
	want := []string{"box.device.list read true", "fs.grep write false", "grep write false", "look read true", "make_order destroy true"}
	if !slices.Equal(shown, want) {
		t.Errorf("got %q, want %q", shown, want)
	}
}

func TestTwinsKeepApart(t *testing.T) {
	t.Parallel()
	c, r := load(t, base(t, steps.Spec{Name: "s.a_b"}, steps.Spec{Name: "s.ab"}),
		`{"fn":"s.a_b","result":"under"}`, `{"fn":"s.ab","result":"plain"}`, `{"fn":"S.A.B","result":"neither"}`)
	ctx := c.Cursor(t.Context(), "")
	for fn, want := range map[string]string{"s.a_b": `"under"`, "s.ab": `"plain"`, "S.A.B": `"neither"`} {
		if got := ask(ctx, r, fn, `{}`); got != want {
			t.Errorf("%s: %s, want %s", fn, got, want)
		}
	}
}

func TestUnknownCode(t *testing.T) {
	t.Parallel()
	c, r := load(t, base(t), `{"fn":"f","error":{"code":"ENOENT","message":"no such file"}}`)
	if got := ask(c.Cursor(t.Context(), ""), r, "f", `{}`); got != "function_failed: no such file" {
		t.Errorf("got %s", got)
	}
}

func TestWithoutCursor(t *testing.T) {
	t.Parallel()
	one, r := load(t, base(t), `{"fn":"f","result":1}`)
	other, _ := load(t, base(t), `{"fn":"f","result":2}`)
	if got := ask(t.Context(), r, "f", `{}`); !strings.HasPrefix(got, string(fault.Internal)) {
		t.Errorf("got %s", got)
	}
	if got := ask(other.Cursor(t.Context(), ""), r, "f", `{}`); !strings.HasPrefix(got, string(fault.Internal)) {
		t.Errorf("with the cursor of another cassette: %s", got)
	}
	if got := ask(other.Cursor(one.Cursor(t.Context(), ""), ""), r, "f", `{}`); got != "1" {
		t.Errorf("with both cursors: %s", got)
	}
	ctx, cancel := context.WithCancel(one.Cursor(t.Context(), ""))
	cancel()
	if got := ask(ctx, r, "f", `{}`); !strings.HasPrefix(got, string(fault.Cancelled)) {
		t.Errorf("cancelled: %s", got)
	}
}

func TestUnfitName(t *testing.T) {
	t.Parallel()
	c, err := replay.Read(strings.NewReader(`{"fn":"a b","result":1}`), "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Registry(base(t)); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("got %v", err)
	}
}

// hide is a Redact that hides the value of the argument key.
func hide(args []byte, stand func([]byte) []byte) []byte {
	var all map[string]json.RawMessage
	if json.Unmarshal(args, &all) != nil {
		return args
	}
	if all["key"] != nil {
		all["key"] = stand(all["key"])
	}
	shown, _ := json.Marshal(all)
	return shown
}

func TestRedactedArguments(t *testing.T) {
	t.Parallel()
	functions := base(t, steps.Spec{Name: "s.f", Redact: hide})
	c, _ := load(t, functions,
		`{"fn":"s.f","args":{"key":"[redacted]","n":1},"result":"recorded"}`,
		`{"fn":"s.f","args":{"key":"topsecr3t","n":2},"result":"written"}`,
		`{"fn":"s.f","args":{"key":"another","n":2},"result":"another's"}`,
		`{"fn":"s.f","args":{"key":"by hand","n":3},"result":"not this"}`,
		`{"fn":"s.f","args":{"n":4,"text":"Bearer c0nfigured-t0ken"},"result":"of a configured secret"}`,
		`{"fn":"s.f","args":{"n":5,"text":"Bearer [redacted]"},"result":"of an old one"}`)
	c.Secrets = []string{"c0nfigured-t0ken"}
	r, err := c.Registry(functions)
	if err != nil {
		t.Fatal(err)
	}
	ctx := c.Cursor(t.Context(), "")
	for n, want := range map[string]string{"1": `"recorded"`, "2": `"written"`} {
		if got := ask(ctx, r, "s.f", `{"n":`+n+`,"key":"topsecr3t"}`); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for n, want := range map[string]string{"4": `"of a configured secret"`, "5": `"of an old one"`} {
		if got := ask(ctx, r, "s.f", `{"n":`+n+`,"text":"Bearer c0nfigured-t0ken"}`); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := ask(ctx, r, "s.f", `{"n":3,"key":"topsecr3t"}`); !strings.HasPrefix(got, "not_recorded") ||
		strings.Contains(got, "topsecr3t") || strings.Contains(got, "by hand") {
		t.Errorf("another secret: %s", got)
	}
}

// TestRoundTrip records a run and replays it: every answer is the same, byte for byte.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	count := 0
	fns := []steps.Function{
		{Spec: steps.Spec{Name: "s.count", Effect: steps.Read, EffectDeclared: true}, Call: func(context.Context, []byte) ([]byte, error) {
			count++
			return fmt.Appendf(nil, "{\"n\" : %d,\n\"big\":717897987691852588770249.10, \"s\":\"<a>\\n\\u2028\u2028\"}", count), nil
		}},
		{Spec: steps.Spec{Name: "s.fail"}, Call: func(context.Context, []byte) ([]byte, error) {
			return nil, &fault.Error{Code: fault.Busy, Message: "line\nbreak", At: "/x"}
		}},
		{Spec: steps.Spec{Name: "s.plain"}, Call: func(context.Context, []byte) ([]byte, error) { return nil, errors.New("plain error") }},
		{Spec: steps.Spec{Name: "s.panic"}, Call: func(context.Context, []byte) ([]byte, error) { panic("oh") }},
		{Spec: steps.Spec{Name: "s.broken"}, Call: func(context.Context, []byte) ([]byte, error) { return []byte("{"), nil }},
		{Spec: steps.Spec{Name: "s.echo", Redact: hide},
			Call: func(_ context.Context, args []byte) ([]byte, error) { return slices.Clone(args), nil }},
	}
	original, err := steps.NewRegistry(fns, nil)
	if err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context, r *steps.Registry) (answers []string) {
		for _, call := range [][2]string{{"s.count", `{}`}, {"s.count", `{}`}, {"s.count", `{"x":1}`}, {"s.fail", `{}`}, {"s.plain", `{}`},
			{"s.panic", `{}`}, {"s.broken", `{}`}, {"s.echo", `{"b":1.10,"a":"\u00e9"}`}, {"s.echo", `{"key":"topsecr3t"}`}, {"s.count", `{}`}} {
			entry, err := r.Resolve(call[0])
			if err != nil {
				t.Fatal(err)
			}
			result, err := entry.Call(ctx, []byte(call[1]))
			if f, ok := fault.As(err); ok {
				answers = append(answers, string(f.Code)+": "+f.Message)
			} else {
				answers = append(answers, string(result))
			}
		}
		return answers
	}
	var file bytes.Buffer
	recorder := replay.NewRecorder(&file, nil)
	want := run(replay.WithChain(t.Context(), "trip"), original.Observe(recorder.Observe))
	if err := recorder.Err(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(file.String(), "topsecr3t") {
		t.Errorf("the recording shows a secret:\n%s", file.String())
	}
	if n := strings.Count(file.String(), "\n"); n != 1+len(want) {
		t.Errorf("%d lines for %d calls", n, len(want))
	}
	c, err := replay.Read(bytes.NewReader(file.Bytes()), "trip.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for name, registry := range map[string]*steps.Registry{"over the functions": original, "over nothing": base(t)} {
		replayed, err := c.Registry(registry)
		if err != nil {
			t.Fatal(err)
		}
		got := run(c.Cursor(t.Context(), "trip"), replayed)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if got := run(c.Cursor(t.Context(), "another"), mustRegistry(t, c, original)); !strings.HasPrefix(got[0], "not_recorded") {
		t.Errorf("another chain got %s", got[0])
	}
}

func mustRegistry(t testing.TB, c *replay.Cassette, base *steps.Registry) *steps.Registry {
	t.Helper()
	r, err := c.Registry(base)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
