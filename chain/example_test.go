package chain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strings"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// shop returns custom functions: each has a spec, and a call from raw JSON to raw JSON.
func shop() []steps.Function {
	return []steps.Function{
		{
			Spec: steps.Spec{
				Name:        "shop.orders",
				Description: "The orders of a customer.",
				Input:       json.RawMessage(`{"type":"object","properties":{"customer":{"type":"string"}},"required":["customer"]}`),
				Effect:      steps.Read, EffectDeclared: true,
			},
			Call: func(context.Context, []byte) ([]byte, error) {
				return []byte(`{"orders":[{"id":717897987691852588770249,"total":12.50},{"id":2,"total":7.00}]}`), nil
			},
		},
		{
			Spec: steps.Spec{
				Name:        "shop.ship",
				Description: "Ships an order.",
				Input:       json.RawMessage(`{"type":"object","properties":{"order":{"type":"integer"}},"required":["order"]}`),
				Effect:      steps.Write, EffectDeclared: true,
			},
			Call: func(_ context.Context, args []byte) ([]byte, error) {
				return fmt.Appendf(nil, `{"shipped":%s}`, args), nil
			},
		},
	}
}

func newEngine(o chain.Options) *chain.Engine {
	registry, err := steps.NewRegistry(shop(), nil)
	if err != nil {
		log.Fatal(err)
	}
	o.Functions = registry
	engine, err := chain.New(&o)
	if err != nil {
		log.Fatal(err)
	}
	return engine
}

// A chain over custom functions. A value that a reference carries keeps its spelling, even if a float64 cannot hold it.
func Example() {
	answer := newEngine(chain.Options{}).Run(context.Background(), []byte(`{
		"steps": [
			{"fn": "shop.orders", "args": {"customer": "ada"}},
			{"fn": "shop.ship",   "args": {"order": "$0.orders[0].id"}}
		],
		"lite": true
	}`), nil)
	fmt.Println(answer.OK, string(answer.JSON))
	// Output: true {"shipped":{"order":717897987691852588770249}}
}

// References pick, map and default; `return` says what is answered.
func ExampleEngine_Run_references() {
	answer := newEngine(chain.Options{Lite: true}).Run(context.Background(), []byte(`{
		"steps": [{"id": "o", "fn": "shop.orders", "args": {"customer": "ada"}}],
		"return": {"last": "$o.orders[-1].id", "totals": "$o.orders[*].total", "note": "$o.note ?? \"none\"", "text": "${$o.orders[0].total} EUR"}
	}`), nil)
	fmt.Println(string(answer.JSON))
	// Output: {"last":2,"totals":[12.50,7.00],"note":"none","text":"12.50 EUR"}
}

// A chain that cannot work is refused before anything runs, with every fault at once.
func ExampleEngine_Run_faults() {
	answer := newEngine(chain.Options{}).Run(context.Background(), []byte(`{
		"steps": [{"fn": "shop.order", "args": {}}, {"fn": "shop.ship", "args": {"order": "$5"}}]
	}`), nil)
	for _, f := range answer.Faults {
		fmt.Println(f.Code, f.At, f.Nearest)
	}
	// Output:
	// unknown_function /steps/0/fn [shop.orders]
	// bad_reference /steps/1/args/order []
}

