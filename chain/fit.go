package chain

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"time"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// omissions says what an answer leaves out. The limits of the zero value are 0; see omitNothing.
type omissions struct {
	trace            traceLevel
	noWarnings       bool
	noCallerWarnings bool // the front end's warnings are left out, too
	schema           schemaLevel
	noAvailable      bool   // available and the body of a failed call are left out
	probe            []byte // replaces the result
	resultLost       bool   // probe is a preview of a result that is not stored
	faults           int    // how many faults are shown
	elements         int    // how many failed elements are shown
	writes           int    // how many entries for writes are shown
	maxMessage       int    // the maximum characters of a message
	noNearest        bool
	label            int    // the maximum characters of the front end's label
	minimalError     bool   // the place and the function of the error, and the id of the run, are left out
	noResult         bool   // the result is left out, even as a probe
	approvalsCounted bool   // the calls that wait for approval are replaced by their number
	approvalsToken   string // the continuation token of the list of these calls; "": the list is shown, or could not be stored

	storeFault *fault.Error // why the result could not be stored; nil: it was stored, or not tried
}

// omitNothing returns omissions that leave out nothing.
func (b *answerBuilder) omitNothing() *omissions {
	return &omissions{faults: len(b.faults), elements: math.MaxInt, writes: math.MaxInt, maxMessage: math.MaxInt, label: math.MaxInt}
}

type traceLevel int

const (
	traceAsked   traceLevel = iota // as the request asks
	traceSummary                   // arguments and results are left out
	traceNotOK                     // only the steps that are not ok
	traceNone
)

type schemaLevel int

const (
	schemaWhole schemaLevel = iota
	schemaSignature
	schemaNone
)

const (
	longMessage  = 2000 // characters
	shortMessage = 300
	minMessage   = 60
	manyElements = 100
	fewElements  = 10
	shortLabel   = 24
	smallResult  = 60 // bytes; a probe is no shorter
)

// reductions is the order in which an answer leaves things out until it fits.
var reductions = []func(ctx context.Context, b *answerBuilder, omit *omissions){
	func(_ context.Context, _ *answerBuilder, omit *omissions) { omit.trace = traceSummary },
	func(_ context.Context, _ *answerBuilder, omit *omissions) { omit.trace = traceNotOK },
	func(_ context.Context, _ *answerBuilder, omit *omissions) { omit.noWarnings = true },
	func(_ context.Context, _ *answerBuilder, omit *omissions) { omit.schema = schemaSignature },
	func(_ context.Context, _ *answerBuilder, omit *omissions) { omit.schema = schemaNone },
	func(_ context.Context, _ *answerBuilder, omit *omissions) {
		omit.noAvailable, omit.maxMessage = true, longMessage
	},
	func(ctx context.Context, b *answerBuilder, omit *omissions) { b.probeResult(ctx, omit) },
	func(ctx context.Context, b *answerBuilder, omit *omissions) { b.countApprovals(ctx, omit) },
	func(_ context.Context, _ *answerBuilder, omit *omissions) { omit.elements = manyElements },
	func(_ context.Context, _ *answerBuilder, omit *omissions) { omit.elements = fewElements },
	func(_ context.Context, _ *answerBuilder, omit *omissions) { omit.trace = traceNone },
	func(_ context.Context, _ *answerBuilder, omit *omissions) { omit.maxMessage = shortMessage },
	func(_ context.Context, b *answerBuilder, omit *omissions) { b.fewerFaults(omit) },
	func(_ context.Context, _ *answerBuilder, omit *omissions) { omit.noCallerWarnings = true },
	func(_ context.Context, _ *answerBuilder, omit *omissions) { omit.elements = 0 },
	func(_ context.Context, b *answerBuilder, omit *omissions) { b.fewerWrites(omit) },
	func(_ context.Context, _ *answerBuilder, omit *omissions) {
		omit.maxMessage, omit.noNearest = minMessage, true
	},
	func(_ context.Context, b *answerBuilder, omit *omissions) { b.fewerWrites(omit) },
	func(_ context.Context, b *answerBuilder, omit *omissions) { b.fewerFaults(omit) },
	func(_ context.Context, _ *answerBuilder, omit *omissions) { omit.minimalError = true },
	func(_ context.Context, b *answerBuilder, omit *omissions) { b.shorterMessage(omit) },
	func(_ context.Context, _ *answerBuilder, omit *omissions) { omit.label = shortLabel },
	func(_ context.Context, _ *answerBuilder, omit *omissions) { omit.noResult = true },
	func(_ context.Context, b *answerBuilder, omit *omissions) { b.shorterMessage(omit) },
	func(_ context.Context, _ *answerBuilder, omit *omissions) { omit.label = 0 },
}

// answer writes the answer, leaving out what does not fit.
func (b *answerBuilder) answer(ctx context.Context) *Answer {
	omit := b.omitNothing()
	if b.wantsProbe() {
		b.preferProbe(ctx, omit)
	}
	return b.fit(ctx, omit)
}

