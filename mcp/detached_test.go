package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// withJournal gives a server a journal and a store of results.
func withJournal(t *testing.T, runs *journal.Journal) func(*mcp.Options) {
	t.Helper()
	return func(o *mcp.Options) {
		counter, results := storeOf(t)
		t.Cleanup(func() { results.Close() })
		var err error
		o.Engine, err = chain.New(&chain.Options{Functions: o.Catalog, Counter: counter, Results: results, Journal: runs,
			MaxTotalTokens: o.MaxTotalTokens})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func newJournal(t *testing.T) *journal.Journal {
	t.Helper()
	runs, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { runs.Close() })
	return runs
}

// staffClient calls onecall's tools over HTTP without a session, with a token.
func staffClient(t *testing.T, url, token string) func(tool, args string) gjson.Result {
	return func(tool, args string) gjson.Result {
		t.Helper()
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + mcptest.StatelessMeta + "}}"
		_, text := mcptest.Send(t, "POST", url, body, mcptest.Header{
			"Authorization": "Bearer " + token, "Mcp-Protocol-Version": statelessVersion, "Mcp-Method": "tools/call", "Mcp-Name": tool,
		})
		return gjson.Parse(gjson.Get(lastMessage(text), "result.content.0.text").Str)
	}
}

const slowInBackground = `{"steps":[{"fn":"shop.slow"}],"async":true}`

// TestBackgroundRunOutlivesItsSession: the run of a client that leaves continues, and its caller gets the answer in another session.
func TestBackgroundRunOutlivesItsSession(t *testing.T) {
	t.Parallel()
	s := serve(t, withJournal(t, newJournal(t)))
	first := s.stdio(t, writer, nil)
	text, _ := mcptest.Ask(t, first, "chain", slowInBackground)
	id := gjson.Get(text, "run").Str
	<-s.shop.started
	first.Close()
	s.shop.finish <- struct{}{}
	polltest.Until(t, "no call runs", func() bool { return s.Stats().Calls == 0 })
	second := s.stdio(t, writer, nil)
	report, _ := mcptest.Ask(t, second, "info", `{"run":"`+id+`"}`)
	if answer, _ := mcptest.Ask(t, second, "chain", gjson.Get(report, "fetch").Raw); gjson.Get(answer, "result").Str != "late" {
		t.Errorf("report %s, answer %s, want late", report, answer)
	}
	other, failed := mcptest.Ask(t, s.stdio(t, reader, nil), "info", `{"run":"`+id+`"}`)
	if !failed || gjson.Get(other, "error.code").Str != "token_expired" {
		t.Errorf("another caller gets %s, want token_expired", other)
	}
}

// TestBackgroundAnswerIsServedUntilItExpires: a run in the background is known as long as its answer can be stored.
func TestBackgroundAnswerIsServedUntilItExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, err := memstore.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		s := serve(t, func(o *mcp.Options) {
			results, err := budget.NewResults(store, &budget.ResultsOptions{Counter: o.Counter, TTL: 24 * time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { results.Close() })
			o.Engine, err = chain.New(&chain.Options{Functions: o.Catalog, Counter: o.Counter, Results: results, Journal: newJournal(t)})
			if err != nil {
				t.Fatal(err)
			}
		})
		url := mcptest.ServeMemory(t, func(ctx context.Context, l net.Listener) error {
			return s.ServeHTTP(ctx, l, &transport.Access{Callers: mcptest.Staff})
		}) + transport.Path
		id := ""
		for i, after := range []time.Duration{0, 23 * time.Hour} { // the second run drops old ones
			time.Sleep(after)
			run := staffClient(t, url, "ann")("chain", slowInBackground).Get("run").Str
			<-s.shop.started
			s.shop.finish <- struct{}{}
			synctest.Wait()
			if i == 0 {
				id = run
			}
		}
		ann := staffClient(t, url, "ann")
		report := ann("info", `{"run":"`+id+`"}`)
		if answer := ann("chain", report.Get("fetch").Raw); answer.Get("result").Str != "late" {
			t.Errorf("report %s, answer %s, want late", report, answer)
		}
	})
}

