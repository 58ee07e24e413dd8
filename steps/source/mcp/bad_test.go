package mcp

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// messages gathers warnings and log lines.
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

// openBad opens a source on a server that does what it should not.
func openBad(t *testing.T, kind string, change func(*Options)) (*Source, *messages) {
	t.Helper()
	h := &messages{}
	o := child(t, kind)
	o.Warn = h.warn
	if change != nil {
		change(o)
	}
	return openSource(t, o), h
}

func TestServersThatDoNotStart(t *testing.T) {
	t.Parallel()
	short := func(o *Options) { o.StartTimeout = 300 * time.Millisecond }
	tests := []struct {
		kind   string
		change func(*Options)
		state  steps.State
		code   fault.Code
		want   string
	}{
		{"silent", short, steps.StateRetrying, fault.Unavailable, "not ready within 300ms"},
		{"at once", nil, steps.StateRetrying, fault.Unavailable, "exit status 4"},
		{"at once", nil, steps.StateRetrying, fault.Unavailable, "no api key: [redacted]"},
		{"prints", nil, steps.StateRetrying, fault.Unavailable, "Hello, I am a server"},
		{"version", nil, steps.StateFailed, fault.NotSupported, "versions of MCP"},
		{"good", func(o *Options) { o.Command = "onecall-no-such-command" }, steps.StateFailed, fault.BadRequest, "install it"},
		{"good", func(o *Options) { o.Command = "./onecall-no-such-command" }, steps.StateFailed, fault.BadRequest, "install it"},
		{"good", func(o *Options) { o.Dir = "/no such dir" }, steps.StateFailed, fault.BadRequest, "correct cwd"},
		{"good", func(o *Options) { o.Command = "/etc/passwd" }, steps.StateFailed, fault.BadRequest, "permissions"},
	}
	for _, test := range tests {
		t.Run(test.kind+" "+test.want, func(t *testing.T) {
			t.Parallel()
			s, _ := openBad(t, test.kind, func(o *Options) {
				o.Env["SHELF_TOKEN"] = "topsecret1"
				if test.change != nil {
					test.change(o)
				}
			})
			status := await(t, s, test.state)
			if status.Error.Code != test.code || !strings.Contains(status.Error.Message, test.want) || !strings.Contains(status.Error.Message, "shelf") {
				t.Errorf("%v, want %s with %q", status.Error, test.code, test.want)
			}
			if strings.Contains(status.Error.Message, "topsecret1") {
				t.Errorf("the error shows a secret: %v", status.Error)
			}
			if (test.state == steps.StateRetrying) != !status.Retry.IsZero() {
				t.Errorf("%s, tried again at %v", status.State, status.Retry)
			}
			if len(s.Functions()) != 0 {
				t.Error("there are functions")
			}
		})
	}
}

// A server that needs a login is tried again seldom, and a call of a function that is known says so.
func TestFailedServerAnswersCalls(t *testing.T) {
	t.Parallel()
	s, _ := openBad(t, "good", func(o *Options) { o.Command = "onecall-no-such-command" })
	await(t, s, steps.StateFailed)
	start := time.Now()
	_, err := s.call(t.Context(), &tool{name: "a", function: "shelf.a"}, []byte(`{}`))
	f, _ := fault.As(err)
	if f == nil || f.Code != fault.BadRequest || f.Outcome != fault.NotSent || !strings.Contains(f.Message, "install it") {
		t.Errorf("%v", err)
	}
	if time.Since(start) > patience/2 {
		t.Error("it took too long")
	}
}

func TestGreetingOnStdoutIsTolerated(t *testing.T) {
	t.Parallel()
	s, h := openBad(t, "greeting", func(o *Options) { o.Env["SHELF_TOKEN"] = "topsecret1" })
	await(t, s, steps.StateReady)
	if got := mustCall(t, s, "shelf.a", `{}`); got != `"ok"` {
		t.Errorf("it answers %s", got)
	}
	if got := h.all(); !strings.Contains(got, "Server ready at token [redacted]") || !strings.Contains(got, "shelf") {
		t.Errorf("warnings %q", got)
	}
}

func TestServerThatKnowsOldGreetingOnly(t *testing.T) {
	t.Parallel()
	s, _ := openBad(t, "old", func(o *Options) { o.StartTimeout = 900 * time.Millisecond })
	await(t, s, steps.StateReady)
	if got := mustCall(t, s, "shelf.a", `{}`); got != "null" {
		t.Errorf("no content became %s", got)
	}
}

