package chain

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
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
	w := &rawjson.Writer{B: make([]byte, 0, 512+len(result))}
	w.B = append(w.B, '{')
	if b.label != "" && omit.label > 0 {
		w.Text("chain", fault.ClipRunes(b.label, omit.label))
	}
	w.Bool("ok", b.err == nil)
	if b.err != nil {
		b.renderError(w, omit)
		b.renderWrites(w, omit)
	}
	if result != nil {
		w.Raw(b.member, result)
	}
	end = len(w.B)
	b.renderSteps(w, omit)
	b.renderWarnings(w, omit)
	if b.err != nil && b.resumeToken != "" {
		w.Text("resume", b.resumeToken)
		if b.approveToken != "" {
			w.Text("approve", b.approveToken)
		}
	}
	if b.err != nil && !omit.minimalError {
		if b.undoneRun != "" {
			w.Text("run", b.undoneRun)
		}
		if b.requestID != "" && b.trace == "full" {
			w.Text("request", b.requestID)
		}
	}
	w.Key("usage")
	w.B = append(w.B, `{"tokens":`...)
	number = len(w.B)
	b.renderUsage(w)
	return w.B, end, number
}

// maxFailure is how many characters a failure may have without the digits of usage.tokens. Clients cut longer ones.
const maxFailure = 10_000 - 10

// isBounded reports whether maxFailure applies. With trace full the client has asked for more.
func (b *answerBuilder) isBounded() bool { return b.err != nil && b.trace != "full" }

// showsCallerWarnings reports whether the answer has the front end's warnings.
func (b *answerBuilder) showsCallerWarnings(omit *omissions) bool {
	return len(b.callerWarnings) > 0 && (!b.lite || b.err != nil) && !omit.noCallerWarnings
}

func (b *answerBuilder) renderWarnings(w *rawjson.Writer, omit *omissions) {
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
	w.OpenMember("warnings", '[')
	for _, f := range warnings {
		b.renderWarning(w, f)
	}
	w.Close(']')
}

// renderUsage writes what follows the number of tokens, to the end of the answer.
func (b *answerBuilder) renderUsage(w *rawjson.Writer) {
	if limit := b.meter.Limit(); limit > 0 {
		w.B = append(w.B, `,"limit":`...)
		w.B = strconv.AppendInt(w.B, int64(limit), 10)
	}
	calls := b.undoCallCount.Load()
	if b.run != nil {
		calls += b.run.callCount()
	}
	w.B = append(w.B, `,"calls":`...)
	w.B = strconv.AppendInt(w.B, calls, 10)
	if b.run != nil {
		if cached := b.run.cached.Load(); cached > 0 {
			w.Int("cached", cached)
		}
	}
	w.Int("ms", b.ms)
	if b.run != nil && b.single == nil {
		w.Int("kept", int64(b.storedTokens))
	}
	w.B = append(w.B, "}}"...)
}

func (b *answerBuilder) renderSteps(w *rawjson.Writer, omit *omissions) {
	if b.run == nil || b.single != nil || omit.trace == traceNone {
		return
	}
	opened := false
	for i := range b.run.steps {
		s := &b.run.steps[i]
		switch {
		case b.trace == "none" && (s.Status != facts.StatusFailed || i == b.step): // it shows only the failed steps besides that of the error
			continue
		case omit.trace == traceNotOK && s.Status == facts.StatusOK:
			continue
		}
		if !opened {
			w.OpenMember("steps", '[')
			opened = true
		}
		full := b.trace == "full" && omit.trace == traceAsked
		writeStepTrace(w, b.run.plan.Steps[i], s, b.stepTokens[i], full, i == b.step)
	}
	if opened {
		w.Close(']')
	}
}

