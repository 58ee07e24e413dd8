package mcp_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// fakeWorkers carry out runs in this process, and outlive the servers that hand over the runs.
type fakeWorkers struct {
	engine  *chain.Engine
	catalog *steps.Catalog

	mu   sync.Mutex
	down bool // they do not answer
	runs map[string]*fakeWork
}

type fakeWork struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed when the run has ended
	answer chain.HandedAnswer
}

var _ chain.Workers = (*fakeWorkers)(nil)

func (w *fakeWorkers) Start(_ context.Context, run *chain.HandedRun) *fault.Error {
	ctx, cancel := context.WithCancel(context.Background())
	work := &fakeWork{cancel: cancel, ended: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[run.ID] = work
	caller := &chain.Caller{ID: run.Caller.ID, Rights: run.Results, Functions: steps.NewView(w.catalog, run.Caller.Rights.Allows)}
	go func() {
		defer close(work.ended)
		polltest.Try(ctx, func() bool { // the server may still have the lease
			work.answer.Answer = w.engine.Run(ctx, []byte(`{"key":"`+run.Key+`"}`), caller)
			return work.answer.Answer.OK || work.answer.Answer.Error.Code != fault.Busy
		})
		if past, err := w.engine.Journal().Read(context.Background(), run.Run, &caller.ID); err == nil {
			work.answer.Lease, work.answer.Rights = past.Row.LastLease, run.Results
		}
	}()
	return nil
}

var errDown = fault.New(fault.Unavailable, "no server answers")

func (w *fakeWorkers) work(id string) (*fakeWork, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return nil, errDown
	}
	return w.runs[id], nil
}

// setDown sets whether the workers answer.
func (w *fakeWorkers) setDown(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
}

func (w *fakeWorkers) State(_ context.Context, id string) (running, idle bool, err error) {
	work, err := w.work(id)
	if err != nil || work == nil {
		return false, false, err
	}
	select {
	case <-work.ended:
		return false, false, nil
	default:
		return true, false, nil
	}
}

