package mcp

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
)

// TestConcurrency: a server is called no more often at once than it is said to bear, and callers get their turns.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	seen, goOn := make(chan string), make(chan struct{})
	server := sdk.NewServer(&sdk.Implementation{Name: "shelf", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "work", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			seen <- gjson.GetBytes(r.Params.Arguments, "who").String()
			<-goOn
			return text("done"), nil
		})
	s := open(t, &Options{Name: "shelf", URL: listen(t, httpServer(server, nil)), Concurrency: 1})
	until(t, s, func() bool { return len(s.Functions()) == 1 })
	work, callers := function(t, s, "shelf.work"), admit.New(1)
	var calls sync.WaitGroup
	call := func(who string, waits chan struct{}) {
		ctx := admit.With(&asked{Context: t.Context(), first: waits}, callers.Of(who, 0))
		if result, err := work.Call(ctx, fmt.Appendf(nil, `{"who":%q}`, who)); err != nil || string(result) != `"done"` {
			t.Error(string(result), err)
		}
	}
	calls.Go(func() { call("greedy", make(chan struct{}, 1)) })
	order := []string{<-seen}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := work.Call(gone, []byte(`{}`)); !isNotSent(err) {
		t.Error(err)
	}
	for _, who := range []string{"greedy", "greedy", "greedy", "modest"} {
		waits := make(chan struct{}, 1)
		calls.Go(func() { call(who, waits) })
		<-waits
	}
	for range 4 {
		goOn <- struct{}{}
		order = append(order, <-seen)
	}
	goOn <- struct{}{}
	calls.Wait()
	if want := []string{"greedy", "greedy", "modest", "greedy", "greedy"}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}

// asked is a context that tells when somebody waits for its end.
type asked struct {
	context.Context
	first chan struct{}
}

func (a *asked) Done() <-chan struct{} {
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
