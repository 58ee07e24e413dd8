package chain

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// render writes the answer and reports whether it fits the budget; if it does not, json may be nil. usage.tokens counts the whole text,
// including its own digits.
func (b *answerBuilder) render(omit *omissions) (json []byte, within bool) {
	if b.exceedsAlone && omit.probe == nil && (b.err == nil || !omit.noResult) {
		return nil, false
	}
	text, _, number := b.write(omit)
	limit := b.meter.Limit()
	tooLong := b.isBounded() && len(text) > maxFailure && utf8.RuneCount(text) > maxFailure
	if !b.force && (tooLong || limit > 0 && !b.meter.Allows(text)) {
		return nil, false
	}
	n := b.meter.SelfCount(text[:number], text[number:])
	b.answerTokens = n
	if b.observation != nil {
		b.observation.result.Tokens = n
	}
	json = slices.Insert(text, number, []byte(strconv.Itoa(n))...)
	return json, limit == 0 || n <= limit
}

// write writes the answer without the number of its tokens. end is the offset of the end of its result; number is the offset at which the
// number of tokens belongs.
func (b *answerBuilder) write(omit *omissions) (text []byte, end, number int) {
	result := b.result
	switch {
	case omit.noResult && b.err != nil:
		result = nil
	case omit.probe != nil:
		result = omit.probe
	}
	w := &jsonWriter{b: make([]byte, 0, 512+len(result))}
	w.b = append(w.b, '{')
	if b.label != "" && omit.label > 0 {
		w.text("chain", fault.ClipRunes(b.label, omit.label))
	}
	w.bool("ok", b.err == nil)
	if b.err != nil {
		b.renderError(w, omit)
		b.renderWrites(w, omit)
	}
	if result != nil {
		w.raw(b.member, result)
	}
	end = len(w.b)
	b.renderSteps(w, omit)
	b.renderWarnings(w, omit)
	if b.err != nil && b.resumeToken != "" {
		w.text("resume", b.resumeToken)
		if b.approveToken != "" {
			w.text("approve", b.approveToken)
		}
	}
	if b.err != nil && !omit.minimalError {
		if b.undoneRun != "" {
			w.text("run", b.undoneRun)
		}
		if b.requestID != "" && b.trace == "full" {
			w.text("request", b.requestID)
		}
	}
	w.key("usage")
	w.b = append(w.b, `{"tokens":`...)
	number = len(w.b)
	b.renderUsage(w)
	return w.b, end, number
}

// maxFailure is how many characters a failure may have without the digits of usage.tokens. Clients cut longer ones.
const maxFailure = 10_000 - 10

// isBounded reports whether maxFailure applies. With trace full the client has asked for more.
func (b *answerBuilder) isBounded() bool { return b.err != nil && b.trace != "full" }

// showsCallerWarnings reports whether the answer has the front end's warnings.
func (b *answerBuilder) showsCallerWarnings(omit *omissions) bool {
	return len(b.callerWarnings) > 0 && (!b.lite || b.err != nil) && !omit.noCallerWarnings
}

func (b *answerBuilder) renderWarnings(w *jsonWriter, omit *omissions) {
	var warnings []*fault.Error
	if b.showsCallerWarnings(omit) {
		warnings = slices.Clip(b.callerWarnings)
	}
	if (!b.lite || b.err != nil) && !omit.noWarnings {
		warnings = append(warnings, b.warnings...)
	}
	if len(warnings) == 0 {
		return
	}
	w.key("warnings")
	w.b = append(w.b, '[')
	for _, f := range warnings {
		b.renderWarning(w, f)
	}
	w.close(']')
}

// renderUsage writes what follows the number of tokens, to the end of the answer.
func (b *answerBuilder) renderUsage(w *jsonWriter) {
	if limit := b.meter.Limit(); limit > 0 {
		w.b = append(w.b, `,"limit":`...)
		w.b = strconv.AppendInt(w.b, int64(limit), 10)
	}
	calls := b.undoCallCount.Load()
	if b.run != nil {
		calls += b.run.callCount()
	}
	w.b = append(w.b, `,"calls":`...)
	w.b = strconv.AppendInt(w.b, calls, 10)
	if b.run != nil {
		if cached := b.run.cached.Load(); cached > 0 {
			w.int("cached", cached)
		}
	}
	w.int("ms", b.ms)
	if b.run != nil && b.single == nil {
		w.int("kept", int64(b.storedTokens))
	}
	w.b = append(w.b, "}}"...)
}

func (b *answerBuilder) renderSteps(w *jsonWriter, omit *omissions) {
	if b.run == nil || b.single != nil || omit.trace == traceNone {
		return
	}
	opened := false
	for i := range b.run.steps {
		s := &b.run.steps[i]
		switch {
		case b.trace == "none" && (s.status != statusFailed || i == b.step): // it shows only the failed steps besides that of the error
			continue
		case omit.trace == traceNotOK && s.status == statusOK:
			continue
		}
		if !opened {
			w.key("steps")
			w.b = append(w.b, '[')
			opened = true
		}
		full := b.trace == "full" && omit.trace == traceAsked
		w.stepTrace(b.run.plan.steps[i], s, b.stepTokens[i], full, i == b.step)
	}
	if opened {
		w.close(']')
	}
}