// fit writes the answer without what omit leaves out and, until it fits, without more.
func (b *answerBuilder) fit(ctx context.Context, omit *omissions) *Answer {
	b.ms = time.Since(b.started).Milliseconds()
	b.exceedsAlone = b.result != nil && !b.meter.Allows(b.result)
	json, within := b.render(omit)
	for i := 0; i < len(reductions) && !within; i++ {
		lost := omit.resultLost
		reductions[i](ctx, b, omit)
		if omit.resultLost && !lost { // without the result, there may be room for what was left out
			restart := b.omitNothing()
			restart.probe, restart.resultLost = omit.probe, true
			omit, i = restart, -1
		}
		json, within = b.render(omit)
	}
	if !within {
		// The budget is never below the cost of what is left: the code, the step and the numbers.
		b.force = true
		json, _ = b.render(omit)
	}
	b.observeStored(omit.probe != nil && !omit.resultLost)
	return &Answer{OK: b.err == nil, JSON: json, Error: b.err, Warnings: b.warnings, Warned: b.showsCallerWarnings(omit)}
}

// countApprovals replaces the calls that wait for approval by their number. It stores their list, so that it can be fetched.
func (b *answerBuilder) countApprovals(ctx context.Context, omit *omissions) {
	if b.run == nil || len(b.run.awaitingApproval) == 0 || omit.approvalsCounted {
		return
	}
	omit.approvalsCounted = true
	if b.results == nil {
		return
	}
	if token, _, err := b.results.Keep(context.WithoutCancel(ctx), b.caller, callsJSON(b.run.awaitingApproval)); err == nil {
		omit.approvalsToken = token
	}
}

// shorterMessage cuts the message until the answer fits. A character costs between a fraction of a token and four.
func (b *answerBuilder) shorterMessage(omit *omissions) {
	tooLong := sort.Search(minMessage+1, func(n int) bool {
		trial := *omit
		trial.maxMessage = n
		_, within := b.render(&trial)
		return !within
	})
	omit.maxMessage = max(tooLong-1, 0)
}

// liteAnswer answers a success in its lite form: only the result. A result that neither fits nor can be stored is a failure, which
// reports what has run.
func (b *answerBuilder) liteAnswer(ctx context.Context) *Answer {
	whole := b.liteForm(b.result)
	heavy, within := b.wantsProbe(), b.meter.Allows(whole)
	if within && !heavy {
		return b.liteSuccess(whole, false)
	}
	probe, f := b.storeResult(ctx, b.liteEnvelope(), false)
	switch {
	case f == nil:
		return b.liteSuccess(b.liteForm(probe), true)
	case within:
		return b.liteSuccess(whole, false)
	case b.run != nil:
		b.countTokens()
	}
	omit := b.omitNothing()
	b.loseResult(omit, f)
	return b.fit(ctx, omit)
}

// liteSuccess answers text, which is the result or a probe of it.
func (b *answerBuilder) liteSuccess(text []byte, probe bool) *Answer {
	b.observeStored(probe)
	return &Answer{OK: true, JSON: text, Warnings: b.warnings}
}

// liteEnvelope is the envelope of a result in the lite form.
func (b *answerBuilder) liteEnvelope() *budget.Envelope {
	empty := b.liteForm(nil)
	end := max(len(empty)-1, 0)
	return &budget.Envelope{Meter: b.meter, Before: empty[:end], After: empty[end:]}
}

// liteForm returns the lite form of a result: the result itself, or an object with the front end's label.
func (b *answerBuilder) liteForm(result []byte) []byte {
	if b.label == "" {
		return result
	}
	w := &rawjson.Writer{B: make([]byte, 0, len(result)+len(b.label)+24)}
	w.B = append(w.B, '{')
	w.Text("chain", b.label)
	w.Raw("result", result)
	w.Close('}')
	return w.B
}

// wantsProbe reports whether the answer shows a probe of the result even if the result fits: because of its size, or because the function
// asks for it and its result is the default `return`. A result that does not fit becomes a probe in any case, or it would be lost.
func (b *answerBuilder) wantsProbe() bool {
	if b.result == nil || b.run == nil || b.isLean || b.member != "result" {
		return false
	}
	declared := ""
	if last := b.run.plan.Steps[len(b.run.plan.Steps)-1]; b.run.plan.Returned == nil && last.Fn != nil && last.Selector == nil {
		declared = last.Fn.Spec().Heavy
	}
	switch {
	case declared == "never":
		return false
	case declared == "always" && b.err == nil:
		return true
	}
	return b.o.ProbeAbove > 0 && b.o.Counter.Count(b.result, b.o.ProbeAbove) > b.o.ProbeAbove
}

// preferProbe shows a probe of a result that may fit. A result that cannot be stored stays if it fits.
func (b *answerBuilder) preferProbe(ctx context.Context, omit *omissions) {
	omit.probe, omit.storeFault = b.storeResult(ctx, nil, false)
}

