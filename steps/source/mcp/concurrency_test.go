package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// TestConcurrency: the calls to a server never exceed Options.Concurrency, and callers take turns.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	seen, release := make(chan string), make(chan struct{})
	server := sdk.NewServer(&sdk.Implementation{Name: "shelf", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "work", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			seen <- gjson.GetBytes(r.Params.Arguments, "who").String()
			<-release
			return textResult("done"), nil
		})
	s := openSource(t, &mcpsource.Options{Name: "shelf", URL: listen(t, httpServer(server, nil)), Concurrency: 1})
	until(t, s, func() bool { return len(s.Functions()) == 1 })
	work := function(t, s, "shelf.work")
	var calls sync.WaitGroup
	call := func(caller string, queued chan struct{}) {
		ctx := admit.WithRequest(&watchedContext{Context: t.Context(), first: queued}, &admit.Request{Caller: caller})
		if result, err := work.Call(ctx, fmt.Appendf(nil, `{"who":%q}`, caller)); err != nil || string(result) != `"done"` {
			t.Errorf(`got %s, %v; want "done"`, result, err)
		}
	}
	calls.Go(func() { call("greedy", make(chan struct{}, 1)) })
	order := []string{<-seen}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := work.Call(done, []byte(`{}`)); !isNotSent(err) {
		t.Errorf("got %v, want cancelled and not_sent", err)
	}
	for _, caller := range []string{"greedy", "greedy", "greedy", "modest"} {
		queued := make(chan struct{}, 1)
		calls.Go(func() { call(caller, queued) })
		<-queued
	}
	for range 4 {
		release <- struct{}{}
		order = append(order, <-seen)
	}
	release <- struct{}{}
	calls.Wait()
	if i := slices.Index(order, "modest"); i < 1 || i > 2 { // it may come just after the second was admitted
		t.Errorf("got order %v, want modest after one call of greedy", order)
	}
}

// watchedContext is a context that reports when a goroutine waits for its end.
type watchedContext struct {
	context.Context
	first chan struct{}
}

func (a *watchedContext) Done() <-chan struct{} {
	select {
	case a.first <- struct{}{}:
	default:
	}
	return a.Context.Done()
}

func isNotSent(err error) bool {
	f, ok := fault.As(err)
	return ok && f.Code == fault.Cancelled && f.Outcome == fault.NotSent
}