func (b *answerBuilder) renderError(w *rawjson.Writer, omit *omissions) {
	w.OpenMember("error", '{')
	w.Text("code", string(b.err.Code))
	switch {
	case b.step >= 0 && omit.minimalError:
		writeStep(w, b.step, "")
	case b.step >= 0:
		writeStep(w, b.step, b.idOf(b.step))
	}
	if b.failed != nil && !omit.minimalError {
		w.Text("fn", b.failed.Spec().Name)
	}
	if b.index >= 0 {
		w.Int("index", int64(b.index))
	}
	if b.err.At != "" && !omit.minimalError {
		w.Text("at", fault.ClipRunes(b.err.At, max(omit.maxMessage, 100)))
	}
	w.Text("message", fault.ClipRunes(b.err.Message, omit.maxMessage))
	b.renderFaults(w, omit)
	b.renderElements(w, omit)
	b.renderApprovals(w, omit)
	writeOutcome(w, b.outcome, b.err)
	if b.err.Status > 0 {
		w.Int("status", int64(b.err.Status))
	}
	if len(b.err.Body) > 0 && !omit.noAvailable {
		w.Raw("body", jsonOrText(b.err.Body))
	}
	if len(b.err.Available) > 0 && !omit.noAvailable {
		w.Texts("available", b.err.Available)
	}
	if !omit.noNearest {
		writeNearest(w, b.err)
	}
	w.Bool("retryable", b.retryable())
	b.renderSchema(w, omit)
	w.Close('}')
}

// jsonOrText returns a body as JSON. A body that is not JSON becomes a string.
func jsonOrText(body []byte) []byte {
	if compact, err := schema.Compact(body); err == nil {
		return compact
	}
	return rawjson.AppendQuote(nil, string(body))
}

func (b *answerBuilder) renderFaults(w *rawjson.Writer, omit *omissions) {
	if len(b.faults) == 0 {
		return
	}
	w.OpenMember("faults", '[')
	signatures := map[*fault.Error]string{}
	if omit.schema != schemaNone {
		for fn, f := range b.signatures {
			signatures[f] = fn.Signature()
		}
	}
	for _, f := range b.faults[:omit.faults] {
		b.renderFault(w, f, omit.maxMessage, signatures[f])
	}
	w.Close(']')
	if more := len(b.faults) - omit.faults + b.moreFaults; more > 0 {
		w.Int("more", int64(more))
	}
}

// renderApprovals writes the calls that wait for approval.
func (b *answerBuilder) renderApprovals(w *rawjson.Writer, omit *omissions) {
	if b.run == nil || len(b.run.awaitingApproval) == 0 {
		return
	}
	if !omit.approvalsCounted {
		w.OpenMember("calls", '[')
		for i := range b.run.awaitingApproval {
			writeApprovalCall(w, &b.run.awaitingApproval[i])
		}
		w.Close(']')
		return
	}
	if omit.approvalsToken != "" {
		w.Text(plan.TokenField, omit.approvalsToken)
	}
	if omit.minimalError { // the answer's `writes` has their number
		return
	}
	counts := map[string]int{}
	for i := range b.run.awaitingApproval {
		counts[b.run.awaitingApproval[i].Function]++
	}
	w.OpenMember("waiting", '[')
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		w.Open('{')
		w.Text("fn", name)
		w.Int("count", int64(counts[name]))
		w.Close('}')
	}
	w.Close(']')
}

func (b *answerBuilder) renderElements(w *rawjson.Writer, omit *omissions) {
	if len(b.moreElements) == 0 && len(b.unstarted) == 0 {
		return
	}
	listed := min(len(b.moreElements), omit.elements)
	if omit.elements > 0 {
		w.OpenMember("elements", '[')
		for _, e := range b.moreElements[:listed] {
			w.Open('{')
			w.Int("index", int64(e.Index))
			w.Text("code", string(e.Err.Code))
			w.Text("message", fault.ClipRunes(e.Err.Message, min(omit.maxMessage, 200)))
			writeOutcome(w, e.Outcome, e.Err)
			w.Close('}')
		}
		if len(b.unstarted) > 0 {
			w.Open('{')
			w.Text("elements", facts.FormatIntervals(b.unstarted))
			w.Text("status", facts.StatusSkipped)
			w.Text("reason", b.unstartedReason)
			w.Close('}')
		}
		w.Close(']')
	}
	more := len(b.moreElements) - listed
	if omit.elements == 0 {
		more += facts.CountElements(b.unstarted)
	}
	if more > 0 && !omit.minimalError {
		w.Int("more", int64(more))
	}
}

// renderSchema writes the schema or signature of the function that failed, if that helps. Of the two schema levels the higher one applies:
// it shows less.
func (b *answerBuilder) renderSchema(w *rawjson.Writer, omit *omissions) {
	if b.failed == nil || max(b.schemaHelp, omit.schema) == schemaNone {
		return
	}
	if max(b.schemaHelp, omit.schema) == schemaWhole {
		if input, err := schema.Compact(b.failed.Spec().Input); err == nil && len(input) > 0 {
			w.Raw("inputSchema", input)
			return
		}
	}
	w.Text("signature", b.failed.Signature())
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
