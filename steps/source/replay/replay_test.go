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

	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/transcript"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// baseRegistry returns a registry of functions that must not be called.
func baseRegistry(t testing.TB, specs ...steps.Spec) *steps.Registry {
	t.Helper()
	var fns []steps.Function
	for _, spec := range specs {
		fns = append(fns, steps.Function{Spec: spec, Call: func(context.Context, []byte) ([]byte, error) {
			t.Error("the replay called a real function")
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

// ask calls a function and shows the result, or the error's code, message and suggestions.
func ask(ctx context.Context, r *steps.Registry, fn, args string) string {
	entry, err := r.Resolve(fn)
	if err != nil {
		return err.Error()
	}
	result, err := entry.Call(ctx, []byte(args))
	if f, ok := fault.As(err); ok && len(f.Nearest) > 0 {
		return fmt.Sprintf("%v — nearest %s", err, f.Nearest[0])
	}
	if err != nil {
		return err.Error()
	}
	return string(result)
}

// known are the functions of the transcripts in addition to those of their recordings.
var known = map[string][]steps.Spec{
	"names": {{Name: "box.device.list", Effect: steps.Read, EffectDeclared: true,
		Input: json.RawMessage(`{"type":"object","properties":{"limit":{"type":"integer"}},"additionalProperties":false}`)},
		{Name: "fs.grep", Input: json.RawMessage(`{"type":"object","required":["pattern"]}`)}},
	"misses":  {{Name: "s.silent"}},
	"twins":   {{Name: "s.a_b"}, {Name: "s.ab"}},
	"secrets": {{Name: "s.f", Redact: hideKey}},
}

// TestTranscripts replays the recordings of testdata/runs.txtar. A file has the recording and, after a blank line, the calls of chains: a
// line with a chain's name in brackets begins a run, the indented line below a call is its answer.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	transcript.Each(t, "testdata/runs.txtar", func(t *testing.T, archive *txtar.Archive) {
		transcript.Replay(t, archive.Files, func(t *testing.T, section *txtar.File) string {
			recording, calls, _ := strings.Cut(string(section.Data), "\n\n")
			c, err := replay.Read(strings.NewReader(recording), "calls.jsonl")
			if err != nil {
				t.Fatal(err)
			}
			c.Secrets = []string{"c0nfigured-t0ken"}
			r := mustRegistry(t, c, baseRegistry(t, known[section.Name]...))
			ctx := t.Context()
			got := transcript.Lines(t, calls, func(line string) string {
				if strings.HasPrefix(line, "[") {
					ctx = c.Cursor(t.Context(), strings.Trim(line, "[]"))
					return ""
				}
				fn, args, _ := strings.Cut(line, " ")
				return ask(ctx, r, fn, args)
			})
			for _, entry := range r.All() {
				spec := entry.Spec()
				got += fmt.Sprintf("\tfunction %s: %s, declared %t\n", spec.Name, spec.Effect, spec.EffectDeclared)
			}
			return recording + "\n\n" + got
		})
	})
}

func TestWithoutCursor(t *testing.T) {
	t.Parallel()
	one, r := load(t, baseRegistry(t), `{"fn":"f","result":1}`)
	other, _ := load(t, baseRegistry(t), `{"fn":"f","result":2}`)
	if got := ask(t.Context(), r, "f", `{}`); !strings.HasPrefix(got, string(fault.Internal)) {
		t.Errorf("got %s, want internal", got)
	}
	if got := ask(other.Cursor(t.Context(), ""), r, "f", `{}`); !strings.HasPrefix(got, string(fault.Internal)) {
		t.Errorf("with the cursor of another cassette: got %s, want internal", got)
	}
	if got := ask(other.Cursor(one.Cursor(t.Context(), ""), ""), r, "f", `{}`); got != "1" {
		t.Errorf("with both cursors: got %s, want 1", got)
	}
	ctx, cancel := context.WithCancel(one.Cursor(t.Context(), ""))
	cancel()
	if got := ask(ctx, r, "f", `{}`); !strings.HasPrefix(got, string(fault.Cancelled)) {
		t.Errorf("with a cancelled context: got %s, want cancelled", got)
	}
}

func TestInvalidName(t *testing.T) {
	t.Parallel()
	c, err := replay.Read(strings.NewReader(`{"fn":"a b","result":1}`), "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Registry(baseRegistry(t)); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("got %v, want bad_request", err)
	}
}

// hideKey is a Redact that hides the value of the argument key.
func hideKey(args []byte, stand func([]byte) []byte) []byte {
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

// TestAnotherSecret: a call with another secret than the recorded ones is not recorded, and the fault shows no secret.
func TestAnotherSecret(t *testing.T) {
	t.Parallel()
	c, r := load(t, baseRegistry(t, known["secrets"]...), `{"fn":"s.f","args":{"key":"by hand","n":3},"result":"not this"}`)
	if got := ask(c.Cursor(t.Context(), ""), r, "s.f", `{"n":3,"key":"topsecr3t"}`); !strings.HasPrefix(got, "not_recorded") ||
		strings.Contains(got, "topsecr3t") || strings.Contains(got, "by hand") {
		t.Errorf("a call with another secret: got %s, want not_recorded without the secrets", got)
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
		{Spec: steps.Spec{Name: "s.echo", Redact: hideKey},
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
		t.Errorf("the recording has %d lines, want %d", n, 1+len(want))
	}
	c, err := replay.Read(bytes.NewReader(file.Bytes()), "trip.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for name, registry := range map[string]*steps.Registry{"over the functions": original, "over nothing": baseRegistry(t)} {
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
		t.Errorf("another chain: got %s, want not_recorded", got[0])
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
