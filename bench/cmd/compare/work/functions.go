package work

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/load"
	"github.com/onecall-mcp/onecall/steps"
)

// things and verbs are the words in the names of a large service's functions.
var (
	things = strings.Fields(`account alert archive balance branch bucket build campaign cluster contract coupon customer dashboard
		deployment device disk domain endpoint environment export feature filter gateway image instance invoice issue job label layer
		license machine member message metric milestone module monitor network node offer order partner payment pipeline policy port
		process product project property quote rack region release report request review role rule schedule secret segment service
		shipment site snapshot storage subnet subscription table task team template tenant ticket token topic trace transfer unit
		upload user vendor version view volume warehouse webhook widget workflow zone`)
	verbs = []string{"list", "get", "create", "update", "delete", "search", "export", "archive", "restore", "cancel"}
)

// describe returns the name, the description and the input schema of the i-th function.
func describe(i int) (name, description, input string) {
	verb, thing, parent := verbs[i%10], things[i/10%len(things)], things[i/10/len(things)%len(things)]
	name = fmt.Sprintf("service%d.%s_%s.%s", i/100, parent, thing, verb)
	description = fmt.Sprintf("%ss the %s of a %s, for the tenant that owns it. Answers within the limits of the service.",
		verb, thing, parent)
	input = fmt.Sprintf(`{"type":"object","properties":{"%sId":{"type":"string","description":"The id of the %s."},`+
		`"pageSize":{"type":"integer","description":"How many to answer at most."},"cursor":{"type":"string"}}}`, thing, thing)
	return name, description, input
}

// readyFunctions measures the time until many functions can be called, and the memory that a ready registry keeps beyond the functions
// themselves. The baseline is the SDK's server with the same functions as tools.
func readyFunctions(ctx context.Context, count int, s Samples) []arm {
	all := madeFunctions(count)
	ready := func() any {
		catalog := catalogOf(all)
		registry := steps.Await(ctx, catalog, nil)
		if n := registry.Len(); n != count {
			harness.Fail("%d functions can be called", n)
		}
		return []any{catalog, registry}
	}
	bare := func() any { return bareServer(count) }
	s.kept("memory-mb", ready)
	s.kept("bare-memory-mb", bare)
	return []arm{{"ready-ms", func() { ready() }, true}, {"bare-ready-ms", func() { bare() }, true}}
}

// madeFunctions returns functions that answer at once.
func madeFunctions(count int) []steps.Function {
	all := make([]steps.Function, count)
	for i := range all {
		name, description, input := describe(i)
		all[i] = steps.Function{
			Spec:   steps.Spec{Name: name, Description: description, Effect: steps.Read, EffectDeclared: true, Input: json.RawMessage(input)},
			Prompt: true,
			Call:   func(context.Context, []byte) ([]byte, error) { return []byte(`{"id":"a-1"}`), nil },
		}
	}
	return all
}

// useFunctions measures the list of tools of a server with many functions, a search, and a chain of three steps. The baseline's list is
// that of the SDK's server.
func useFunctions(ctx context.Context, count int, s Samples) []arm {
	s.listBare(ctx, count)
	all := madeFunctions(count)
	engine, catalog := newEngine(0, all...)
	steps.Await(ctx, catalog, nil)
	url, _ := listen(ctx, engine, catalog)
	clients := harness.Must(load.Open(ctx, load.Target{URL: url, Version: load.WithoutSessions}, 1))
	s.tokens("list-tokens", harness.Must(clients.Request(ctx, "tools/list", "")))
	search := arm{"first-search-ms", func() {
		result := harness.Must(clients.Request(ctx, "tools/call", `"name":"search","arguments":{"query":"create an alert for an account"}`))
		report := gjson.GetBytes(result, "content.0.text").Str
		// The first ten functions do not include the one that is searched for.
		harness.FailIf(!strings.Contains(report, "account_alert.create") && len(all) > 10, "found %.300s", result)
	}, true}
	s.timed(search)
	three := fmt.Appendf(nil, `{"lite":true,"steps":[{"fn":%q},{"fn":%q,"args":{"cursor":"$0.id"}},{"fn":%q,"args":{"cursor":"$1.id"}}]}`,
		all[0].Spec.Name, all[len(all)/2].Spec.Name, all[len(all)-1].Spec.Name)
	return []arm{{sample: "search-ms", run: search.run}, running(ctx, "chain-ms", engine, three, `{"id":"a-1"}`)}
}

// bareServer returns the SDK's server with the same functions as tools.
func bareServer(count int) *sdk.Server {
	server := newServer("bare")
	for i := range count {
		name, description, input := describe(i)
		tool := &sdk.Tool{Name: name, Description: description, InputSchema: json.RawMessage(input)}
		server.AddTool(tool, answering(`{"id":"a-1"}`))
	}
	return server
}

// listBare reads all pages of the bare server's list, as a client does.
func (s Samples) listBare(ctx context.Context, count int) {
	server := bareServer(count)
	get := func(*http.Request) *sdk.Server { return server }
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true}))
	defer web.Close()
	clients := harness.Must(load.Open(ctx, load.Target{URL: web.URL, Version: load.WithoutSessions}, 1))
	defer clients.Close()
	var pages []byte
	tools := int64(0)
	for params, more := "", true; more; {
		page := harness.Must(clients.Request(ctx, "tools/list", params))
		pages = append(pages, page...)
		tools += gjson.GetBytes(page, "tools.#").Int()
		next := gjson.GetBytes(page, "nextCursor")
		params, more = `"cursor":`+next.Raw, next.Str != ""
	}
	harness.FailIf(tools != int64(count), "the bare server lists %d tools", tools)
	s.tokens("bare-list-tokens", pages)
}