// TestBackgroundRunWhileServerEnds: a server that ends waits for a run in the background, then cancels it. The run
// can be resumed.
func TestBackgroundRunWhileServerEnds(t *testing.T) {
	t.Parallel()
	for name, inTime := range map[string]bool{"ends in time": true, "is cancelled": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				runs := newJournal(t)
				s := serve(t, withJournal(t, runs))
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan time.Time, 1)
				url := mcptest.ServeMemory(t, func(_ context.Context, l net.Listener) error {
					err := s.ServeHTTP(ctx, l, &transport.Access{Callers: mcptest.Staff})
					ended <- time.Now()
					return err
				}) + transport.Path
				id := staffClient(t, url, "ann")("chain", slowInBackground).Get("run").Str
				<-s.shop.started
				stopped := time.Now()
				stop()
				polltest.Until(t, "the server is closing", func() bool { return s.Stats().Closing })
				if inTime {
					s.shop.finish <- struct{}{}
				}
				if took := (<-ended).Sub(stopped); !inTime && took < 200*time.Millisecond {
					t.Errorf("the server waited %v, want at least 200ms", took)
				}
				s.Close()
				time.Sleep(time.Second) // fake time: the end of a run that only reads is written a moment later
				after := serve(t, withJournal(t, runs))
				ann := staffClient(t, mcptest.ServeMemory(t, func(ctx context.Context, l net.Listener) error {
					return after.ServeHTTP(ctx, l, &transport.Access{Callers: mcptest.Staff})
				})+transport.Path, "ann")
				report := ann("info", `{"run":"`+id+`"}`)
				if inTime {
					if report.Get("status").Str != "ok" || !strings.Contains(report.Get("note").Str, "not here any more") {
						t.Errorf("report of a run that completed: %s, want ok, and that the answer is not here any more", report)
					}
					return
				}
				if report.Get("status").Str != "failed" || report.Get("code").Str != "cancelled" || !strings.Contains(report.Get("note").Str,
					`{"resume":"`+id+`"}`) {
					t.Errorf("report of a canceled run: %s, want failed, cancelled, and a note with the resume", report)
				}
				after.shop.finish <- struct{}{}
				if answer := ann("chain", `{"resume":"`+id+`","async":false}`); answer.Get("result").Str != "late" {
					t.Errorf("the resumed run: %s, want late", answer)
				}
			})
		})
	}
}

// TestBackgroundRunOfDeadServer: a run whose server died is interrupted, and its task has failed.
func TestBackgroundRunOfDeadServer(t *testing.T) {
	t.Parallel()
	store := &journal.Memory{}
	runs, err := journal.New(&deadJournal{store}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { runs.Close() })
	s := serve(t, withJournal(t, runs))
	text, _ := mcptest.Ask(t, s.stdio(t, writer, nil), "chain", slowInBackground)
	id := gjson.Get(text, "run").Str
	after := serve(t, withJournal(t, runs))
	report, _ := mcptest.Ask(t, after.stdio(t, writer, nil), "info", `{"run":"`+id+`"}`)
	if gjson.Get(report, "status").Str != "interrupted" || !strings.Contains(gjson.Get(report, "note").Str, "resume") {
		t.Errorf("report of an interrupted run %s: %s, want interrupted and a note about resume", text, report)
	}
	c := newTaskClient(t, after, writer)
	got := c("tasks/get", `"taskId":"`+id+`"`)
	if got.Get("result.status").Str != "failed" || got.Get("result.error.code").Int() != -32603 ||
		!strings.Contains(got.Get("result.statusMessage").Str, "resume") {
		t.Errorf("task of an interrupted run: %s, want failed, -32603, and a message about resume", got)
	}
	s.shop.finish <- struct{}{}
	polltest.Until(t, "no call runs", func() bool { return s.Stats().Calls == 0 })
}

