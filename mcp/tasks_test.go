package mcp_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// replicaOf returns a server whose writes need a person's approval, with a journal and a store of results that other servers may have, too.
func replicaOf(t *testing.T, runs *journal.Journal, results *budget.Results) *testServer {
	t.Helper()
	return serve(t, func(o *mcp.Options) {
		var err error
		if o.Engine, err = chain.New(&chain.Options{Functions: o.Catalog, Counter: o.Counter, Results: results, Journal: runs,
			Approve: steps.ApproveWrite, ApproveByPerson: true}); err != nil {
			t.Fatal(err)
		}
	})
}

// asker is a client that follows tasks and can ask its user, of a version of MCP.
type asker struct {
	url     string
	meta    string // the members that end its params
	headers mcptest.Header
	asked   atomic.Int64
}

const askerCapabilities = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

func newAsker(t *testing.T, s *testServer, version string) *asker {
	t.Helper()
	return newAskerAt(t, s.http(t, writer), version)
}

func newAskerAt(t *testing.T, url, version string) *asker {
	t.Helper()
	c := &asker{url: url, headers: mcptest.Header{"Mcp-Protocol-Version": version}}
	if version == statelessVersion {
		c.meta = strings.Replace(mcptest.StatelessMeta, `clientCapabilities":{}`, `clientCapabilities":`+askerCapabilities, 1)
		return c
	}
	r, _ := mcptest.Send(t, "POST", url, strings.Replace(mcptest.Hello, `"capabilities":{}`, `"capabilities":`+askerCapabilities, 1), nil)
	c.headers["Mcp-Session-Id"] = r.Header.Get("Mcp-Session-Id")
	return c
}

// request returns the headers and the body of a request.
func (c *asker) request(method, params string) (mcptest.Header, string) {
	sent := gjson.Parse("{" + params + "}")
	headers := mcptest.Header{"Mcp-Method": method, "Mcp-Name": sent.Get("name").Str + sent.Get("taskId").Str}
	for name, value := range c.headers {
		headers[name] = value
	}
	return headers, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, c.asked.Add(1), method, params+c.meta)
}

// send sends a request and returns its response.
func (c *asker) send(t *testing.T, method, params string) gjson.Result {
	t.Helper()
	headers, body := c.request(method, params)
	for name, value := range headers {
		if value == "" {
			delete(headers, name)
		}
	}
	_, text := mcptest.Send(t, "POST", c.url, body, headers)
	return gjson.Parse(lastMessage(text))
}

// begin begins a task and returns its id.
func (c *asker) begin(t *testing.T, steps string) string {
	t.Helper()
	answer := c.send(t, "tools/call", `"name":"chain","arguments":{"async":true,"lite":true,"steps":`+steps+`}`)
	if answer.Get("result.resultType").Str != "task" {
		t.Fatalf("no task began: %s", answer)
	}
	return answer.Get("result.taskId").Str
}

// await waits until a task has a status, and returns it.
func (c *asker) await(t *testing.T, id, status string) (got gjson.Result) {
	t.Helper()
	polltest.Until(t, "the task is "+status, func() bool {
		got = c.send(t, "tasks/get", `"taskId":"`+id+`"`).Get("result")
		return got.Get("status").Str == status
	})
	return got
}

// reply responds to all that a task asks.
func (c *asker) reply(t *testing.T, asks gjson.Result, response string) gjson.Result {
	t.Helper()
	var responses []string
	for key := range asks.Get("inputRequests").Map() {
		responses = append(responses, fmt.Sprintf("%q:%s", key, response))
	}
	return c.send(t, "tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{%s}`, asks.Get("taskId").Str, strings.Join(responses, ",")))
}

// listen opens a stream of notifications about tasks, and returns a function that waits for the next message.
func (c *asker) listen(t *testing.T, ids string) (next func() gjson.Result) {
	t.Helper()
	headers, body := c.request("subscriptions/listen", `"notifications":{"taskIds":`+ids+`}`)
	r, err := http.NewRequestWithContext(t.Context(), "POST", c.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	headers["Content-Type"], headers["Accept"] = "application/json", "application/json, text/event-stream"
	response, err := headers.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return func() gjson.Result {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && strings.HasPrefix(data, "{") {
				return gjson.Parse(data)
			}
		}
		return gjson.Result{}
	}
}

const create = `{"fn":"shop.item.create","args":{"count":%d}}`

// TestTaskAtAnotherServer: what a task asks is asked and answered at any server that shares the journal and the results, also if the one
// that began it has ended. The task then ends at any of them.
func TestTaskAtAnotherServer(t *testing.T) {
	t.Parallel()
	for _, version := range []string{statelessVersion, statefulVersion} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s restarts=%t", version, restarts), func(t *testing.T) {
				t.Parallel()
				runs := newJournal(t)
				_, results := storeOf(t)
				t.Cleanup(func() { results.Close() })
				first, second := replicaOf(t, runs, results), replicaOf(t, runs, results)
				ann := newAsker(t, first, version)
				id := ann.begin(t, `[{"fn":"shop.echo"},`+fmt.Sprintf(create, 1)+`]`)
				here := ann.await(t, id, "input_required")
				if restarts {
					first.Close()
				}
				there := newAsker(t, second, version)
				asks := there.await(t, id, "input_required")
				if asks.Get("inputRequests").Raw != here.Get("inputRequests").Raw || first.shop.calls.Load()+second.shop.calls.Load() != 1 {
					t.Fatalf("asked %s at one server, %s at the other", here, asks)
				}
				ack := there.reply(t, asks, `{"action":"accept"}`).Get("result")
				if ack.Get("resultType").Str != "complete" || ack.Get("status").Exists() {
					t.Errorf("the reply is answered %s, want an empty result", ack)
				}
				for _, c := range map[bool][]*asker{true: {there}, false: {there, ann}}[restarts] {
					done := c.await(t, id, "completed")
					if text := done.Get("result.content.0.text").Str; !strings.Contains(text, `"item 0"`) || done.Get("result.isError").Bool() {
						t.Errorf("the task ended as %s, want the item", done)
					}
					if ack := c.reply(t, asks, `{"action":"decline"}`); ack.Get("result.resultType").Str != "complete" {
						t.Errorf("a late reply: %s, want an empty result", ack)
					}
				}
				if calls := first.shop.calls.Load() + second.shop.calls.Load(); calls != 2 {
					t.Errorf("%d calls, want 2", calls)
				}
			})
		}
	}
}

