package work

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
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
func newEngine(ttl time.Duration, functions ...steps.Function) (*chain.Engine, *steps.Catalog) {
	results := harness.Must(budget.NewResults(harness.Must(memstore.New(nil)), &budget.ResultsOptions{TTL: ttl, MaxTTL: ttl}))
	catalog := catalogOf(functions)
	options := chain.Options{Functions: catalog, Results: results, MaxTotalTokens: maxTokens, MaxDuration: time.Hour}
	return harness.Must(chain.New(&options)), catalog
}

// catalogOf returns a catalog of functions, in sources of at most a hundred each.
func catalogOf(functions []steps.Function) *steps.Catalog {
	catalog := harness.Must(steps.NewCatalog(nil))
	for batch := range slices.Chunk(functions, 100) {
		harness.Check(catalog.Add(batch[0].Spec.Source(), source(batch)))
	}
	return catalog
}

// listen serves onecall over HTTP until ctx ends, with no practical limit of sessions and no limit of calls. It returns the URL; ended
// receives the error.
func listen(ctx context.Context, engine *chain.Engine, catalog *steps.Catalog) (url string, ended <-chan error) {
	server := harness.Must(mcp.New(&mcp.Options{Engine: engine, Catalog: catalog, Counter: harness.Must(budget.NewCounter("", 0)),
		MaxTotalTokens: maxTokens, Options: transport.Options{MaxSessions: 100_000, CallerCalls: -1, Grace: time.Second}}))
	l := harness.Must(net.Listen("tcp", "127.0.0.1:0"))
	end := make(chan error, 1)
	go func() {
		end <- server.ServeHTTP(ctx, l, &transport.Access{Anyone: steps.Caller{ID: "bench"}})
		server.Close()
	}()
	return "http://" + l.Addr().String() + transport.Path, end
}

// answer runs a request and returns its answer, which must be want; "": any answer that is no failure.
func answer(ctx context.Context, engine *chain.Engine, request []byte, want string) []byte {
	a := engine.Run(ctx, request, nil)
	if !a.OK || want != "" && string(a.JSON) != want {
		harness.Fail("answered %.500s, want %s", a.JSON, want)
	}
	return a.JSON
}

// running returns the arm that runs a request, which must be answered with want.
func running(ctx context.Context, sample string, engine *chain.Engine, request []byte, want string) arm {
	return arm{sample: sample, run: func() { answer(ctx, engine, request, want) }}
}
