package answer

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"time"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// writeStandard writes the answer in its standard form, leaving out what does not fit.
func (b *builder) writeStandard(ctx context.Context) Written {
	b.countTokens()
	omit := b.omitNothing()
	if b.wantsProbe() {
		b.preferProbe(ctx, omit)
	}
	return b.fit(ctx, omit)
}

// fit writes the answer without what omit leaves out and, until it fits, without more.
func (b *builder) fit(ctx context.Context, omit *omissions) Written {
	b.ms = time.Since(b.Started).Milliseconds()
	b.exceedsAlone = b.Result != nil && !b.Meter.Allows(b.shownResult())
	json, within := b.render(omit)
	for omit.stage < lastStage && !within {
		lost := omit.resultLost
		b.giveUp(ctx, omit)
		if omit.resultLost && !lost { // without the result, there may be room for what was left out
			restart := b.omitNothing()
			restart.probe, restart.resultLost = omit.probe, true
			omit = restart
		}
		json, within = b.render(omit)
	}
	if !within {
		// The budget is never below the cost of what is left: the code, the step and the numbers.
		b.force = true
		json, _ = b.render(omit)
	}
	probe := omit.probe != nil && !omit.resultLost
	w := b.written(json, probe)
	w.Warned = b.showsCallerWarnings(omit)
	return w
}

// countWaiting stores the list of the calls that wait for approval, whose number is shown instead, so that the list can be fetched.
func (b *builder) countWaiting(ctx context.Context, omit *omissions) {
	if b.Run == nil || len(b.Run.Waiting) == 0 || b.Results == nil {
		return
	}
	if token, _, err := b.Results.Keep(context.WithoutCancel(ctx), b.Caller, facts.CallsJSON(b.Run.Waiting)); err == nil {
		omit.waitingToken = token
	}
}

// shorterMessage cuts the message until the answer fits. A character costs between a fraction of a token and four.
func (b *builder) shorterMessage(omit *omissions) {
	tooLong := sort.Search(minMessage+1, func(n int) bool {
		trial := *omit
		trial.message = n
		_, within := b.render(&trial)
		return !within
	})
	omit.message = max(tooLong-1, 0)
}

// writeLite answers a success in its lite form: only the result. A result that neither fits nor can be stored is a failure, which
// reports what has run.
func (b *builder) writeLite(ctx context.Context) Written {
	whole := b.liteForm(b.shownResult(), b.excerpt)
	heavy, within := b.wantsProbe(), b.isWithin(whole)
	if within && !heavy {
		return b.writtenLite(whole)
	}
	probe, f := b.storeResult(ctx, b.liteEnvelope(), false)
	switch {
	case f == nil:
		return b.written(b.liteForm(probe, nil), true)
	case within:
		return b.writtenLite(whole)
	case b.Run != nil:
		b.countTokens()
	}
	omit := b.omitNothing()
	b.loseResult(omit, f)
	return b.fit(ctx, omit)
}

// writtenLite describes a lite answer with the whole result.
func (b *builder) writtenLite(whole []byte) Written {
	w := b.written(whole, false)
	w.Text = b.isText(whole)
	return w
}

// liteEnvelope is the envelope of a result in the lite form.
func (b *builder) liteEnvelope() *budget.Envelope {
	empty := b.liteForm(nil, nil)
	end := max(len(empty)-1, 0)
	return &budget.Envelope{Meter: b.Meter, Before: empty[:end], After: empty[end:]}
}

// liteForm returns the lite form of a result: the result itself, or an object with the front end's label and what an excerpt leaves out.
func (b *builder) liteForm(result []byte, left *excerpt) []byte {
	if b.Label == "" && left == nil {
		return result
	}
	w := &rawjson.Writer{B: make([]byte, 0, len(result)+len(b.Label)+128)}
	w.B = append(w.B, '{')
	if b.Label != "" {
		w.Text("chain", b.Label)
	}
	w.Raw("result", result)
	left.write(w)
	w.Close('}')
	return w.B
}

// wantsProbe reports whether the answer shows a probe of the result even if the result fits: because of its size, or because the function
// asks for it and its result is the default `return`. A result that does not fit becomes a probe in any case, or it would be lost.
func (b *builder) wantsProbe() bool {
	if b.Result == nil || b.Run == nil || b.isLean || b.isDifference || b.Plan {
		return false
	}
	switch heavy := b.Run.Last.Heavy; {
	case heavy == "never":
		return false
	case heavy == "always" && b.Cause.Err == nil:
		return true
	}
	return b.ProbeAbove > 0 && b.Counter.Count(b.shownResult(), b.ProbeAbove) > b.ProbeAbove
}

// preferProbe shows a probe of a result that may fit. A result that cannot be stored stays if it fits.
func (b *builder) preferProbe(ctx context.Context, omit *omissions) {
	omit.probe, omit.storeFault = b.storeResult(ctx, nil, false)
}

// probeResult replaces the result by a probe, with as much of a preview as fits.
func (b *builder) probeResult(ctx context.Context, omit *omissions) {
	if omit.resultLost || b.Result == nil || b.isLean || b.isDifference || b.Plan || len(b.Result) <= smallResult && b.Cause.Err != nil {
		return
	}
	if omit.storeFault != nil { // already tried
		b.loseResult(omit, omit.storeFault)
		return
	}
	probe, f := b.storeResult(ctx, b.resultEnvelope(omit), false)
	if f != nil && f.Code == fault.BudgetTooSmall && b.showsCallerWarnings(omit) {
		omit.withoutCallersOwn = true
		probe, f = b.storeResult(ctx, b.resultEnvelope(omit), false)
	}
	if f != nil && f.Code == fault.BudgetTooSmall {
		probe, f = b.storeResult(ctx, nil, true)
	}
	if f != nil {
		b.loseResult(omit, f)
		return
	}
	omit.probe = probe
}

