package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	metas []string // the _meta of each tools/call and tasks/result
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
		if method == "tools/call" || method == "tasks/result" {
			s.metas = append(s.metas, message.Get("params._meta").Raw)
		}
		s.logMu.Unlock()
	}
	if !strings.HasPrefix(method, "tasks/") {
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.rawServer.ServeHTTP(w, r)
		return
	}
	s.logMu.Lock()
	hangs, token := s.hangs, ""
	if len(s.metas) > 0 {
		token = gjson.Get(s.metas[0], "progressToken").Raw
	}
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
	if progress := s.answers["progress"]; progress != "" && method == "tasks/result" {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, text := range []string{
			fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":%q}}`,
				token, progress),
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"slow"}}`,
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, message.Get("id").Raw, answer),
		} {
			fmt.Fprintf(w, "data: %s\n\n", text)
		}
		return
	}
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
	s, source := openTaskSource(t, answers)
	return s, find(t, source.Functions(), "net.slow").Call
}

func openTaskSource(t *testing.T, answers map[string]string) (*taskServer, *mcpsource.Source) {
	t.Helper()
	s := &taskServer{answers: answers}
	s.call = func(w http.ResponseWriter, _ *http.Request, id string) {
		answerJSON(w, id, `{"task":{"taskId":"t1","status":"working","createdAt":"2026-01-01T00:00:00Z","ttl":null}}`)
	}
	s.listed, s.changed = `{"name":"slow","execution":{"taskSupport":"required"}}`, make(chan struct{}, 1)
	return s, openReady(t, &mcpsource.Options{Name: "net", URL: listen(t, s), Protocol: "2025-11-25"})
}

// takeMetas returns and forgets the recorded _meta.
func (s *taskServer) takeMetas() []string {
	s.logMu.Lock()
	defer s.logMu.Unlock()
	metas := s.metas
	s.metas = nil
	return metas
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

// TestTaskCarriesMeta: the requests of a task have the _meta of an ordinary call. The call's progress token is valid until the task ends, so
// progress reaches the callbacks and puts off the call's limit; log messages reach them, too.
func TestTaskCarriesMeta(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s, source := openTaskSource(t, map[string]string{"tasks/result": doneResult, "progress": "half"})
	session := openSession(t, source, &mcpsource.DownstreamClient{Protocol: "2025-11-25"})
	for name, base := range map[string]context.Context{
		"source": t.Context(),
		"session": session.CallContext(t.Context(),
			json.RawMessage(`{"_meta":{"mine":1,"traceparent":"theirs","progressToken":"theirs"}}`)),
	} {
		ctx, cancel := steps.WithPatience(steps.WithTrace(base, parent, ""), time.Hour)
		var mu sync.Mutex
		var told []string
		ctx = steps.WithCallbacks(ctx, &steps.Callbacks{
			Progress: func(_ context.Context, _, _ float64, message string) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, message)
			},
			Log: func(_ context.Context, level, _ string, data []byte) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, level+" "+string(data))
			},
		})
		if _, err := find(t, source.Functions(), "net.slow").Call(ctx, []byte(`{}`)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, progressed := steps.Progressed(ctx); !progressed {
			t.Errorf("%s: progress does not put off the call's limit", name)
		}
		cancel()
		want := []string{"half", `warning "slow"`}
		if name == "session" { // the client gets log messages itself
			want = want[:1]
		}
		slices.Sort(told)
		if !slices.Equal(told, want) {
			t.Errorf("%s: the callbacks got %q, want %q", name, told, want)
		}
		metas := s.takeMetas()
		if len(metas) != 2 {
			t.Fatalf("%s: got %d requests, want 2", name, len(metas))
		}
		for i, meta := range metas {
			m := gjson.Parse(meta)
			if m.Get("traceparent").Str != parent || m.Get("mine").Exists() != (name == "session") ||
				(m.Get("progressToken").Type == gjson.Number) != (i == 0) {
				t.Errorf("%s: request %d has _meta %s", name, i, meta)
			}
		}
	}
}