func (b *answerBuilder) renderError(w *jsonWriter, omit *omissions) {
	w.key("error")
	w.b = append(w.b, '{')
	w.text("code", string(b.err.Code))
	switch {
	case b.step >= 0 && omit.minimalError:
		w.step(b.step, "")
	case b.step >= 0:
		w.step(b.step, b.idOf(b.step))
	}
	if b.failed != nil && !omit.minimalError {
		w.text("fn", b.failed.Spec().Name)
	}
	if b.index >= 0 {
		w.int("index", int64(b.index))
	}
	if b.err.At != "" && !omit.minimalError {
		w.text("at", fault.ClipRunes(b.err.At, max(omit.maxMessage, 100)))
	}
	w.text("message", fault.ClipRunes(b.err.Message, omit.maxMessage))
	b.renderFaults(w, omit)
	b.renderElements(w, omit)
	b.renderApprovals(w, omit)
	w.outcome(b.outcome, b.err)
	if b.err.Status > 0 {
		w.int("status", int64(b.err.Status))
	}
	if len(b.err.Body) > 0 && !omit.noAvailable {
		w.raw("body", jsonOrText(b.err.Body))
	}
	if len(b.err.Available) > 0 && !omit.noAvailable {
		w.texts("available", b.err.Available)
	}
	if !omit.noNearest {
		w.nearest(b.err)
	}
	w.bool("retryable", b.retryable())
	b.renderSchema(w, omit)
	w.close('}')
}

// jsonOrText returns a body as JSON. A body that is not JSON becomes a string.
func jsonOrText(body []byte) []byte {
	if compact, err := schema.Compact(body); err == nil {
		return compact
	}
	return appendString(nil, string(body))
}

func (b *answerBuilder) renderFaults(w *jsonWriter, omit *omissions) {
	if len(b.faults) == 0 {
		return
	}
	w.key("faults")
	w.b = append(w.b, '[')
	signatures := map[*fault.Error]string{}
	if omit.schema != schemaNone {
		for fn, f := range b.signatureFaults {
			signatures[f] = fn.Signature()
		}
	}
	for _, f := range b.faults[:omit.faults] {
		b.renderFault(w, f, omit.maxMessage, signatures[f])
	}
	w.close(']')
	if more := len(b.faults) - omit.faults + b.moreFaults; more > 0 {
		w.int("more", int64(more))
	}
}

// renderApprovals writes the calls that wait for approval.
func (b *answerBuilder) renderApprovals(w *jsonWriter, omit *omissions) {
	if b.run == nil || len(b.run.awaitingApproval) == 0 {
		return
	}
	if !omit.approvalsCounted {
		w.key("calls")
		w.b = append(w.b, '[')
		for i := range b.run.awaitingApproval {
			w.approvalCall(&b.run.awaitingApproval[i])
		}
		w.close(']')
		return
	}
	if omit.approvalsToken != "" {
		w.text(tokenField, omit.approvalsToken)
	}
	if omit.minimalError { // the answer's `writes` has their number
		return
	}
	counts := map[string]int{}
	for i := range b.run.awaitingApproval {
		counts[b.run.awaitingApproval[i].Function]++
	}
	w.key("waiting")
	w.b = append(w.b, '[')
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		w.open('{')
		w.text("fn", name)
		w.int("count", int64(counts[name]))
		w.close('}')
	}
	w.close(']')
}

func (b *answerBuilder) renderElements(w *jsonWriter, omit *omissions) {
	if len(b.moreElements) == 0 && len(b.unstarted) == 0 {
		return
	}
	listed := min(len(b.moreElements), omit.elements)
	if omit.elements > 0 {
		w.key("elements")
		w.b = append(w.b, '[')
		for _, e := range b.moreElements[:listed] {
			w.open('{')
			w.int("index", int64(e.index))
			w.text("code", string(e.err.Code))
			w.text("message", fault.ClipRunes(e.err.Message, min(omit.maxMessage, 200)))
			w.outcome(e.outcome, e.err)
			w.close('}')
		}
		if len(b.unstarted) > 0 {
			w.open('{')
			w.text("elements", formatIntervals(b.unstarted))
			w.text("status", statusSkipped)
			w.text("reason", b.unstartedReason)
			w.close('}')
		}
		w.close(']')
	}
	more := len(b.moreElements) - listed
	if omit.elements == 0 {
		more += countElements(b.unstarted)
	}
	if more > 0 && !omit.minimalError {
		w.int("more", int64(more))
	}
}

// renderSchema writes the schema or signature of the function that failed, if that helps. Of the two schema levels the higher one applies:
// it shows less.
func (b *answerBuilder) renderSchema(w *jsonWriter, omit *omissions) {
	if b.failed == nil || max(b.schemaHelp, omit.schema) == schemaNone {
		return
	}
	if max(b.schemaHelp, omit.schema) == schemaWhole {
		if input, err := schema.Compact(b.failed.Spec().Input); err == nil && len(input) > 0 {
			w.raw("inputSchema", input)
			return
		}
	}
	w.text("signature", b.failed.Signature())
}

// retryable reports whether the same chain or call may succeed if it is sent again, and does no harm: nothing was sent that is not safe to
// repeat. It decides this for every answer: of chains, calls and passed calls.
func (b *answerBuilder) retryable() bool {
	passes := b.err.Code.Retryable()
	switch b.err.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		passes = true
	}
	return passes && (b.run == nil || !b.run.madeUnrepeatable.Load())
}