func TestFloodOnStderr(t *testing.T) {
	t.Parallel()
	sizes := make(chan int, 100)
	s, _ := openBad(t, "stderr", func(o *Options) {
		o.Log = func(line string) {
			select {
			case sizes <- len(line):
			default: // the flood goes on; a hundred lines are enough to look at
			}
		}
	})
	await(t, s, steps.StateReady)
	for range 20 {
		mustCall(t, s, "shelf.a", `{}`)
	}
	// The answers come over another pipe: a busy machine may have read all of them before the first line.
	for range 10 {
		select {
		case n := <-sizes:
			if n > maxLogLine+len("…") {
				t.Fatalf("a line of %d bytes", n)
			}
		case <-time.After(patience):
			t.Fatal("nothing of the flood is logged")
		}
	}
}

func TestOddLists(t *testing.T) {
	t.Parallel()
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		s, h := openBad(t, "twice", nil)
		await(t, s, steps.StateReady)
		if n := len(s.Functions()); n != 4 {
			t.Errorf("%d functions, want 4", n)
		}
		a := function(t, s, "shelf.a")
		if a.Description != "A." || strings.Contains(string(a.Input), "icons") {
			t.Errorf("the first was not kept: %q", a.Description)
		}
		if got := h.all(); !strings.Contains(got, `"a" twice`) || !strings.Contains(got, "without a name") {
			t.Errorf("warnings %q", got)
		}
	})
	t.Run("many", func(t *testing.T) {
		t.Parallel()
		s, h := openBad(t, "many", nil)
		await(t, s, steps.StateReady)
		if n := len(s.Functions()); n != 10_000 || h.all() != "" {
			t.Errorf("%d functions, warnings %q", n, h.all())
		}
	})
	t.Run("endless", func(t *testing.T) {
		t.Parallel()
		s, h := openBad(t, "endless", nil)
		await(t, s, steps.StateReady)
		if n := len(s.Functions()); n == 0 || !strings.Contains(h.all(), "circles") {
			t.Errorf("%d functions, warnings %q", n, h.all())
		}
	})
}

// An answer that is too long fails its own call; the stream goes on behind it.
func TestHugeAnswers(t *testing.T) {
	t.Parallel()
	s, _ := openBad(t, "huge", func(o *Options) { o.MaxMessageBytes = 1 << 20 })
	await(t, s, steps.StateReady)
	for _, how := range []string{"first", "last"} {
		f := mustFail(t.Context(), t, s, "shelf.a", `{"how":"`+how+`"}`, fault.LimitExceeded)
		if !strings.Contains(f.Message, "1048576") || !strings.Contains(f.Message, "limits.maxResultBytes") {
			t.Errorf("%v", f)
		}
		if got := mustCall(t, s, "shelf.a", `{}`); got != `"ok"` {
			t.Errorf("after it: %s", got)
		}
	}
	if s.Status().State != steps.StateReady {
		t.Errorf("%+v", s.Status())
	}
}

// A server that does not read holds up nobody longer than they want to wait.
func TestDeafServer(t *testing.T) {
	t.Parallel()
	s, _ := openBad(t, "deaf", nil)
	await(t, s, steps.StateReady)
	conn, ok := s.conn.transport.conn.(*stdioConn)
	if !ok {
		t.Fatal("no connection over stdio")
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		poll(func() bool { return len(conn.writing) > 0 })
		time.Sleep(100 * time.Millisecond) // the pipe is full
		cancel()
	}()
	args := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	if f := mustFail(ctx, t, s, "shelf.a", args, fault.Cancelled); f.Outcome != fault.SentUnknown {
		t.Errorf("half a message was written: %+v", f)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if f := mustFail(ctx, t, s, "shelf.a", `{}`, fault.Timeout); f.Outcome != fault.NotSent {
		t.Errorf("nothing was written: %+v", f)
	}
}

func TestMuteInCalls(t *testing.T) {
	t.Parallel()
	s, _ := openBad(t, "mute in calls", nil)
	await(t, s, steps.StateReady)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	mustFail(ctx, t, s, "shelf.a", `{}`, fault.Timeout)
}
