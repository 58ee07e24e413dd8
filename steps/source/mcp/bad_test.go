package mcp_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// messages collects warnings and log lines.
type messages struct {
	mu    sync.Mutex
	texts []string
}

func (h *messages) warn(f *fault.Error) { h.log(f.Error()) }

func (h *messages) log(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts = append(h.texts, line)
}

func (h *messages) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.texts, "\n")
}

// openBad opens a source on a misbehaving server.
func openBad(t *testing.T, kind string, change func(*mcpsource.Options)) (*mcpsource.Source, *messages) {
	t.Helper()
	h := &messages{}
	o := childOptions(t, kind)
	o.Warn = h.warn
	if change != nil {
		change(o)
	}
	return openSource(t, o), h
}

func TestFailedStarts(t *testing.T) {
	t.Parallel()
	short := func(o *mcpsource.Options) { o.StartTimeout = 300 * time.Millisecond }
	tests := []struct {
		kind   string
		change func(*mcpsource.Options)
		state  steps.State
		code   fault.Code
		want   string
	}{
		{"silent", short, steps.StateRetrying, fault.Unavailable, "not ready within 300ms"},
		{"at once", nil, steps.StateRetrying, fault.Unavailable, "exit status 4"},
		{"at once", nil, steps.StateRetrying, fault.Unavailable, "no api key: [redacted]"},
		{"prints", nil, steps.StateRetrying, fault.Unavailable, "Hello, I am a server"},
		{"version", nil, steps.StateFailed, fault.NotSupported, "version of MCP"},
		{"good", func(o *mcpsource.Options) { o.Command = "onecall-no-such-command" }, steps.StateFailed, fault.BadRequest, "install it"},
		{"good", func(o *mcpsource.Options) { o.Command = "./onecall-no-such-command" }, steps.StateFailed, fault.BadRequest, "install it"},
		{"good", func(o *mcpsource.Options) { o.Dir = "/no such dir" }, steps.StateFailed, fault.BadRequest, "correct cwd"},
		{"good", func(o *mcpsource.Options) { o.Command = "/etc/passwd" }, steps.StateFailed, fault.BadRequest, "permissions"},
	}
	for _, test := range tests {
		t.Run(test.kind+" "+test.want, func(t *testing.T) {
			t.Parallel()
			s, _ := openBad(t, test.kind, func(o *mcpsource.Options) {
				o.Env["SHELF_TOKEN"] = "topsecret1"
				if test.change != nil {
					test.change(o)
				}
			})
			status := await(t, s, test.state)
			if status.Error.Code != test.code || !strings.Contains(status.Error.Message, test.want) ||
				!strings.Contains(status.Error.Message, "shelf") {
				t.Errorf("got %v, want %s with %q", status.Error, test.code, test.want)
			}
			if strings.Contains(status.Error.Message, "topsecret1") {
				t.Errorf("the error shows a secret: %v", status.Error)
			}
			if (test.state == steps.StateRetrying) != !status.Retry.IsZero() {
				t.Errorf("state %s has the next start at %v, want one: %t", status.State, status.Retry, test.state == steps.StateRetrying)
			}
			if len(s.Functions()) != 0 {
				t.Error("a source that never started has functions")
			}
		})
	}
}

func TestGreetingOnStdoutIsTolerated(t *testing.T) {
	t.Parallel()
	s, h := openBad(t, "greeting", func(o *mcpsource.Options) { o.Env["SHELF_TOKEN"] = "topsecret1" })
	await(t, s, steps.StateReady)
	if got := mustCall(t, s, "shelf.a", `{}`); got != `"ok"` {
		t.Errorf("the call got %s, want ok", got)
	}
	if got := h.all(); !strings.Contains(got, "Server ready at token [redacted]") || !strings.Contains(got, "shelf") {
		t.Errorf("got warnings %q, want the redacted line and the source", got)
	}
}

func TestServerWithoutDiscover(t *testing.T) {
	t.Parallel()
	s, _ := openBad(t, "old", func(o *mcpsource.Options) { o.StartTimeout = 900 * time.Millisecond })
	await(t, s, steps.StateReady)
	if got := mustCall(t, s, "shelf.a", `{}`); got != "null" {
		t.Errorf("a result without content: got %s, want null", got)
	}
}

func TestFloodOnStderr(t *testing.T) {
	t.Parallel()
	sizes := make(chan int, 100)
	s, _ := openBad(t, "stderr", func(o *mcpsource.Options) {
		o.Log = func(line string) {
			select {
			case sizes <- len(line):
			default: // a hundred lines are enough
			}
		}
	})
	await(t, s, steps.StateReady)
	for range 20 {
		mustCall(t, s, "shelf.a", `{}`)
	}
	// The answers come over another pipe, so all of them may have been read before the first line.
	for range 10 {
		select {
		case n := <-sizes:
			if n > 4096+len("…") {
				t.Fatalf("a log line has %d bytes, want at most %d", n, 4096+len("…"))
			}
		case <-time.After(patience):
			t.Fatal("the flood was not logged")
		}
	}
}

func TestUnusualLists(t *testing.T) {
	t.Parallel()
	for kind, test := range map[string]struct {
		functions int
		warnings  []string
	}{
		"twice":   {4, []string{`"a" twice`, "without a name"}},
		"many":    {10_000, nil},
		"endless": {4, []string{"repeats a page"}},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, h := openBad(t, kind, nil)
			await(t, s, steps.StateReady)
			if n, warned := len(s.Functions()), h.all(); n != test.functions || (warned == "") != (test.warnings == nil) {
				t.Errorf("got %d functions, warnings %q, want %d and %q", n, warned, test.functions, test.warnings)
			}
			for _, want := range test.warnings {
				if !strings.Contains(h.all(), want) {
					t.Errorf("got warnings %q, want %q", h.all(), want)
				}
			}
			if kind != "twice" {
				return
			}
			if a := function(t, s, "shelf.a"); a.Description != "A." || strings.Contains(string(a.Input), "icons") {
				t.Errorf("the first of two tools with one name was not used: %q, want A. without icons", a.Description)
			}
		})
	}
}

// An answer that is too long fails only its own call.
func TestHugeAnswers(t *testing.T) {
	t.Parallel()
	s, _ := openBad(t, "huge", func(o *mcpsource.Options) { o.MaxMessageBytes = 1 << 20 })
	await(t, s, steps.StateReady)
	for _, position := range []string{"first", "last"} {
		f := mustFail(t.Context(), t, s, "shelf.a", `{"how":"`+position+`"}`, fault.LimitExceeded)
		if !strings.Contains(f.Message, "limits.maxResultBytes") {
			t.Errorf("the fault does not name limits.maxResultBytes: %v", f)
		}
		if got := mustCall(t, s, "shelf.a", `{}`); got != `"ok"` {
			t.Errorf("the call after a long answer: got %s, want ok", got)
		}
	}
	if s.Status().State != steps.StateReady {
		t.Errorf("got status %+v, want ready", s.Status())
	}
}
