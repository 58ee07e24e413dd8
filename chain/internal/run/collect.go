package run

import (
	"context"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/refs"
)

// collectRound appends the array that repeat.collect returns for a round to joined, the arrays of earlier rounds. It releases
// the bytes of joined and holds those of the returned array; with a fault, it returns nil and holds nothing.
func (r *Run) collectRound(ctx context.Context, p *plan.Step, scope *refs.Scope, joined []byte) ([]byte, *fault.Error) {
	at := p.At + "/repeat/collect"
	fail := func(f *fault.Error) ([]byte, *fault.Error) {
		r.o.Memory.Release(len(joined))
		return nil, f
	}
	raw, err := p.Collect.Resolve(ctx, scope)
	if err != nil {
		return fail(fault.From(err, at))
	}
	if value := gjson.ParseBytes(raw); !value.IsArray() {
		return fail(fault.New(fault.BadArguments, "collect needs an array, not %s%s", decode.Describe(value),
			arrayInstead(p.Collect.String(), value)).Under(at))
	}
	switch {
	case joined == nil: // the first round
	case len(raw) == len("[]"): // nothing to append
		return joined, nil
	case len(joined) == len("[]"): // nothing to append to
	default:
		raw = append(append(joined[:len(joined)-1], ','), raw[1:]...)
	}
	if int64(len(raw)) > r.o.MaxResultBytes {
		return fail(fault.New(fault.LimitExceeded,
			"the collected arrays have %d bytes, the limit is %d (limits.maxResultBytes): collect less of each round",
			len(raw), r.o.MaxResultBytes).Under(at))
	}
	r.o.Memory.Release(len(joined))
	if f := r.results.hold(p, len(raw)); f != nil {
		return nil, f
	}
	return raw, nil
}