// A result that exceeds the budget is answered as a probe, and fetched page by page; nothing runs again.
func ExampleEngine_Run_probe() {
	store, err := memstore.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	results, err := budget.NewResults(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	engine := newEngine(chain.Options{Results: results, MaxTotalTokens: 300, Lite: true})

	long := "[" + strings.Repeat(`{"word":"onecall"},`, 199) + `{"word":"end"}]`
	answer := engine.Run(context.Background(), fmt.Appendf(nil,
		`{"input":{"list":%s},"steps":[{"fn":"shop.orders","args":{"customer":"x"}}],"return":"$input.list"}`, long), nil)
	var probe struct {
		Shape string `json:"shape"`
		Token string `json:"continuation_token"`
	}
	if err := json.Unmarshal(answer.JSON, &probe); err != nil {
		log.Fatal(err)
	}
	fmt.Println(probe.Shape)

	page := engine.Run(context.Background(), fmt.Appendf(nil, `{"continuation_token":%q,"mode":"paginated","page":100,"page_size":2}`,
		probe.Token), nil)
	fmt.Println(string(page.JSON))
	// Output:
	// array of 200 {word}
	// {"items":[{"word":"onecall"},{"word":"end"}],"page":100,"page_size":2,"total":200,"has_more":false}
}

// A recording replaces the functions, for tests and to compare runs.
func ExampleEngine_Run_replay() {
	registry, err := steps.NewRegistry(shop(), nil)
	if err != nil {
		log.Fatal(err)
	}
	var tape bytes.Buffer
	recorder := replay.NewRecorder(&tape, nil)
	request := []byte(`{"lite":true,"steps":[{"fn":"shop.orders","args":{"customer":"ada"}}],"return":"$0.orders[1].total"}`)

	engine, err := chain.New(&chain.Options{Functions: registry.Observe(recorder.Observe)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(engine.Run(context.Background(), request, nil).JSON))

	cassette, err := replay.Read(&tape, "tape")
	if err != nil {
		log.Fatal(err)
	}
	recorded, err := cassette.Registry(registry)
	if err != nil {
		log.Fatal(err)
	}
	engine, err = chain.New(&chain.Options{Functions: recorded})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(engine.Run(cassette.Cursor(context.Background(), ""), request, nil).JSON))
	// Output:
	// 7.00
	// 7.00
}

// desk is an Admission that allows one piece of heavy work at a time, and counts no memory.
type desk chan struct{}

func (d desk) Acquire(ctx context.Context, _ string) (release func(), err error) {
	select {
	case d <- struct{}{}:
		return func() { <-d }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (desk) Hold(string, int64, int64) bool { return true }

// Engines with the same Admission share processors and memory: here one large request is read and planned at a time.
func ExampleAdmission() {
	var shared chain.Admission = make(desk, 1)
	orders, returns := newEngine(chain.Options{Admission: shared, Lite: true}), newEngine(chain.Options{Admission: shared, Lite: true})
	large := fmt.Appendf(nil, `{"input":{"note":%q},"steps":[{"fn":"shop.orders","args":{"customer":"ada"}}],"return":"$0.orders[0].total"}`,
		strings.Repeat("x", 1<<20))

	release, err := orders.Acquire(context.Background(), "ada") // takes the slot, as a large request of ada would
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(returns.Run(ctx, large, nil).Error.Code)
	release()
	fmt.Println(string(returns.Run(context.Background(), large, nil).JSON))
	// Output:
	// cancelled
	// 12.50
}

// requestNumbers is an Observer that only numbers requests.
type requestNumbers struct{ last atomic.Int64 }

func (n *requestNumbers) Identify(ctx context.Context, given string) (context.Context, string) {
	if given == "" {
		given = fmt.Sprintf("run-%d", n.last.Add(1))
	}
	return ctx, given
}

func (*requestNumbers) Request(ctx context.Context, _ *chain.RequestInfo) (context.Context, func(*chain.RequestEnd)) {
	return ctx, nil
}

func (*requestNumbers) Step(ctx context.Context, _ chain.StepInfo) (context.Context, func(chain.StepEnd)) {
	return ctx, nil
}

// An Observer that is an Identifier gives requests ids. A failure names its id, by which the operator finds it in the logs.
func ExampleIdentifier() {
	var observer chain.Identifier = &requestNumbers{}
	engine := newEngine(chain.Options{Observer: observer})
	ctx, id := engine.Identify(context.Background(), "")
	answer := engine.Run(ctx, []byte(`{"trace":"full","steps":[]}`), &chain.Caller{ID: "ada", Run: id})
	var failure struct {
		Request string `json:"request"`
	}
	if err := json.Unmarshal(answer.JSON, &failure); err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Error.Code, failure.Request)
	// Output: compile run-1
}
