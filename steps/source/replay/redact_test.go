package replay_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// TestRedactedRecording: secrets that an answer repeats, and calls that the client cancelled, are not recorded.
func TestRedactedRecording(t *testing.T) {
	t.Parallel()
	var tape bytes.Buffer
	r := replay.NewRecorder(&tape, nil)
	spec := &steps.Spec{Name: "http.get", Redact: hideKey}
	r.Observe(t.Context(), spec, []byte(`{"key":"hunter22"}`), []byte(`{"you sent":"hunter22"}`), nil)
	r.Observe(t.Context(), spec, []byte(`{}`), nil, fault.New(fault.Cancelled, "the client cancelled"))
	r.Observe(t.Context(), spec, []byte(`{"key":"hunter22"}`), nil,
		&fault.Error{Code: fault.Denied, Message: "not hunter22", Body: []byte(`["hunter22"]`)})
	if text := tape.String(); strings.Contains(text, "hunter22") || strings.Count(text, "\n") != 3 || r.Err() != nil {
		t.Errorf("the recording shows a secret, or lacks a line:\n%s%v", text, r.Err())
	}
}

// TestLiteralDefaults: a secret in a function's defaults appears in no line and no signature, whoever wrote it, and a replay that has only
// the recording finds the call.
func TestLiteralDefaults(t *testing.T) {
	t.Parallel()
	var tape bytes.Buffer
	recorder := replay.NewRecorder(&tape, nil)
	registry, err := steps.NewRegistry([]steps.Function{{Call: func(_ context.Context, args []byte) ([]byte, error) { return args, nil },
		Spec: steps.Spec{
			Name: "s.f", Input: []byte(`{"type":"object","properties":{"apiKey":{"type":"string"},"n":{"type":"integer"}},"required":["apiKey"]}`),
			Defaults: []byte(`{"apiKey":"sk-live-12345","n":1,"deep":{"password":"sk-live-67890"}}`)}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := registry.Resolve("s.f")
	if err != nil {
		t.Fatal(err)
	}
	recorder.Functions([]*steps.Entry{entry})
	want := ask(t.Context(), registry.Observe(recorder.Observe), "s.f", `{}`)
	shown := tape.String() + entry.Signature() + string(entry.Spec().Input)
	if !strings.Contains(want, "sk-live") || strings.Contains(shown, "sk-live") {
		t.Errorf("the call gives %s, and the recording shows\n%s", want, shown)
	}
	c, err := replay.Read(&tape, "x")
	if err != nil {
		t.Fatal(err)
	}
	nothing, err := steps.NewRegistry(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	again := mustRegistry(t, c, nothing)
	got := ask(c.Cursor(t.Context(), ""), again, "s.f", `{}`)
	if digests.ReplaceAllString(got, "$1") == got || strings.HasPrefix(got, "not_recorded") {
		t.Errorf("the replay gives %s, want a recorded answer", got)
	}
}
