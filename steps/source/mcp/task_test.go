package mcp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// taskServer runs its tool as a task.
type taskServer struct {
	rawServer
	answers map[string]string // by method about a task: its result, or the error that begins with !
	hangs   chan struct{}     // closed by the first tasks/result, which is not answered; nil: all are

	logMu sync.Mutex
	log   []string
}

func (s *taskServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	message := gjson.ParseBytes(body)
	method := message.Get("method").Str
	if method == "tools/call" || strings.HasPrefix(method, "tasks/") {
		s.logMu.Lock()
		s.log = append(s.log, method+message.Get("params.task").Raw+" "+message.Get("params.taskId").Str)
		s.logMu.Unlock()
	}
	if !strings.HasPrefix(method, "tasks/") {
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.rawServer.ServeHTTP(w, r)
		return
	}
	s.logMu.Lock()
	hangs := s.hangs
	if method == "tasks/result" {
		s.hangs = nil
	}
	s.logMu.Unlock()
	if method == "tasks/result" && hangs != nil {
		close(hangs)
		<-r.Context().Done()
		return
	}
	answer, refused := strings.CutPrefix(s.answers[method], "!")
	if !refused {
		answerJSON(w, message.Get("id").Raw, answer)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":%q}}`, message.Get("id").Raw, answer)
}

// openTasks opens a source whose only tool runs as a task.
func openTasks(t *testing.T, answers map[string]string) (*taskServer, steps.Call) {
	t.Helper()
	s := &taskServer{answers: answers}
	s.call = func(w http.ResponseWriter, _ *http.Request, id string) {
		answerJSON(w, id, `{"task":{"taskId":"t1","status":"working","createdAt":"2026-01-01T00:00:00Z","ttl":null}}`)
	}
	s.listed, s.changed = `{"name":"slow","execution":{"taskSupport":"required"}}`, make(chan struct{}, 1)
	source := openReady(t, &mcpsource.Options{Name: "net", URL: listen(t, s), Protocol: "2025-11-25"})
	return s, find(t, source.Functions(), "net.slow").Call
}

func (s *taskServer) wantLog(t *testing.T, want ...string) {
	t.Helper()
	s.logMu.Lock()
	defer s.logMu.Unlock()
	if !slices.Equal(s.log, want) {
		t.Errorf("the server was asked %q, want %q", s.log, want)
	}
}

const doneResult = `{"content":[{"type":"text","text":"done"}]}`

// TestTaskTools: a tool that runs only as a task is called as one, its task is reported before its result is awaited, and the call ends
// with the task's result.
func TestTaskTools(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		result, status string
		code           fault.Code
		outcome        fault.Outcome
	}{
		{doneResult, "completed", "", fault.Applied},
		{`{"content":[{"type":"text","text":"no"}],"isError":true}`, "failed", fault.FunctionFailed, fault.Failed},
		{"!no", "failed", fault.BadArguments, fault.Failed},
		{"!gone", "working", fault.BadArguments, fault.SentUnknown},
	} {
		s, call := openTasks(t, map[string]string{"tasks/result": test.result, "tasks/get": `{"taskId":"t1","status":"` + test.status + `"}`})
		reported := ""
		value, err := call(steps.WithTask(t.Context(), &steps.Task{Report: func(id string) error {
			reported = id
			s.wantLog(t, `tools/call{} `)
			return nil
		}}), []byte(`{}`))
		if fault.CodeOf(err) != test.code || fault.OutcomeOf(err) != test.outcome || err == nil && string(value) != `"done"` || reported != "t1" {
			t.Errorf("%s: got %s, %v (%s) and task %q, want code %q, outcome %s and task t1", test.result, value, err, fault.OutcomeOf(err),
				reported, test.code, test.outcome)
		}
	}
}

// TestTaskOfEarlierAttempt: a call whose earlier attempt has left a task asks for it, and is not made again. If the server does not know
// the task, it is not known what the call did.
func TestTaskOfEarlierAttempt(t *testing.T) {
	t.Parallel()
	for status, outcome := range map[string]fault.Outcome{
		`{"taskId":"t0","status":"working"}`: fault.Applied,
		"!no such task":                      fault.SentUnknown,
	} {
		s, call := openTasks(t, map[string]string{"tasks/result": doneResult, "tasks/get": status})
		_, err := call(steps.WithTask(t.Context(), &steps.Task{Known: "t0"}), []byte(`{}`))
		if got := fault.OutcomeOf(err); got != outcome {
			t.Errorf("%s: got %v (%s), want %s", status, err, got, outcome)
		}
		want := []string{"tasks/get t0", "tasks/result t0"}
		if outcome == fault.SentUnknown {
			want = want[:1]
		}
		s.wantLog(t, want...)
	}
}

// TestTaskOverTime: a call whose time is over cancels its task, and is sent_unknown unless the task is seen cancelled or done.
func TestTaskOverTime(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		cancel, status string
		outcome        fault.Outcome
	}{
		{`{"taskId":"t1","status":"cancelled"}`, "", fault.Failed},
		{"!it has ended", "completed", fault.Applied},
		{"!not supported", "working", fault.SentUnknown},
	} {
		s, call := openTasks(t, map[string]string{"tasks/result": doneResult, "tasks/cancel": test.cancel,
			"tasks/get": `{"taskId":"t1","status":"` + test.status + `"}`})
		ctx, cancel := context.WithCancel(t.Context())
		hangs := make(chan struct{})
		s.hangs = hangs
		go func() {
			<-hangs
			cancel()
		}()
		_, err := call(ctx, []byte(`{}`))
		var f *fault.Error
		if got := fault.OutcomeOf(err); got != test.outcome || err != nil && (!errors.As(err, &f) || f.Code != fault.Cancelled) {
			t.Errorf("%s: got %v (%s), want %s", test.cancel, err, got, test.outcome)
		}
	}
}