// deadJournal reports that the process of each unfinished run has ended.
type deadJournal struct{ *journal.Memory }

func (d *deadJournal) LoadRow(ctx context.Context, id string) (*journal.Row, error) {
	row, err := d.Memory.LoadRow(ctx, id)
	if err == nil && row.Status == journal.Running {
		row.Status = journal.Interrupted
	}
	return row, err
}

// newTaskClient returns a function that sends requests of a client of MCP 2026-07-28 that accepts tasks.
func newTaskClient(t *testing.T, s *testServer, as *steps.Caller) func(method, params string) gjson.Result {
	t.Helper()
	url := s.http(t, as)
	return func(method, params string) gjson.Result {
		t.Helper()
		meta := strings.Replace(mcptest.StatelessMeta, `clientCapabilities":{}`,
			`clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
		headers := mcptest.Header{"Mcp-Protocol-Version": statelessVersion, "Mcp-Method": method,
			"Mcp-Name": gjson.Get("{"+params+"}", "name").Str + gjson.Get("{"+params+"}", "taskId").Str}
		_, text := mcptest.Send(t, "POST", url, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+meta+"}}", headers)
		return gjson.Parse(lastMessage(text))
	}
}

// TestBackgroundLimit: a caller may have a quarter of its calls in the background, and no more.
func TestBackgroundLimit(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *mcp.Options) {
		withJournal(t, newJournal(t))(o)
		o.CallerCalls = 8
	})
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	ann := staffClient(t, url, "ann")
	for range 2 {
		if answer := ann("chain", slowInBackground); answer.Get("status").Str != "running" {
			t.Fatalf("the run did not begin: %s", answer)
		}
		<-s.shop.started
	}
	refused := ann("chain", slowInBackground)
	if refused.Get("error.code").Str != "busy" || !strings.Contains(refused.Get("error.message").Str, "2 of your runs") {
		t.Errorf("a third run in the background: got %s, want busy", refused)
	}
	if answer := staffClient(t, url, "eve")("chain", slowInBackground); answer.Get("status").Str != "running" {
		t.Errorf("a run of another caller: got %s, want running", answer)
	}
	<-s.shop.started
}

// TestCancelBeforeBackground: until it is answered, a request with asyncAfterMs can be cancelled like any other.
func TestCancelBeforeBackground(t *testing.T) {
	t.Parallel()
	s := serve(t, withJournal(t, newJournal(t)))
	ctx, cancel := context.WithCancel(t.Context())
	c := mcptest.StdioOf(t, nil, statefulVersion, func(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
		return s.ServeStdio(ctx, in, out, writer)
	})
	go func() {
		_, _ = c.CallTool(ctx, &sdk.CallToolParams{Name: "chain",
			Arguments: json.RawMessage(`{"steps":[{"fn":"shop.slow"}],"asyncAfterMs":3600000}`)})
	}()
	<-s.shop.started
	cancel()
	if err := <-s.shop.ended; err == nil {
		t.Error("the request was not canceled")
	}
}

// TestBackgroundRunWhileServerReloads: a run in the background ends with the configuration that it began with.
func TestBackgroundRunWhileServerReloads(t *testing.T) {
	t.Parallel()
	runs := newJournal(t)
	s := serve(t, withJournal(t, runs))
	c := s.stdio(t, writer, nil)
	text, _ := mcptest.Ask(t, c, "chain", slowInBackground)
	<-s.shop.started
	o, _ := s.another(t, withJournal(t, runs))
	drained, err := s.Reload(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-drained:
		t.Error("drained while the run is in the background")
	default:
	}
	s.shop.finish <- struct{}{}
	<-drained
	report, _ := mcptest.Ask(t, c, "info", fmt.Sprintf(`{"run":%q}`, gjson.Get(text, "run").Str))
	if gjson.Get(report, "status").Str != "ok" {
		t.Errorf("the run after the reload: %s, want ok", report)
	}
}

// lastMessage returns the last message of a response, which may be a stream.
func lastMessage(text string) string { return text[strings.LastIndex(text, `{"jsonrpc"`):] }

// TestBackgroundRunOfCallerWithoutRights: a run in the background ends when its caller loses its rights.
func TestBackgroundRunOfCallerWithoutRights(t *testing.T) {
	t.Parallel()
	s := serve(t, withJournal(t, newJournal(t)))
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	if answer := staffClient(t, url, "ann")("chain", slowInBackground); answer.Get("status").Str != "running" {
		t.Fatalf("the run did not begin: %s", answer)
	}
	<-s.shop.started
	s.SetAccess(t, &transport.Access{Callers: mcptest.Callers{"ann": mcptest.Caller("token:ann", steps.TierRead)}})
	s.RecheckCallers()
	if err := <-s.shop.ended; err == nil {
		t.Error("the run was not canceled")
	}
	polltest.Until(t, "no call runs", func() bool { return s.Stats().Calls == 0 })
}

// TestBackgroundRunNeedsApproval: a call that needs approval waits, and continues when its caller approves.
func TestBackgroundRunNeedsApproval(t *testing.T) {
	t.Parallel()
	runs := newJournal(t)
	s := serve(t, func(o *mcp.Options) {
		counter, results := storeOf(t)
		t.Cleanup(func() { results.Close() })
		var err error
		if o.Engine, err = chain.New(&chain.Options{Functions: o.Catalog, Counter: counter, Results: results, Journal: runs,
			Approve: steps.ApproveWrite}); err != nil {
			t.Fatal(err)
		}
	})
	c := s.stdio(t, writer, nil)
	follow := func(args string) gjson.Result {
		t.Helper()
		text, _ := mcptest.Ask(t, c, "chain", args)
		polltest.Until(t, "no call runs", func() bool { return s.Stats().Calls == 0 })
		report, _ := mcptest.Ask(t, c, "info", `{"run":"`+gjson.Get(text, "run").Str+`"}`)
		answer, _ := mcptest.Ask(t, c, "chain", gjson.Get(report, "fetch").Raw)
		return gjson.Parse(`{"info":` + report + `,"answer":` + answer + `}`)
	}
	waits := follow(`{"async":true,"steps":[{"fn":"shop.item.create","args":{"count":1}}]}`)
	if waits.Get("info.status").Str != "waiting" || waits.Get("answer.error.code").Str != "approval_required" || s.shop.calls.Load() != 0 {
		t.Fatalf("the run does not wait for approval: %s", waits)
	}
	approved := follow(`{"async":true,"steps":[{"fn":"shop.item.create","args":{"count":2}}]}`)
	mcptest.Ask(t, c, "chain", fmt.Sprintf(`{"resume":%q,"approve":%q,"async":false}`, approved.Get("answer.resume").Str,
		approved.Get("answer.approve").Str))
	report, _ := mcptest.Ask(t, c, "info", `{"run":"`+approved.Get("info.run").Str+`"}`)
	if gjson.Get(report, "status").Str != "ok" || gjson.Get(report, "fetch").Exists() {
		t.Errorf("a run resumed without async: %s, want ok without a fetch", report)
	}
	done := follow(fmt.Sprintf(`{"resume":%q,"approve":%q}`, waits.Get("answer.resume").Str, waits.Get("answer.approve").Str))
	if done.Get("info.status").Str != "ok" || done.Get("info.run").Str != waits.Get("info.run").Str || s.shop.calls.Load() != 2 {
		t.Errorf("the approved run, after %d calls: %s, want ok, the same run and 2 calls", s.shop.calls.Load(), done)
	}
}
