package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/tally"
	"github.com/onecall-mcp/onecall/steps"
)

const (
	sdkModule = "github.com/modelcontextprotocol/go-sdk"
	lookups   = 50 // symbols that are looked up
)

// TestCodeCounts counts the pipeline search → card → skeleton over source code, with pages of each length.
func TestCodeCounts(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}|{{.Version}}", sdkModule).Output()
	if err != nil {
		t.Fatal(err)
	}
	folder, version, _ := strings.Cut(strings.TrimSpace(string(out)), "|")
	symbols, err := readSymbols(filepath.Join(folder, "mcp"))
	if err != nil {
		t.Fatal(err)
	}
	c := &counts{
		Name: "pipelines", Title: "Search → card → skeleton, counted by a test",
		Question: "What does one chain save where the answer of each call holds the argument of the next? *Written* are the calls as a model " +
			"writes them, {\"name\":…,\"arguments\":{…}}; *read* are the answers that enter its context. Shares are ratios of the sums.",
		Versions: map[string]string{sdkModule: version},
		Corpus:   []string{fmt.Sprintf("%d of %d functions of the package mcp of %s, drawn with a fixed seed", lookups, len(symbols), sdkModule)},
		Notes:    codeNotes,
	}
	var rows []countRow
	for _, limit := range []int{3, 5, 10} {
		p := newCodePipeline(t, symbols, limit)
		random := rand.New(rand.NewPCG(1, 2)) // a fixed seed, so that all limits look up the same symbols
		for _, i := range random.Perm(len(symbols))[:lookups] {
			p.lookUp(t, longestWord(symbols[i].Name))
		}
		rows = append(rows, p.rows(limit == 3)...)
		if limit > 3 { // the shortest pages have no figure
			p.addFigure(c)
		}
	}
	c.table("Search → card → skeleton over source code: mean tokens of a symbol",
		[]string{"way", "round trips", "written", "read", "together", "against calls"}, rows...)
	c.hold(t)
}

// codeNotes explain what the pipeline's figures show and what they do not.
var codeNotes = []string{
	"The functions of search → card → skeleton are made here over Go source, in the form of servers for source code: a search answers " +
		"symbols with signature and first line of documentation, a card tells one with its callers, a skeleton is its control flow. " +
		"The search is for the longest word of a name, as by one who does not know the name.",
	"The chain writes more than the three calls together, as it has references, and reads the skeleton alone. So what it saves grows with " +
		"what the search answers: the figures are of pages of 5 and of 10 symbols. With short pages the chain's own request is a third of its " +
		"tokens.",
}

// addFigure adds the chain's share of tokens. The figure for pages of 10 symbols, a usual size, has the plain name.
func (p *codePipeline) addFigure(c *counts) {
	name := "search-card-skeleton/three-calls"
	if p.limit != 10 {
		name += fmt.Sprintf("/%d-symbols", p.limit)
	}
	f := c.ratio(name, fmt.Sprintf("search (up to %d symbols) → card → skeleton, request and answer, lite / three calls", p.limit),
		together(p.chain), together(p.calls))
	f.AtMost = 0.30
	f.Why = "With so short a page the chain's request, and the skeleton that both ways end with, are a third of all that three calls cost."
}

// longestWord returns the longest word of a name in camel case.
func longestWord(name string) (longest string) {
	for _, word := range camelWords.FindAllString(name[strings.LastIndex(name, ".")+1:], -1) {
		if len(word) > len(longest) {
			longest = word
		}
	}
	return longest
}

var camelWords = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)

// codePipeline looks up symbols with three calls, and with one chain.
type codePipeline struct {
	symbols  []*symbol
	counter  budget.Counter
	limit    int
	engine   *chain.Engine
	registry *steps.Registry

	calls  tally.Side
	tools  [3]tally.Side // the cost of each of the three calls
	chain  tally.Side
	text   tally.Side // the cost of a chain that returns the skeleton's text alone
	shares []float64  // the chain's share of the calls' tokens, for each symbol
}

func newCodePipeline(t *testing.T, symbols []*symbol, limit int) *codePipeline {
	t.Helper()
	p := &codePipeline{symbols: symbols, counter: newCounter(t), limit: limit}
	var err error
	if p.registry, err = steps.NewRegistry(p.functions(), nil); err != nil {
		t.Fatal(err)
	}
	if p.engine, err = chain.New(&chain.Options{Functions: p.registry}); err != nil {
		t.Fatal(err)
	}
	return p
}