func (w *fakeWorkers) Answer(ctx context.Context, id string) (*chain.HandedAnswer, error) {
	work, err := w.work(id)
	switch {
	case err != nil:
		return nil, err
	case work == nil:
		return nil, fault.New(fault.TokenExpired, "unknown")
	}
	select {
	case <-work.ended:
		return &work.answer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *fakeWorkers) Cancel(_ context.Context, id string) error {
	work, err := w.work(id)
	if err == nil {
		work.cancel()
	}
	return err
}

// share gives servers the same engine, journal and workers.
func (w *fakeWorkers) share(t *testing.T) func(*mcp.Options) {
	runs := newJournal(t)
	w.runs = map[string]*fakeWork{}
	return func(o *mcp.Options) {
		if w.engine == nil {
			withJournal(t, runs)(o)
			w.engine, w.catalog = o.Engine, o.Catalog
		}
		o.Engine, o.Workers = w.engine, w
	}
}

// TestDurableRuns: a run at workers outlives the server that handed it over. Its caller follows it at another server, and gets its answer
// there. Other callers learn nothing of it.
func TestDurableRuns(t *testing.T) {
	t.Parallel()
	share := new(fakeWorkers).share(t)
	first := serve(t, share)
	begun, _ := mcptest.Ask(t, first.stdio(t, writer, nil), "chain", `{"steps":[{"fn":"shop.slow"},{"expr":"$0 + '!'"}],"durable":true}`)
	id := gjson.Get(begun, "run").Str
	if id == "" || gjson.Get(begun, "status").Str != "running" {
		t.Fatalf("got %s, want a run that is running", begun)
	}
	<-first.shop.started
	second := serve(t, share)
	client := second.stdio(t, writer, nil)
	first.Server.Close()
	report, _ := mcptest.Ask(t, client, "info", `{"run":"`+id+`"}`)
	if gjson.Get(report, "status").Str != "running" || gjson.Get(report, "note").Str != "a worker carries it out" {
		t.Errorf("got %s, want running, carried out by a worker", report)
	}
	first.shop.finish <- struct{}{}
	polltest.Until(t, "the run has ended", func() bool {
		report, _ = mcptest.Ask(t, client, "info", `{"run":"`+id+`"}`)
		return gjson.Get(report, "status").Str != "running"
	})
	if answer, _ := mcptest.Ask(t, client, "chain", gjson.Get(report, "fetch").Raw); gjson.Get(answer, "result").Str != "late!" {
		t.Errorf("report %s, answer %s, want late!", report, answer)
	}
	third := serve(t, share)
	report, _ = mcptest.Ask(t, third.stdio(t, writer, nil), "info", `{"run":"`+id+`"}`)
	if gjson.Get(report, "status").Str != "ok" || !gjson.Get(report, "fetch").Exists() {
		t.Errorf("report of a third server: %s, want ok and a fetch", report)
	}
	if other, failed := mcptest.Ask(t, third.stdio(t, reader, nil), "info", `{"run":"`+id+`"}`); !failed {
		t.Errorf("another caller gets the run: %s", other)
	}
}

// TestDurableRunResumedInServer: a run that failed at workers and was then resumed in a server has the server's result at every server.
func TestDurableRunResumedInServer(t *testing.T) {
	t.Parallel()
	workers := new(fakeWorkers)
	client := serve(t, workers.share(t)).stdio(t, writer, nil)
	begun, _ := mcptest.Ask(t, client, "chain", `{"steps":[{"expr":"'a'"},{"expr":"int($0)"}],"durable":true}`)
	id := gjson.Get(begun, "run").Str
	status := func() string {
		report, _ := mcptest.Ask(t, client, "info", `{"run":"`+id+`"}`)
		return gjson.Get(report, "status").Str
	}
	polltest.Until(t, "the run has failed", func() bool { return status() == "failed" })
	resumed, _ := mcptest.Ask(t, client, "chain", `{"resume":"`+id+`","replace":{"1":{"expr":"42"}},"durable":false,"lite":true}`)
	if resumed != "42" || status() != "ok" {
		t.Errorf("resume answers %s, want 42; then the status is %s", resumed, status())
	}
}

// TestDurableAnswerRights: a caller does not get an answer that was made when it had more rights.
func TestDurableAnswerRights(t *testing.T) {
	t.Parallel()
	url := serve(t, new(fakeWorkers).share(t)).serveAs(t, &transport.Access{Callers: mcptest.Callers{
		"strong": {ID: "jwt:one", Rights: steps.Rights{Tier: steps.TierAdmin}},
		"weak":   {ID: "jwt:one", Rights: steps.Rights{Tier: steps.TierRead, Functions: "shop.item.*"}},
	}})
	strong, weak := staffClient(t, url, "strong"), staffClient(t, url, "weak")
	args := `{"run":"` + strong("chain", `{"steps":[{"fn":"shop.vault.purge","args":{}}],"durable":true}`).Get("run").Str + `"}`
	polltest.Until(t, "the run has ended", func() bool { return strong("info", args).Get("fetch").Exists() })
	if report := weak("info", args); report.Get("fetch").Exists() || report.Get("status").Str == "" {
		t.Errorf("a caller with fewer rights gets the answer: %s", report)
	}
}

// TestDurableAnswerAfterRefusedResume: a resume that is refused does not hide the answer of the run.
func TestDurableAnswerAfterRefusedResume(t *testing.T) {
	t.Parallel()
	client := serve(t, new(fakeWorkers).share(t)).stdio(t, writer, nil)
	begun, _ := mcptest.Ask(t, client, "chain", `{"steps":[{"expr":"'a'"},{"expr":"int($0)"}],"durable":true}`)
	id := gjson.Get(begun, "run").Str
	hasAnswer := func() bool {
		report, _ := mcptest.Ask(t, client, "info", `{"run":"`+id+`"}`)
		return gjson.Get(report, "fetch").Exists()
	}
	polltest.Until(t, "the run has failed", hasAnswer)
	if refused, failed := mcptest.Ask(t, client, "chain", `{"resume":"`+id+`","replace":{"7":{"expr":"42"}}}`); !failed || !hasAnswer() {
		t.Errorf("the answer is hidden after the refused resume: %s", refused)
	}
}

// noWorkers take runs and never begin them.
type noWorkers struct{ *fakeWorkers }

func (w *noWorkers) Start(_ context.Context, run *chain.HandedRun) *fault.Error {
	work := &fakeWork{ended: make(chan struct{})}
	work.answer.Fault = fault.New(fault.Cancelled, "it was cancelled before a worker carried it out")
	work.cancel = func() { close(work.ended) }
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[run.ID] = work
	return nil
}

// TestWaitingDurableRuns: the server does not also carry out a run that waits for a worker. Once the run is cancelled, it no longer counts
// towards the caller's limit.
func TestWaitingDurableRuns(t *testing.T) {
	t.Parallel()
	workers := &noWorkers{new(fakeWorkers)}
	share := workers.share(t)
	s := serve(t, func(o *mcp.Options) {
		share(o)
		o.CallerCalls, o.Workers = 4, workers
	})
	client := taskClient(t, s, "bob") // bob's token allows only some functions
	for i := range 3 {
		request := fmt.Sprintf(`{"name":"chain","arguments":{"steps":[{"fn":"shop.slow"}],"async":true,"key":"%d"`, i)
		id := client("tools/call", request+"}").Get("taskId").Str
		if repeated := client("tools/call", request+`,"durable":false}`); id == "" || repeated.Get("taskId").Str != id {
			t.Fatalf("run %d: id %q, then %s, want the same id", i, id, repeated.Raw)
		}
		client("tasks/cancel", `{"taskId":"`+id+`"`)
		if task := client("tasks/get", `{"taskId":"`+id+`"`); task.Get("status").Str != "cancelled" {
			t.Errorf("run %d: got %s, want cancelled", i, task.Raw)
		}
	}
	if s.shop.calls.Load() != 0 {
		t.Error("the server carried out a run")
	}
}

// TestTooManyDurableRuns: a caller may have as many runs at workers as in the background.
func TestTooManyDurableRuns(t *testing.T) {
	t.Parallel()
	workers := new(fakeWorkers)
	share := workers.share(t)
	s := serve(t, func(o *mcp.Options) {
		share(o)
		o.CallerCalls = 4
	})
	client := s.stdio(t, writer, nil)
	for i, want := range []string{"", "busy"} {
		answer, _ := mcptest.Ask(t, client, "chain", fmt.Sprintf(`{"steps":[{"fn":"shop.slow"}],"durable":true,"key":"%d"}`, i))
		if gjson.Get(answer, "error.code").Str != want {
			t.Errorf("run %d: got %s, want code %q", i, answer, want)
		}
	}
	s.shop.finish <- struct{}{}
}

// TestDurableTasks: clients that accept tasks follow and cancel runs at workers, at any server.
func TestDurableTasks(t *testing.T) {
	t.Parallel()
	workers := new(fakeWorkers)
	share := workers.share(t)
	first := serve(t, share)
	one := taskClient(t, first, "ann")
	task := one("tools/call", `{"name":"chain","arguments":{"steps":[{"fn":"shop.slow"}],"durable":true}`)
	id := task.Get("taskId").Str
	if task.Get("resultType").Str != "task" || id == "" {
		t.Fatalf("got %s, want a task with an id", task.Raw)
	}
	<-first.shop.started
	other := taskClient(t, serve(t, share), "ann")
	params := `{"taskId":"` + id + `"`
	for down, note := range map[bool]string{true: "does not answer", false: "a worker carries it out"} {
		workers.setDown(down)
		now := other("tasks/get", params)
		if now.Get("status").Str != "working" || !strings.Contains(now.Get("statusMessage").Str, note) {
			t.Errorf("workers down: %t: got %s, want %q", down, now.Raw, note)
		}
	}
	workers.setDown(false)
	other("tasks/cancel", params)
	for _, client := range []func(method, params string) gjson.Result{one, other} {
		polltest.Until(t, "the task has ended", func() bool { return client("tasks/get", params).Get("status").Str != "working" })
		if status := client("tasks/get", params).Get("status").Str; status != "cancelled" {
			t.Errorf("status %s, want cancelled", status)
		}
	}
}

// taskClient returns a function that makes requests of a client that accepts tasks, and returns their results.
func taskClient(t *testing.T, s *testServer, token string) func(method, params string) gjson.Result {
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	declared := strings.Replace(mcptest.StatelessMeta, `"io.modelcontextprotocol/clientCapabilities":{`,
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}`, 1)
	return func(method, params string) gjson.Result {
		t.Helper()
		header := mcptest.Header{"Authorization": "Bearer " + token, "Mcp-Protocol-Version": statelessVersion, "Mcp-Method": method,
			"Mcp-Name": gjson.Get(params+"}", "taskId").Str}
		if method == "tools/call" {
			header["Mcp-Name"] = "chain"
		}
		_, text := mcptest.Send(t, "POST", url, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+declared+`}}`, header)
		return gjson.Get(lastMessage(text), "result")
	}
}
