package datasets

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// Bounded is a run of a chain, and what its dry run said before that it would take.
type Bounded struct {
	ID                           string
	Bound                        chain.Bound
	Known                        bool // the journal has calls of all its functions, by other tasks
	Calls, Bytes, Tokens, Millis int64
}

// Above returns what the run took more of than the high end says.
func (b *Bounded) Above() (what []string) {
	for _, part := range b.parts() {
		if part.High != chain.Unknown && part.took > part.High || part.took < part.Low {
			what = append(what, fmt.Sprintf("%s: %d %s, bound %+v", b.ID, part.took, part.name, part.Interval))
		}
	}
	return what
}

// Near reports whether what is likely of calls, bytes or tokens is within a factor of two of what the run took.
func (b *Bounded) Near(what string) bool {
	parts := b.parts()
	part := parts[slices.IndexFunc(parts, func(p boundedPart) bool { return p.name == what })]
	return part.Likely != chain.Unknown && part.Likely <= 2*part.took && part.took <= 2*part.Likely
}

type boundedPart struct {
	name string
	chain.Interval
	took int64
}

func (b *Bounded) parts() []boundedPart {
	return []boundedPart{{"calls", b.Bound.Calls, b.Calls}, {"bytes", b.Bound.Bytes, b.Bytes}, {"tokens", b.Bound.Tokens, b.Tokens},
		{"ms", b.Bound.Millis, b.Millis}}
}

// others is a driver whose sums of days have the calls of all callers but one.
type others struct {
	journal.Driver
	but string
}

func (o *others) Days(ctx context.Context, f *journal.Filter) ([]journal.Day, error) {
	days, err := o.Driver.Days(ctx, f)
	return slices.DeleteFunc(days, func(d journal.Day) bool { return d.Caller == o.but }), err
}

// boundedTokens is the budget of the answers, that of MCP servers.
const boundedTokens = 10_000

// Bounds runs each chain, and says beside what it took what a dry run says if the journal has the runs of all chains but this one.
func Bounds(ctx context.Context, chains []*Chain) (list []Bounded, err error) {
	driver := &others{Driver: &journal.Memory{}}
	j, err := journal.New(driver, nil)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	store, err := memstore.New(nil)
	if err != nil {
		return nil, err
	}
	results, err := budget.NewResults(store, nil)
	if err != nil {
		return nil, err
	}
	defer results.Close()
	options := chain.Options{Journal: j, Results: results, MaxTotalTokens: boundedTokens}
	for _, c := range chains {
		b, err := c.bounded(ctx, options)
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	for i, c := range chains {
		driver.but = c.ID
		a, err := c.answer(ctx, options, `"dryRun":true,`)
		if err != nil {
			return nil, err
		}
		list[i].Bound, list[i].Known = a.Plan.Bound, a.Plan.Bound.Bytes.Likely != chain.Unknown
	}
	return list, nil
}

// bounded runs the chain.
func (c *Chain) bounded(ctx context.Context, o chain.Options) (b Bounded, err error) {
	a, err := c.answer(ctx, o, "")
	if err != nil {
		return b, err
	}
	calls, err := c.Calls()
	usage := gjson.GetBytes(a.JSON, "usage")
	b = Bounded{ID: c.ID, Calls: usage.Get("calls").Int(), Tokens: usage.Get("tokens").Int(), Millis: usage.Get("ms").Int()}
	for i := range calls {
		b.Bytes += int64(len(rawjson.AppendCompact(nil, calls[i].Result)))
	}
	return b, err
}

// answer sends the chain with more fields. Its caller has the name of the chain.
func (c *Chain) answer(ctx context.Context, o chain.Options, fields string) (*chain.Answer, error) {
	calls, err := c.Calls()
	if err != nil {
		return nil, err
	}
	player, err := Replay(Recording(calls), nil)
	if err != nil {
		return nil, err
	}
	o.Functions = player.Functions
	engine, err := chain.New(&o)
	if err != nil {
		return nil, err
	}
	request := fmt.Appendf(nil, `{%s"steps":%s}`, fields, c.Steps)
	caller := &chain.Caller{ID: c.ID, Override: chain.Override{Operator: true}}
	a := engine.Run(player.Cassette.Cursor(ctx, c.ID), request, caller)
	if !a.OK {
		return nil, fmt.Errorf("%s failed: %s", c.ID, a.JSON)
	}
	return a, nil
}