// Envelope is the envelope of a result in an answer that leaves out nothing. plan: the result is a plan.
func (f *Form) Envelope(plan bool, warnings []*fault.Error) *budget.Envelope {
	b := f.builder(&Content{Cause: facts.NoStep(nil), Plan: plan, Warnings: warnings})
	if b.Lite {
		return b.liteEnvelope()
	}
	return b.resultEnvelope(b.omitNothing())
}

// member is the name of the result.
func (b *builder) member() string {
	if b.Plan {
		return "plan"
	}
	return "result"
}

// resultEnvelope is the envelope of the result in an answer with these omissions.
func (b *builder) resultEnvelope(omit *omissions) *budget.Envelope {
	trial := *omit
	trial.probe = []byte{}
	return b.envelope(&trial)
}

// envelope is the envelope of a result that is empty in an answer with these omissions.
func (b *builder) envelope(omit *omissions) *budget.Envelope {
	text, end, number := b.write(omit)
	envelope := &budget.Envelope{Meter: b.Meter, Before: text[:end], After: text[end:], Number: number - end}
	if b.isBounded() {
		envelope.MaxRunes = maxFailure
	}
	return envelope
}

// loseResult gives up a result that neither fits nor could be stored, for the reason f. The answer shows a preview if there is room. If
// the answer has no error yet, the loss becomes its error.
func (b *builder) loseResult(omit *omissions, f *fault.Error) {
	if b.Cause.Err == nil {
		b.Cause.Err = b.lostFault(f)
	}
	b.Result, b.excerpt = b.wholeResult(), nil
	trial := *omit
	trial.besideResult = true
	envelope := b.resultEnvelope(&trial)
	omit.probe, omit.resultLost = nil, true
	tooLong := sort.Search(maxPreview+1, func(n int) bool { return !envelope.Allows(b.preview(n)) })
	if tooLong > minPreview {
		omit.probe = b.preview(tooLong - 1)
		return
	}
	b.Result, b.shown, b.exceedsAlone = nil, nil, false
}

// The preview of a lost result has at most maxPreview characters, as many as that of a probe. If there is room for fewer than minPreview,
// the preview is left out.
const maxPreview, minPreview = 200, 20

// preview describes a result that cannot be fetched: its first characters, and its size.
func (b *builder) preview(characters int) []byte {
	text, end := b.textOfResult(), 0
	for range characters {
		_, size := utf8.DecodeRune(text[end:])
		end += size
	}
	w := &rawjson.Writer{B: []byte{'{'}}
	w.Text("preview", string(text[:end]))
	w.Int("total_size", int64(len(b.Result)))
	w.Close('}')
	return w.B
}

// retryAdvice matches the advice at the end of a store's message, which is meant for direct users of the store.
var retryAdvice = regexp.MustCompile(`[;.] [Tt]ry again[^.]*\.?$`)

// lostFault is the fault for a result that neither fits nor could be stored, for the reason f. It begins with what ran, since the message
// may be cut. It does not suggest a retry if something was written.
func (b *builder) lostFault(f *fault.Error) *fault.Error {
	subject := "the result"
	switch {
	case b.Run == nil:
	case b.Call:
		subject = b.Run.Steps[0].Name() + " has run; its result"
	default:
		subject = "the chain ran to its end; its result"
	}
	lost := f.Under("") // a copy
	lost.Message = fmt.Sprintf("%s, of about %d tokens, does not fit and is not kept. %s", subject, b.Meter.Estimate(b.Result),
		retryAdvice.ReplaceAllString(f.Message, "."))
	switch {
	case b.Run != nil && b.Run.Unrepeatable:
		lost.Message += " The work is done: do not send it again."
	case f.Code.Retryable():
		lost.Message += " Ask for less, or send it again later."
	}
	return lost
}

// storeResult stores the result for its caller and returns a probe of it. The probe has a preview that fits envelope, or none
// if noPreview is set.
func (b *builder) storeResult(ctx context.Context, envelope *budget.Envelope, noPreview bool) (probe []byte, f *fault.Error) {
	if b.Results == nil {
		return nil, fault.New(fault.LimitExceeded, "There is no store to keep it in (Options.Results): ask for less of it.")
	}
	var err error
	// The answer, and the result that it refers to, are due even if the client's context has ended.
	ctx = context.WithoutCancel(ctx)
	value := slices.Clip(b.wholeResult())
	if noPreview {
		probe, err = b.Results.Probe(ctx, b.Caller, value, 0)
	} else {
		probe, err = b.Results.ProbeWithin(ctx, b.Caller, value, b.inEnvelope(envelope))
	}
	if err != nil {
		return nil, fault.From(err, "")
	}
	return probe, nil
}

// fewerFaults shows as many faults as fit.
func (b *builder) fewerFaults(omit *omissions) {
	if len(b.Faults) == 0 {
		return
	}
	omit.faults = sort.Search(len(b.Faults), func(n int) bool {
		trial := *omit
		trial.faults = n + 1
		_, within := b.render(&trial)
		return !within
	})
}