// probeResult replaces the result by a probe, with as much of a preview as fits.
func (b *answerBuilder) probeResult(ctx context.Context, omit *omissions) {
	if omit.resultLost || b.result == nil || b.isLean || b.member != "result" || len(b.result) <= smallResult && b.err != nil {
		return
	}
	if omit.storeFault != nil { // already tried
		b.loseResult(omit, omit.storeFault)
		return
	}
	probe, f := b.storeResult(ctx, b.resultEnvelope(omit), false)
	if f != nil && f.Code == fault.BudgetTooSmall && b.showsCallerWarnings(omit) {
		omit.noCallerWarnings = true
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

// fullEnvelope is the envelope of a result in an answer that leaves out nothing.
func (b *answerBuilder) fullEnvelope() *budget.Envelope {
	if b.lite {
		return b.liteEnvelope()
	}
	return b.resultEnvelope(b.omitNothing())
}

// resultEnvelope is the envelope of the result in an answer with these omissions.
func (b *answerBuilder) resultEnvelope(omit *omissions) *budget.Envelope {
	trial := *omit
	trial.probe = []byte{}
	text, end, number := b.write(&trial)
	envelope := &budget.Envelope{Meter: b.meter, Before: text[:end], After: text[end:], Number: number - end}
	if b.isBounded() {
		envelope.MaxRunes = maxFailure
	}
	return envelope
}

// loseResult gives up a result that neither fits nor could be stored, for the reason f. The answer shows a preview if there is room. If
// the answer has no error yet, the loss becomes its error.
func (b *answerBuilder) loseResult(omit *omissions, f *fault.Error) {
	if b.err == nil {
		b.err = b.lostFault(f)
	}
	trial := *omit
	trial.trace, trial.noWarnings = traceNone, true
	envelope := b.resultEnvelope(&trial)
	omit.probe, omit.resultLost = nil, true
	tooLong := sort.Search(maxPreview+1, func(n int) bool { return !envelope.Allows(b.preview(n)) })
	if tooLong > minPreview {
		omit.probe = b.preview(tooLong - 1)
		return
	}
	b.result, b.exceedsAlone = nil, false
}

// The preview of a lost result has at most maxPreview characters, as many as that of a probe. If there is room for fewer than minPreview,
// the preview is left out.
const maxPreview, minPreview = 200, 20

// preview describes a result that cannot be fetched: its first characters, and its size.
func (b *answerBuilder) preview(characters int) []byte {
	end := 0
	for range characters {
		_, size := utf8.DecodeRune(b.result[end:])
		end += size
	}
	w := &rawjson.Writer{B: []byte{'{'}}
	w.Text("preview", string(b.result[:end]))
	w.Int("total_size", int64(len(b.result)))
	w.Close('}')
	return w.B
}

// retryAdvice matches the advice at the end of a store's message, which is meant for direct users of the store.
var retryAdvice = regexp.MustCompile(`[;.] [Tt]ry again[^.]*\.?$`)

// lostFault is the fault for a result that neither fits nor could be stored, for the reason f. It begins with what ran, since the message
// may be cut. It does not suggest a retry if something was written.
func (b *answerBuilder) lostFault(f *fault.Error) *fault.Error {
	subject := "the result"
	switch {
	case b.run == nil:
	case b.single != nil:
		subject = b.run.plan.Steps[0].Name() + " has run; its result"
	default:
		subject = "the chain ran to its end; its result"
	}
	lost := f.Under("") // a copy
	lost.Message = fmt.Sprintf("%s, of about %d tokens, does not fit and is not kept. %s", subject, b.meter.Estimate(b.result),
		retryAdvice.ReplaceAllString(f.Message, "."))
	switch {
	case b.run != nil && b.run.madeUnrepeatable.Load():
		lost.Message += " The work is done: do not send it again."
	case f.Code.Retryable():
		lost.Message += " Ask for less, or send it again later."
	}
	return lost
}

// storeResult stores the result for its caller and returns a probe of it. The probe has a preview that fits envelope, or none
// if noPreview is set.
func (b *answerBuilder) storeResult(ctx context.Context, envelope *budget.Envelope, noPreview bool) (probe []byte, f *fault.Error) {
	if b.results == nil {
		return nil, fault.New(fault.LimitExceeded, "There is no store to keep it in (Options.Results): ask for less of it.")
	}
	var err error
	// The answer, and the result that it refers to, are due even if the client's context has ended.
	ctx = context.WithoutCancel(ctx)
	value := slices.Clip(b.result)
	if noPreview {
		probe, err = b.results.Probe(ctx, b.caller, value, 0)
	} else {
		probe, err = b.results.ProbeWithin(ctx, b.caller, value, envelope)
	}
	if err != nil {
		return nil, asFault(err, "")
	}
	return probe, nil
}

// fewerFaults shows as many faults as fit.
func (b *answerBuilder) fewerFaults(omit *omissions) {
	if len(b.faults) == 0 {
		return
	}
	omit.faults = sort.Search(len(b.faults), func(n int) bool {
		trial := *omit
		trial.faults = n + 1
		_, within := b.render(&trial)
		return !within
	})
}
