package chain

import (
	"cmp"
	"context"
	"strings"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
)

// answerFetch answers a request for more of a stored result. No step runs, whatever the request contains.
func (s *request) answerFetch(ctx context.Context, f *plan.FetchRequest, faults []*fault.Error) *Answer {
	s.maxTokens = s.o.MaxTotalTokens // the caller's own limit does not apply to fetches
	low := s.applyForm(f.Budget, f.Lite, "")
	if s.override.Check {
		faults = append(faults, fault.New(fault.BadRequest, "a fetch cannot be checked: it has no steps"))
	}
	if low != nil {
		faults = append(faults, f.Relocate(low))
	}
	if len(faults) > 0 {
		return s.failureAnswer(ctx, faults[0])
	}
	if s.form.Results == nil {
		return s.failureAnswer(ctx, fault.New(fault.TokenExpired, budget.ExpiredMessage))
	}
	labels := s.takeLabels(ctx, f.Token)
	s.form.Format = cmp.Or(s.override.Format, f.Format)
	envelope, formatted := s.form.FetchEnvelope(s.warnings)
	result, err := s.form.Results.WithReserve(s.memory.Reserve).Answer(ctx, s.caller, f.ToFetch(), envelope, query)
	if err != nil {
		return s.failureAnswer(ctx, f.Relocate(fault.From(err, "")))
	}
	c := s.content(facts.NoStep(nil))
	c.Result, c.Formatted = result, formatted
	a := s.answer(ctx, c)
	a.Labels = labels
	return a
}

// query evaluates a path or an expression over a stored value. A path may omit `$result`: `.items[0]`, `items[0]`.
func query(ctx context.Context, text string, value []byte) ([]byte, error) {
	env := refs.CompileScope{At: "/query", Result: true}
	selector, faults := refs.CompileSelector(text, env)
	root := "$result."
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "[") || strings.HasPrefix(text, "?") {
		root = "$result"
	}
	if len(faults) > 0 || strings.HasPrefix(text, "[") { // it could be a list, which is useless here
		if _, err := refs.Parse(root + text); err == nil {
			selector, faults = refs.CompileSelector(root+text, env)
		}
	}
	if len(faults) > 0 {
		return nil, faults[0]
	}
	return selector.Resolve(ctx, &refs.Scope{Result: value})
}
