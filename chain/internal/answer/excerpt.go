package answer

import (
	"context"
	"slices"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// excerpt is what an answer says of a result that it shows in part.
type excerpt struct {
	whole []byte
	left  budget.LeftOut
	token string // fetches the whole result
}

// useExcerpt replaces the result by the part that its function's Answer shows, and stores the whole result for the caller, if all of this
// holds:
//
//   - the result is the whole result of one step, which succeeded (facts.Run.Whole), and orElse has not replaced it;
//   - the request does not set `verify`, the function does not set Heavy to always, and the answer is not the lean form of a write;
//   - the part leaves something out, and is within the budget. Otherwise the whole result is answered, or a probe of it.
//
// If the result cannot be stored it is answered completely.
func (b *builder) useExcerpt(ctx context.Context) {
	configured := b.configuredExcerpt()
	if configured == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	shown, left, err := (*budget.Excerpt)(configured).Of(ctx, b.Result)
	if err != nil || left == (budget.LeftOut{}) || !b.Meter.Allows(shown) {
		return
	}
	token, _, err := b.Results.Keep(ctx, b.Caller, slices.Clip(b.Result))
	if err != nil {
		return
	}
	b.excerpt, b.Result = &excerpt{b.Result, left, token}, shown
}

// configuredExcerpt is what the configuration says to show of the result; nil: all.
func (b *builder) configuredExcerpt() *steps.Excerpt {
	if b.Run.Whole < 0 || b.isLean || b.Verify || b.Results == nil || b.Result == nil {
		return nil
	}
	ran := &b.Run.Steps[b.Run.Whole]
	spec := ran.Callee().Spec()
	if ran.Status != facts.StatusOK || ran.Defaulted > 0 || spec.Heavy == "always" {
		return nil
	}
	return spec.Answer
}

// wholeResult is the result before useExcerpt.
func (b *builder) wholeResult() []byte {
	if b.excerpt != nil {
		return b.excerpt.whole
	}
	return b.Result
}

// write writes what an excerpt leaves out; of nil nothing.
func (e *excerpt) write(w *rawjson.Writer) {
	if e == nil {
		return
	}
	w.OpenMember("left_out", '{')
	if e.left.Elements > 0 {
		w.Int("elements", int64(e.left.Elements))
	}
	if e.left.Members > 0 {
		w.Int("members", int64(e.left.Members))
	}
	w.Text(budget.TokenField, e.token)
	w.Close('}')
}
