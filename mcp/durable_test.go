package mcp_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// fakeWorkers carry out runs in this process, and outlive the servers that give them runs.
type fakeWorkers struct {
	engine  *chain.Engine
	catalog *steps.Catalog

	mu   sync.Mutex
	runs map[string]*fakeWork // by caller and key
}

type fakeWork struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed once it has
	answer *chain.Answer
}

var _ mcp.Durable = (*fakeWorkers)(nil)

func (*fakeWorkers) NewKey() string { return "made" }

func (w *fakeWorkers) Start(_ context.Context, run *chain.DurableRun, c *mcp.DurableCaller) *fault.Error {
	ctx, cancel := context.WithCancel(context.Background())
	work := &fakeWork{cancel: cancel, ended: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[c.ID+" "+run.Key] = work
	request := []byte(`{"key":"` + run.Key + `",` + string(run.Chain[1:]))
	caller := &chain.Caller{ID: c.ID, Rights: c.Results, Functions: steps.NewView(w.catalog, c.Caller.Rights.Allows)}
	go func() {
		defer close(work.ended)
		mcptest.Until(func() bool { // the server's lease may still be taken
			work.answer = w.engine.Run(ctx, request, caller)
			return work.answer.OK || work.answer.Error.Code != fault.Busy
		})
	}()
	return nil
}

func (w *fakeWorkers) of(caller, key string) *fakeWork {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[caller+" "+key]
}

func (w *fakeWorkers) Wait(ctx context.Context, caller, key string, _ func()) (*chain.Answer, error) {
	work := w.of(caller, key)
	if work == nil {
		return nil, fault.New(fault.TokenExpired, "unknown")
	}
	select {
	case <-work.ended:
		return work.answer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *fakeWorkers) Running(_ context.Context, caller, key string) (bool, error) {
	work := w.of(caller, key)
	if work == nil {
		return false, nil
	}
	select {
	case <-work.ended:
		return false, nil
	default:
		return true, nil
	}
}

func (w *fakeWorkers) Cancel(_ context.Context, caller, key string) error {
	w.of(caller, key).cancel()
	return nil
}

// share gives servers the same engine, journal and workers.
func (w *fakeWorkers) share(t *testing.T) func(*mcp.Options) {
	runs := newRuns(t)
	w.runs = map[string]*fakeWork{}
	return func(o *mcp.Options) {
		if w.engine == nil {
			remembering(t, runs)(o)
			w.engine, w.catalog = o.Engine, o.Catalog
		}
		o.Engine, o.Durable = w.engine, w
	}
}

// TestDurableRuns: a run that workers have outlives the server that gave it to them. Its caller follows it at another server, and gets
// its answer there; others learn nothing of it.
func TestDurableRuns(t *testing.T) {
	t.Parallel()
	share := new(fakeWorkers).share(t)
	first := serve(t, share)
	begun, _ := mcptest.Ask(t, first.stdio(t, writer, nil), "chain", `{"steps":[{"fn":"shop.slow"},{"expr":"$0 + '!'"}],"durable":true}`)
	id := gjson.Get(begun, "run").Str
	if id == "" || gjson.Get(begun, "status").Str != "running" {
		t.Fatal(begun)
	}
	<-first.shop.started
	second := serve(t, share)
	client := second.stdio(t, writer, nil)
	first.Server.Close()
	report, _ := mcptest.Ask(t, client, "info", `{"run":"`+id+`"}`)
	if gjson.Get(report, "status").Str != "running" || gjson.Get(report, "note").Str != "a worker carries it out" {
		t.Error(report)
	}
	first.shop.enough <- struct{}{}
	mcptest.Until(func() bool {
		report, _ = mcptest.Ask(t, client, "info", `{"run":"`+id+`"}`)
		return gjson.Get(report, "status").Str != "running"
	})
	if answer, _ := mcptest.Ask(t, client, "chain", gjson.Get(report, "fetch").Raw); gjson.Get(answer, "result").Str != "late!" {
		t.Errorf("%s: %s", report, answer)
	}
	third := serve(t, share)
	report, _ = mcptest.Ask(t, third.stdio(t, writer, nil), "info", `{"run":"`+id+`"}`)
	if gjson.Get(report, "status").Str != "ok" || !gjson.Get(report, "fetch").Exists() {
		t.Errorf("a server that begins later: %s", report)
	}
	if other, failed := mcptest.Ask(t, third.stdio(t, reader, nil), "info", `{"run":"`+id+`"}`); !failed {
		t.Errorf("another caller: %s", other)
	}
}

// TestDurableTasks: clients of tasks follow and cancel the runs that workers have, at any server.
func TestDurableTasks(t *testing.T) {
	t.Parallel()
	share := new(fakeWorkers).share(t)
	first := serve(t, share)
	one := taskClient(t, first)
	task := one("tools/call", `{"name":"chain","arguments":{"steps":[{"fn":"shop.slow"}],"durable":true}`)
	id := task.Get("taskId").Str
	if task.Get("resultType").Str != "task" || id == "" {
		t.Fatal(task.Raw)
	}
	<-first.shop.started
	other := taskClient(t, serve(t, share))
	params := `{"taskId":"` + id + `"`
	now := other("tasks/get", params)
	if now.Get("status").Str != "working" || now.Get("statusMessage").Str != "a worker carries it out" {
		t.Error(now.Raw)
	}
	other("tasks/cancel", params)
	mcptest.Until(func() bool { return other("tasks/get", params).Get("status").Str != "working" })
	mcptest.Until(func() bool { return one("tasks/get", params).Get("status").Str != "working" })
	if status := other("tasks/get", params).Get("status").Str; status != "cancelled" {
		t.Errorf("where it was cancelled: %s", status)
	}
	if result := one("tasks/get", params).Get("result.content.0.text").Str; gjson.Get(result, "error.code").Str != "cancelled" {
		t.Errorf("elsewhere: %s", result)
	}
}

// taskClient makes requests of ann's, who takes tasks. It returns their results.
func taskClient(t *testing.T, s *testServer) func(method, params string) gjson.Result {
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	declared := strings.Replace(mcptest.StatelessMeta, `"io.modelcontextprotocol/clientCapabilities":{`,
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}`, 1)
	return func(method, params string) gjson.Result {
		t.Helper()
		header := mcptest.Header{"Authorization": "Bearer ann", "Mcp-Protocol-Version": statelessVersion, "Mcp-Method": method}
		if method == "tools/call" {
			header["Mcp-Name"] = "chain"
		}
		_, text := mcptest.Send(t, "POST", url, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+declared+`}}`, header)
		return gjson.Get(lastMessage(text), "result")
	}
}
