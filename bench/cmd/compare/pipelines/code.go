package pipelines

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
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

// limits are the maximum numbers of symbols that a search returns.
var limits = []int{3, 5, 10}

// maxShare is the project's own limit for the chain's share of tokens.
const maxShare = 0.30

// codeSearch measures the pipeline search → card → skeleton over source code.
func codeSearch(ctx context.Context, o *report.Options, counter budget.Counter, s *report.Section) error {
	folder, version, err := moduleFolder(ctx, o.Root, sdkModule)
	if err != nil {
		return err
	}
	symbols, err := readSymbols(filepath.Join(folder, "mcp"))
	if err != nil {
		return err
	}
	var all []*codePipeline
	for _, limit := range limits {
		p := &codePipeline{symbols: symbols, counter: counter, limit: limit}
		if err := p.open(); err != nil {
			return err
		}
		random := rand.New(rand.NewPCG(1, 2)) // a fixed seed, so that all limits look up the same symbols
		for _, i := range random.Perm(len(symbols))[:lookups] {
			if err := p.lookUp(ctx, longestWord(symbols[i].Name)); err != nil {
				return err
			}
		}
		all = append(all, p)
	}
	s.Versions[sdkModule] = version
	s.Corpus = append(s.Corpus,
		fmt.Sprintf("%d of %d functions of the package mcp of %s, drawn with a fixed seed", lookups, len(symbols), sdkModule))
	s.Tables = append(s.Tables, codeTable(all))
	for _, p := range all[1:] { // the shortest pages have no figure
		s.Figures = append(s.Figures, p.figure())
	}
	s.Comments = append(s.Comments, codeComments...)
	return nil
}

// codeComments explain what the pipeline's figures show and what they do not.
var codeComments = []string{
	"The functions of search → card → skeleton are made here over Go source, in the form of servers for source code: a search answers " +
		"symbols with signature and first line of documentation, a card tells one with its callers, a skeleton is its control flow. " +
		"The search is for the longest word of a name, as by one who does not know the name.",
	"The chain writes more than the three calls together, as it has references, and reads the skeleton alone. So what it saves grows with " +
		"what the search answers: the figures are of pages of 5 and of 10 symbols. With short pages the chain's own request is a third of its " +
		"tokens.",
}

// figure returns the chain's share of tokens. The figure for pages of 10 symbols, a usual size, has the plain name.
func (p *codePipeline) figure() report.Figure {
	name := "search-card-skeleton/three-calls"
	if p.limit != 10 {
		name += fmt.Sprintf("/%d-symbols", p.limit)
	}
	value := report.Share(tokens(p.chain), tokens(p.calls))
	return report.Figure{Name: name, Value: value.Value, Unit: value.Unit, How: value.How, Max: maxShare, Tolerance: exact,
		Title: fmt.Sprintf("search (up to %d symbols) → card → skeleton, request and answer, lite / three calls", p.limit),
		Why:   "With so short a page the chain's request, and the skeleton that both ways end with, are a third of all that three calls cost."}
}

// longestWord returns the longest word of a name in camel case.
func longestWord(name string) (longest string) {
	for _, word := range words.FindAllString(name[strings.LastIndex(name, ".")+1:], -1) {
		if len(word) > len(longest) {
			longest = word
		}
	}
	return longest
}

var words = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)

// moduleFolder returns the folder with the source of a module that the repository depends on.
func moduleFolder(ctx context.Context, root, module string) (folder, version string, err error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}|{{.Version}}", module)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "", "", fmt.Errorf("go list %s: %w", module, err)
	}
	folder, version, _ = strings.Cut(strings.TrimSpace(string(out)), "|")
	return folder, version, nil
}

// codePipeline looks up symbols with three calls, and with one chain.
type codePipeline struct {
	symbols []*symbol
	counter budget.Counter
	limit   int
	engine  *chain.Engine
	entries map[string]*steps.Entry

	calls  tally.Side
	tools  [3]tally.Side // the cost of each of the three calls
	chain  tally.Side
	text   tally.Side // the cost of a chain that returns the skeleton's text alone
	shares []float64  // the chain's share of the calls' tokens, for each symbol
}

func tokens(s tally.Side) int { return s.Written + s.Read }

func (p *codePipeline) open() error {
	registry, err := steps.NewRegistry(p.functions(), nil)
	if err != nil {
		return err
	}
	p.entries = map[string]*steps.Entry{}
	for _, f := range p.functions() {
		if p.entries[f.Name], err = registry.Resolve(f.Name); err != nil {
			return err
		}
	}
	p.engine, err = chain.New(&chain.Options{Functions: registry})
	return err
}

