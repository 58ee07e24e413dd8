package work

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// maxTokens is the token budget of every answer.
const maxTokens = 10_000

type source []steps.Function

func (s source) Functions() []steps.Function { return s }
func (s source) Close() error                { return nil }

// noop returns a function that answers at once. Its arguments are checked.
func noop() steps.Function {
	return steps.Function{
		Spec: steps.Spec{
			Name: "bench.noop", Description: "Does nothing.", Effect: steps.Read, EffectDeclared: true,
			Input: json.RawMessage(`{"type":"object","additionalProperties":false,` +
				`"properties":{"id":{"type":"string"},"value":{"type":"integer"}}}`),
		},
		Prompt: true,
		Call:   func(context.Context, []byte) ([]byte, error) { return []byte(noopResult), nil },
	}
}

// slow returns a function that answers after 100 ms, or fails when it is cancelled.
func slow() steps.Function {
	return steps.Function{
		Spec: steps.Spec{Name: "bench.slow", Description: "Takes a while.", Effect: steps.Read, EffectDeclared: true},
		Call: func(ctx context.Context, _ []byte) ([]byte, error) {
			select {
			case <-time.After(100 * time.Millisecond):
				return []byte(`{"ok":1}`), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}
}

// newEngine returns an engine with functions, in sources of at most a hundred each. It keeps large results in memory for ttl; 0: for
// onecall's default.
func newEngine(ttl time.Duration, functions ...steps.Function) (*chain.Engine, *steps.Catalog, error) {
	store, err := memstore.New(nil)
	if err != nil {
		return nil, nil, err
	}
	results, err := budget.NewResults(store, &budget.ResultsOptions{TTL: ttl, MaxTTL: ttl})
	if err != nil {
		return nil, nil, err
	}
	catalog, err := catalogOf(functions)
	if err != nil {
		return nil, nil, err
	}
	engine, err := chain.New(&chain.Options{Functions: catalog, Results: results, MaxTotalTokens: maxTokens, MaxDuration: time.Hour})
	return engine, catalog, err
}

// catalogOf returns a catalog of functions, in sources of at most a hundred each.
func catalogOf(functions []steps.Function) (*steps.Catalog, error) {
	catalog, err := steps.NewCatalog(nil)
	if err != nil {
		return nil, err
	}
	for batch := range slices.Chunk(functions, 100) {
		if err := catalog.Add(batch[0].Spec.Source(), source(batch)); err != nil {
			return nil, err
		}
	}
	return catalog, nil
}

// listen serves onecall over HTTP until ctx ends, with no practical limit of sessions and no limit of calls. It returns the URL; ended
// receives the error.
func listen(ctx context.Context, engine *chain.Engine, catalog *steps.Catalog) (url string, ended <-chan error, err error) {
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		return "", nil, err
	}
	server, err := mcp.New(&mcp.Options{Engine: engine, Catalog: catalog, Counter: counter, MaxTotalTokens: maxTokens,
		Options: transport.Options{MaxSessions: 100_000, CallerCalls: -1, Grace: time.Second}})
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	end := make(chan error, 1)
	go func() {
		end <- server.ServeHTTP(ctx, l, &transport.Access{Anyone: steps.Caller{ID: "bench"}})
		server.Close()
	}()
	return "http://" + l.Addr().String() + transport.Path, end, nil
}

// answer runs a request and returns its answer. It is an error if the request fails, or is not answered with want; "": any answer.
func answer(ctx context.Context, engine *chain.Engine, request []byte, want string) ([]byte, error) {
	a := engine.Run(ctx, request, nil)
	if !a.OK || want != "" && string(a.JSON) != want {
		return nil, fmt.Errorf("answered %.500s, want %s", a.JSON, want)
	}
	return a.JSON, nil
}

// running returns the arm that runs a request, which must be answered with want.
func running(ctx context.Context, sample string, engine *chain.Engine, request []byte, want string) arm {
	return arm{sample: sample, run: func() error { _, err := answer(ctx, engine, request, want); return err }}
}
