package chain

import (
	"context"
	"strings"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
)

// fetch answers a request for more of a kept result. No step runs, whatever the request holds.
func (s *exchange) fetch(ctx context.Context, f *fetchRequest, faults []*fault.Error) *Answer {
	s.most = s.o.MaxTotalTokens // the caller's own bound is not for fetches
	low := s.apply(f.Budget, f.Lite, "")
	if s.override.Check {
		faults = append(faults, fault.New(fault.BadRequest, "a fetch cannot be checked: it has no steps"))
	}
	if low != nil {
		faults = append(faults, f.placed(low))
	}
	if len(faults) > 0 {
		return s.failure(ctx, faults[0])
	}
	if s.results == nil {
		return s.failure(ctx, fault.New(fault.TokenExpired, budget.Expired))
	}
	d := &draft{exchange: s, step: -1, index: -1, member: "result"}
	result, err := s.results.Holding(s.holdKept).Answer(ctx, s.owner, f.wanted(), d.wholeRoom(), query)
	if err != nil {
		return s.failure(ctx, f.placed(coded(err, "")))
	}
	d.result = result
	if s.lite {
		return d.bareAnswer(ctx)
	}
	return d.answer(ctx)
}

// placed puts a fault's place below the object that holds the fetch.
func (f *fetchRequest) placed(e *fault.Error) *fault.Error {
	if e.At == "" {
		return e
	}
	return e.Under(f.at)
}

func (f *fetchRequest) wanted() budget.Fetch {
	w := budget.Fetch{Token: f.Token, Mode: f.Mode, FilterKeys: f.FilterKeys, Query: f.Query}
	if f.Page != nil {
		w.Page, w.PageSet = *f.Page, true
	}
	if f.PageSize != nil {
		w.PageSize, w.PageSizeSet = *f.PageSize, true
	}
	return w
}

// query runs a path or an expression over a kept value. In a path `$result` may be left out: `.items[0]`, `items[0]`.
func query(ctx context.Context, text string, value []byte) ([]byte, error) {
	place := refs.Place{At: "/query", Result: true}
	selector, faults := refs.CompileSelector(text, place)
	root := "$result."
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "[") || strings.HasPrefix(text, "?") {
		root = "$result"
	}
	if len(faults) > 0 || strings.HasPrefix(text, "[") { // which could also be a list, of no use here
		if _, err := refs.Parse(root + text); err == nil {
			selector, faults = refs.CompileSelector(root+text, place)
		}
	}
	if len(faults) > 0 {
		return nil, faults[0]
	}
	return selector.Resolve(ctx, &refs.Scope{Result: value})
}