// TestTaskIsDecidedElsewhere: if a person decides in another place about what a task asks, the task goes on, though nobody responds to it.
func TestTaskIsDecidedElsewhere(t *testing.T) {
	t.Parallel()
	for _, deny := range []bool{false, true} {
		runs := newJournal(t)
		_, results := storeOf(t)
		t.Cleanup(func() { results.Close() })
		s := replicaOf(t, runs, results)
		ann := newAsker(t, s, statelessVersion)
		id := ann.begin(t, `[`+fmt.Sprintf(create, 1)+`]`)
		ann.await(t, id, "input_required")
		decide(t, runs, id, deny)
		done := ann.await(t, id, "completed")
		text := done.Get("result.content.0.text").Str
		if deny && (!strings.Contains(text, "denied by the boss") || s.shop.calls.Load() != 0) || !deny && s.shop.calls.Load() != 1 {
			t.Errorf("denied %t: %s after %d calls", deny, done, s.shop.calls.Load())
		}
	}
}

// TestTaskTellsItsState: a client that listens is told of what its tasks are, ask, and come to, as tasks/get has it, until the last has
// ended.
func TestTaskTellsItsState(t *testing.T) {
	t.Parallel()
	for _, version := range []string{statelessVersion, statefulVersion} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			_, results := storeOf(t)
			t.Cleanup(func() { results.Close() })
			s := replicaOf(t, newJournal(t), results)
			ann := newAsker(t, s, version)
			id := ann.begin(t, `[{"fn":"shop.slow"},`+fmt.Sprintf(create, 1)+`]`)
			next := ann.listen(t, `["`+id+`","run_none"]`)
			if ack := next(); ack.Get("method").Str != "notifications/subscriptions/acknowledged" ||
				ack.Get("params.notifications.taskIds").Raw != `["`+id+`"]` {
				t.Fatalf("the stream begins with %s, want that it is about the task", ack)
			}
			status := func(want string) gjson.Result {
				t.Helper()
				for m := next(); ; m = next() {
					if m.Get("method").Str != "notifications/tasks" || m.Get("params.taskId").Str != id || m.Get("params.resultType").Exists() {
						t.Fatalf("got %s, want a notification of the task", m)
					}
					if got := m.Get("params.status").Str; got == want {
						return m.Get("params")
					} else if got != "working" {
						t.Fatalf("got %s, want %s", m, want)
					}
				}
			}
			status("working")
			s.shop.finish <- struct{}{}
			asks := status("input_required")
			if got := ann.await(t, id, "input_required"); got.Get("inputRequests").Raw != asks.Get("inputRequests").Raw {
				t.Errorf("told of %s, but tasks/get has %s", asks, got)
			}
			ann.reply(t, asks, `{"action":"accept"}`)
			if done := status("completed"); !strings.Contains(done.Get("result.content.0.text").Str, `"item 0"`) {
				t.Errorf("told of %s, want the item", done)
			}
			if end := next(); !end.Get("result").Exists() || end.Get("id").Int() != 2 {
				t.Errorf("the stream ends with %s, want its result", end)
			}
		})
	}
}

// TestTaskExpires: a task that nobody answered is gone with its run, and a late response is an error.
func TestTaskExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, results := storeOf(t)
		t.Cleanup(func() { results.Close() })
		s := replicaOf(t, newJournal(t), results)
		ann := newAskerAt(t, mcptest.ServeMemory(t, func(ctx context.Context, l net.Listener) error {
			return s.ServeHTTP(ctx, l, &transport.Access{Anyone: *writer})
		})+transport.Path, statelessVersion)
		id := ann.begin(t, `[`+fmt.Sprintf(create, 1)+`]`)
		asks := ann.await(t, id, "input_required")
		time.Sleep(journal.DefaultKeep + time.Hour)
		for what, got := range map[string]gjson.Result{
			"the task":   ann.send(t, "tasks/get", `"taskId":"`+id+`"`),
			"a response": ann.reply(t, asks, `{"action":"accept"}`),
		} {
			if got.Get("error.code").Int() != -32602 || s.shop.calls.Load() != 0 {
				t.Errorf("%s: %s, want -32602", what, got)
			}
		}
	})
}