// functions returns the functions of a server for source code.
func (p *codePipeline) functions() []steps.Function {
	function := func(name, properties, required string, call func(args *arguments) (any, error)) steps.Function {
		return steps.Function{
			Spec: steps.Spec{Name: name, Effect: steps.Read, EffectDeclared: true,
				Input: fmt.Appendf(nil, `{"type":"object","properties":{%s},"required":[%q]}`, properties, required)},
			Call: func(_ context.Context, text []byte) ([]byte, error) {
				args := &arguments{}
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
	return []steps.Function{
		function("symbol.search", `"query":{"type":"string"},"limit":{"type":"integer"}`, "query", func(args *arguments) (any, error) {
			matches, total := search(p.symbols, args.Query, args.Limit)
			return map[string]any{"symbols": matches, "total": total}, nil
		}),
		function("symbol.getCard", `"symbolId":{"type":"string"}`, "symbolId", func(args *arguments) (any, error) {
			s, err := p.symbol(args.SymbolID)
			return map[string]any{"card": s}, err
		}),
		function("code.skeleton", `"symbolId":{"type":"string"}`, "symbolId", func(args *arguments) (any, error) {
			s, err := p.symbol(args.SymbolID)
			if err != nil {
				return nil, err
			}
			return map[string]any{"symbolId": s.ID, "file": s.File, "skeleton": s.skeleton()}, nil
		}),
	}
}

// arguments are the arguments of all functions.
type arguments struct {
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
func (p *codePipeline) lookUp(ctx context.Context, name string) error {
	query, err := rawjson.Marshal(map[string]any{"query": name, "limit": p.limit})
	if err != nil {
		return err
	}
	calls := []tally.Call{{Function: "symbol.search", Args: query}, {Function: "symbol.getCard"}, {Function: "code.skeleton"}}
	for i := range calls {
		if i > 0 { // the id is in the result of the call before
			id := gjson.GetBytes(calls[i-1].Result, [...]string{"", "symbols.0.symbolId", "card.symbolId"}[i])
			calls[i].Args = fmt.Appendf(nil, `{"symbolId":%s}`, id.Raw)
		}
		if calls[i].Result, err = p.entries[calls[i].Function].Call(ctx, calls[i].Args); err != nil {
			return err
		}
		p.tools[i].Add(tally.Calls(p.counter, calls[i:i+1]))
	}
	const chained = `{"steps":[{"fn":"symbol.search","args":%s},{"fn":"symbol.getCard","args":{"symbolId":"$0.symbols[0].symbolId"}},` +
		`{"fn":"code.skeleton","args":{"symbolId":"$1.card.symbolId"}}],%s"lite":true}`
	byCalls := tally.Calls(p.counter, calls)
	byChain, err := p.runChain(ctx, fmt.Appendf(nil, chained, query, ""), calls[2].Result)
	if err != nil {
		return err
	}
	skeleton := gjson.GetBytes(calls[2].Result, "skeleton").Raw
	text, err := p.runChain(ctx, fmt.Appendf(nil, chained, query, `"return":"$2.skeleton",`), []byte(skeleton))
	if err != nil {
		return err
	}
	p.calls.Add(byCalls)
	p.chain.Add(byChain)
	p.text.Add(text)
	p.shares = append(p.shares, float64(tokens(byChain))/float64(tokens(byCalls)))
	return nil
}

// runChain runs a chain, and checks its answer.
func (p *codePipeline) runChain(ctx context.Context, request, want []byte) (tally.Side, error) {
	answer := p.engine.Run(ctx, request, nil)
	if !bytes.Equal(answer.JSON, want) {
		return tally.Side{}, fmt.Errorf("the chain answered %s, the calls %s", answer.JSON, want)
	}
	return tally.Chain(p.counter, request, answer.JSON), nil
}

func codeTable(all []*codePipeline) report.Table {
	t := report.Table{Title: "Search → card → skeleton over source code: mean tokens of a symbol",
		Columns: []string{"way", "round trips", "written", "read", "together", "against calls"}}
	row := func(name string, s tally.Side, trips int, against report.Cell) {
		mean := func(n int) report.Cell {
			return report.Cell{Value: float64(n) / lookups, How: report.Computed}
		}
		cells := []report.Cell{report.Count(trips, ""), mean(s.Written), mean(s.Read), mean(tokens(s)), against}
		t.Rows = append(t.Rows, report.Row{Name: name, Cells: cells})
	}
	for _, p := range all {
		row(fmt.Sprintf("search, up to %d symbols", p.limit), p.tools[0], 1, report.Cell{})
		if p == all[0] {
			row("card", p.tools[1], 1, report.Cell{})
			row("skeleton", p.tools[2], 1, report.Cell{})
		}
		row("these three calls", p.calls, 3, report.Cell{})
		against := report.Of(p.shares, "×")
		against.How = report.Computed
		against.Value = report.Share(tokens(p.chain), tokens(p.calls)).Value
		row("chain, lite", p.chain, 1, against)
		row("chain, lite, returning the skeleton's text", p.text, 1, report.Share(tokens(p.text), tokens(p.calls)))
	}
	return t
}