// functions returns the functions of a server for source code.
func (p *codePipeline) functions() []steps.Function {
	function := func(name, properties, required string, call func(args *codeArguments) (any, error)) steps.Function {
		return steps.Function{
			Spec: steps.Spec{Name: name, Effect: steps.Read, EffectDeclared: true,
				Input: fmt.Appendf(nil, `{"type":"object","properties":{%s},"required":[%q]}`, properties, required)},
			Call: func(_ context.Context, text []byte) ([]byte, error) {
				args := &codeArguments{}
				if err := json.Unmarshal(text, args); err != nil {
					return nil, err
				}
				answer, err := call(args)
				if err != nil {
					return nil, err
				}
				return rawjson.Marshal(answer)
			},
		}
	}
	const id = `"symbolId":{"type":"string"}`
	return []steps.Function{
		function("symbol.search", `"query":{"type":"string"},"limit":{"type":"integer"}`, "query", func(args *codeArguments) (any, error) {
			matches, total := search(p.symbols, args.Query, args.Limit)
			return map[string]any{"symbols": matches, "total": total}, nil
		}),
		function("symbol.getCard", id, "symbolId", func(args *codeArguments) (any, error) {
			s, err := p.symbol(args.SymbolID)
			return map[string]any{"card": s}, err
		}),
		function("code.skeleton", id, "symbolId", func(args *codeArguments) (any, error) {
			s, err := p.symbol(args.SymbolID)
			if err != nil {
				return nil, err
			}
			return map[string]any{"symbolId": s.ID, "file": s.File, "skeleton": s.skeleton()}, nil
		}),
	}
}

// codeArguments are the arguments of all functions.
type codeArguments struct {
	Query    string
	Limit    int
	SymbolID string
}

func (p *codePipeline) symbol(id string) (*symbol, error) {
	for _, s := range p.symbols {
		if s.ID == id {
			return s, nil
		}
	}
	return nil, fault.New(fault.FunctionFailed, "no such symbol: %s", id)
}

// lookUp looks up a symbol both ways, and checks that both return the same.
func (p *codePipeline) lookUp(t *testing.T, name string) {
	t.Helper()
	query := fmt.Appendf(nil, `{"limit":%d,"query":%q}`, p.limit, name)
	calls := []tally.Call{{Function: "symbol.search", Args: query}, {Function: "symbol.getCard"}, {Function: "code.skeleton"}}
	for i := range calls {
		if i > 0 { // the id is in the result of the call before
			id := gjson.GetBytes(calls[i-1].Result, [...]string{"", "symbols.0.symbolId", "card.symbolId"}[i])
			calls[i].Args = fmt.Appendf(nil, `{"symbolId":%s}`, id.Raw)
		}
		entry, err := p.registry.Resolve(calls[i].Function)
		if err != nil {
			t.Fatal(err)
		}
		if calls[i].Result, err = entry.Call(t.Context(), calls[i].Args); err != nil {
			t.Fatal(err)
		}
		p.tools[i].Add(tally.Calls(p.counter, calls[i:i+1]))
	}
	const chained = `{"steps":[{"fn":"symbol.search","args":%s},{"fn":"symbol.getCard","args":{"symbolId":"$0.symbols[0].symbolId"}},` +
		`{"fn":"code.skeleton","args":{"symbolId":"$1.card.symbolId"}}],%s"lite":true}`
	byCalls := tally.Calls(p.counter, calls)
	byChain := p.runChain(t, fmt.Appendf(nil, chained, query, ""), string(calls[2].Result))
	p.calls.Add(byCalls)
	p.chain.Add(byChain)
	p.text.Add(p.runChain(t, fmt.Appendf(nil, chained, query, `"return":"$2.skeleton",`), gjson.GetBytes(calls[2].Result, "skeleton").Raw))
	p.shares = append(p.shares, float64(together(byChain))/float64(together(byCalls)))
}

// runChain runs a chain, and checks its answer.
func (p *codePipeline) runChain(t *testing.T, request []byte, want string) tally.Side {
	t.Helper()
	answer := p.engine.Run(t.Context(), request, nil)
	if string(answer.JSON) != want {
		t.Fatalf("the chain answered %s, the calls %s", answer.JSON, want)
	}
	return tally.Chain(p.counter, request, answer.JSON)
}

// rows returns the rows of the table, with those of the card and the skeleton if they are not there yet.
func (p *codePipeline) rows(first bool) (rows []countRow) {
	add := func(name string, s tally.Side, trips int, against countCell) {
		mean := func(n int) countCell { return countCell{Value: float64(n) / lookups, How: "computed"} }
		rows = append(rows, countRow{name, []countCell{numberCell(trips), mean(s.Written), mean(s.Read), mean(together(s)), against}})
	}
	add(fmt.Sprintf("search, up to %d symbols", p.limit), p.tools[0], 1, countCell{})
	if first {
		add("card", p.tools[1], 1, countCell{})
		add("skeleton", p.tools[2], 1, countCell{})
	}
	add("these three calls", p.calls, 3, countCell{})
	add("chain, lite", p.chain, 1, shareCell(together(p.chain), together(p.calls)).spread(p.shares))
	add("chain, lite, returning the skeleton's text", p.text, 1, shareCell(together(p.text), together(p.calls)))
	return rows
}
