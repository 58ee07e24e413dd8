package answer

import (
	"context"
	"crypto/sha256"
	"math"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/internal/difference"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// IfChanged says with what a result is compared, so that the answer has only what is new to its reader.
type IfChanged struct {
	Token   string          // of the earlier answer; "": as the session remembers
	Session *steps.Session  // what its client was shown; nil: there is none
	Results *budget.Results // the store of the request, with its accounting
}

// heavyBytes is the size of two values above which comparing them is heavy work.
const heavyBytes = 64 << 10

// comparison is how the answer's result is compared with what its reader was shown before.
type comparison struct {
	*IfChanged
	id    [sha256.Size]byte // of the call that gave the result
	value []byte            // the result
	token string            // names it in the store; "": it is not kept
}

// writeDifference writes the answer with what has changed since an earlier one, and lets the session remember what this one shows.
func (b *builder) writeDifference(ctx context.Context) Written {
	b.useDifference(context.WithoutCancel(ctx))
	w := b.writeForm(ctx)
	if c := b.compared; c != nil && c.token != "" && !w.Probe && w.Err == nil && ctx.Err() == nil {
		shownTo(c.Session).add(c.id, c.token)
	}
	return w
}

// useDifference replaces the result of a read by what an earlier answer, which showed it whole, does not say: that it is unchanged or, if
// that is shorter, what has changed. The result is kept, so that the next answer can be compared with this one.
//
// It is not for a result that is shown as a probe or in part, nor for a value from orElse. If the store fails, the result stays and is not
// kept.
func (b *builder) useDifference(ctx context.Context) {
	if !b.Run.Compared || b.Cause.Err != nil || b.warnNotWhole() {
		return
	}
	ran := &b.Run.Steps[b.Run.Whole]
	if ran.Status != facts.StatusOK || ran.Defaulted > 0 {
		return
	}
	c := &comparison{IfChanged: b.IfChanged, id: callID(ran), value: b.Result}
	b.compared = c
	earlier, token := c.earlier(ctx, b.Caller)
	ways, same := c.ways(ctx, earlier.Value)
	switch {
	case same && !earlier.Ends:
		c.token = token
	case same, len(ways) > 0, b.Meter.Allows(b.shownResult()) && (c.Session != nil || !b.Lite): // a later request can refer to the result
		c.keep(ctx, b.Caller)
	}
	if c.token == "" {
		return
	}
	cost := math.MaxInt
	switch {
	case same: // which is said even if the result has fewer tokens
		ways = [][]byte{nil}
	case len(ways) > 0:
		cost = b.Meter.Count(b.shownResult())
	}
	for _, way := range ways {
		report := changeReport(way, earlier.At, c.token)
		if n := b.Meter.Count(report); n < cost && b.leavesRoom(report) {
			b.Result, b.isDifference, cost = report, true, n
			b.shown, b.Formatted = nil, nil
		}
	}
}

// warnNotWhole warns of a result that is not shown whole, with which nothing is compared.
func (b *builder) warnNotWhole() bool {
	const does = "ifChanged does nothing here: "
	var why string
	switch {
	case b.excerpt != nil:
		why = does + "the answer shows a part of the result. To see all of it, and later what has changed, send verify: true, too"
	case b.wantsProbe():
		why = does + "the result is so large that the answer shows a probe of it, also of an unchanged one"
	default:
		return false
	}
	b.Warnings = append(slices.Clip(b.Warnings), fault.New(fault.BadRequest, "%s", why).Under("/ifChanged"))
	return true
}

// callID identifies a call by its function and its arguments.
func callID(s *facts.Step) [sha256.Size]byte {
	text := append([]byte(s.Fn.Spec().Name), 0)
	canonical, err := rawjson.AppendCanonical(text, s.Args)
	if err != nil {
		return sha256.Sum256(append(text, s.Args...)) // as they are
	}
	return sha256.Sum256(canonical)
}

// earlier returns what the reader was shown, and its token; the zero value if it was not, or that is not kept any more.
func (c *comparison) earlier(ctx context.Context, caller string) (shown budget.Shown, token string) {
	if token = c.Token; token == "" {
		token = shownTo(c.Session).token(c.id)
	}
	if token == "" {
		return shown, ""
	}
	shown, err := c.Results.Shown(ctx, caller, token)
	if err != nil {
		return budget.Shown{}, ""
	}
	return shown, token
}

// ways returns how to tell what has changed since the earlier value (nil: there is none), and whether nothing has.
func (c *comparison) ways(ctx context.Context, earlier []byte) (ways [][]byte, same bool) {
	if earlier == nil {
		return nil, false
	}
	if len(earlier)+len(c.value) > heavyBytes {
		var slot admit.Slot
		if slot.Acquire(ctx) != nil {
			return nil, false
		}
		defer slot.Release()
	}
	return difference.Between(earlier, c.value)
}

// keep keeps the result in the store.
func (c *comparison) keep(ctx context.Context, caller string) {
	if token, err := c.Results.KeepShown(ctx, caller, slices.Clip(c.value)); err == nil {
		c.token = token
	}
}

// leavesRoom reports whether a short result fits the answer once that has given up all that goes before a result.
func (b *builder) leavesRoom(result []byte) bool {
	if b.Lite {
		return b.liteEnvelope().Allows(result)
	}
	omit := b.omitNothing()
	omit.stage = resultForProbe - 1
	b.ms = math.MaxInt32 // no run takes longer, and no number costs more
	return b.resultEnvelope(omit).Allows(result)
}

// changeReport is the result in place of one that was shown at a time; changed is nil if it is unchanged.
func changeReport(changed []byte, since time.Time, token string) []byte {
	w := &rawjson.Writer{B: []byte{'{'}}
	if changed == nil {
		w.Bool("unchanged", true)
	} else {
		w.Raw("changed", changed)
	}
	w.Text("since", since.UTC().Format(time.RFC3339))
	w.Text(budget.TokenField, token)
	w.Close('}')
	return w.B
}

// shownToken is the token that the answer has beside a result that it shows whole; "": none. A session needs none, unless its client sent
// one.
func (b *builder) shownToken(omit *omissions) string {
	c := b.compared
	if c == nil || c.Session != nil && c.Token == "" {
		return ""
	}
	if b.isDifference || b.Cause.Err != nil || omit.probe != nil || omit.gaveUp(resultForProbe-1) {
		return ""
	}
	return c.token
}
