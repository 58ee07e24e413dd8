package mcp_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// TestMatrixOfRecordings: if calls are answered from a recording, its content about functions that a caller may not use is hidden like the
// functions, and so are functions that only the recording has.
func TestMatrixOfRecordings(t *testing.T) {
	t.Parallel()
	for name, a := range rightsOfMatrix() {
		for i, surface := range []string{"chain", "hybrid"} {
			t.Run(name+"/"+surface, func(t *testing.T) {
				t.Parallel()
				whole := serveRecorded(t, a, allFunctions)
				lacking := serveRecorded(t, a, func(spec *steps.Spec) bool { return mayUse(a, spec) })
				tryWorlds(t, a, whole, lacking, surface, statefulVersion, i)
				for _, m := range whole.all {
					if !m.recordedOnly && m.calls.Load() > 0 {
						t.Errorf("%s was called instead of replayed", m.Spec.Name)
					}
				}
			})
		}
	}
}

// serveRecorded serves a world whose calls are answered from a recording, which has two further functions.
func serveRecorded(t *testing.T, a steps.Caller, exists func(*steps.Spec) bool) *worldServer {
	t.Helper()
	functions := markedFunctions()
	for _, effect := range []steps.Effect{steps.Read, steps.Write} {
		m := newMarked(320+int(effect), mixedSource+".taped", false, kindOfFunction{effect: effect})
		m.recordedOnly = true
		functions = append(functions, m)
	}
	var lines bytes.Buffer
	for _, m := range functions {
		if !exists(&m.Spec) || m.source() == personalSource { // calls with a caller's own credential are not recorded
			continue
		}
		for _, args := range []string{m.validArgs(), fmt.Sprintf(`{%q:"plain","extra":%q}`, m.mark(inArgument), m.mark(inRecording)),
			fmt.Sprintf(`{%q:"plain","count":2000}`, m.mark(inArgument))} {
			effect := ""
			if m.recordedOnly {
				effect = fmt.Sprintf(`,"effect":%q`, m.Spec.Effect)
			} else {
				args = strings.TrimSuffix(args, "}") + fmt.Sprintf(`,"extra":%q}`, m.mark(inDefault))
				args = strings.Replace(args, fmt.Sprintf(`"extra":%q,`, m.mark(inRecording)), "", 1)
			}
			items := strings.Repeat(fmt.Sprintf(`{"of":%q},`, m.mark(inResult)), 3+2000*strings.Count(args, `"count":2000`))
			fmt.Fprintf(&lines, `{"fn":%q,"args":%s,"result":{%q:%q,"items":[%s]}%s}`+"\n", m.Spec.Name, args, m.mark(inOutput),
				m.mark(inRecording), strings.TrimSuffix(items, ","), effect)
		}
	}
	cassette, err := replay.Read(&lines, "tape.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	w := serveThrough(t, a, exists, cassette.Registry, func(o *mcp.Options) {
		o.Context = func(ctx context.Context, _ []byte) context.Context { return cassette.Cursor(ctx, "") }
	})
	w.all = functions
	return w
}
