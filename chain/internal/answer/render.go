package answer

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// render writes the answer and reports whether it fits the budget; if it does not, json may be nil. usage.tokens counts the whole text,
// including its own digits.
func (b *builder) render(omit *omissions) (json []byte, within bool) {
	if b.exceedsAlone && omit.probe == nil && (b.Cause.Err == nil || !omit.gaveUp(allOfResult)) {
		return nil, false
	}
	text, _, number := b.write(omit)
	limit := b.Meter.Limit()
	tooLong := b.isBounded() && len(text) > maxFailure && utf8.RuneCount(text) > maxFailure
	if !b.force && (tooLong || limit > 0 && !b.Meter.Allows(text)) {
		return nil, false
	}
	n := b.Meter.SelfCount(text[:number], text[number:])
	b.tokens = n
	json = slices.Insert(text, number, []byte(strconv.Itoa(n))...)
	return json, limit == 0 || n <= limit
}

// write writes the answer without the number of its tokens. end is the offset of the end of its result; number is the offset at which the
// number of tokens belongs.
func (b *builder) write(omit *omissions) (text []byte, end, number int) {
	result := b.shownResult()
	switch {
	case omit.gaveUp(allOfResult) && b.Cause.Err != nil:
		result = nil
	case omit.probe != nil:
		result = omit.probe
	}
	w := &rawjson.Writer{B: make([]byte, 0, 512+len(result))}
	w.B = append(w.B, '{')
	if b.Label != "" && omit.label() > 0 {
		w.Text("chain", fault.ClipRunes(b.Label, omit.label()))
	}
	w.Bool("ok", b.Cause.Err == nil)
	if b.Cause.Err != nil {
		b.renderError(w, omit)
		b.renderWrites(w, omit)
	}
	if result != nil {
		w.Raw(b.member(), result)
		if omit.probe == nil {
			b.excerpt.write(w)
		}
	}
	end = len(w.B)
	if token := b.shownToken(omit); token != "" {
		w.Text(budget.TokenField, token)
	}
	b.renderSteps(w, omit)
	b.renderWarnings(w, omit)
	if b.Cause.Err != nil && b.Resume != "" {
		w.Text("resume", b.Resume)
		if b.Approve != "" {
			w.Text("approve", b.Approve)
		}
	}
	if b.Cause.Err != nil && !omit.gaveUp(placeOfError) {
		if b.UndoneRun != "" {
			w.Text("run", b.UndoneRun)
		}
		if b.RequestID != "" && b.Trace == "full" {
			w.Text("request", b.RequestID)
		}
	}
	w.Key("usage")
	w.B = append(w.B, `{"tokens":`...)
	number = len(w.B)
	b.renderUsage(w, result != nil && omit.probe == nil)
	return w.B, end, number
}

// maxFailure is how many characters a failure may have without the digits of usage.tokens. Clients cut longer ones.
const maxFailure = 10_000 - 10

// isBounded reports whether maxFailure applies. With trace full the client has asked for more.
func (b *builder) isBounded() bool { return b.Cause.Err != nil && b.Trace != "full" }

// showsCallerWarnings reports whether the answer has the front end's warnings.
func (b *builder) showsCallerWarnings(omit *omissions) bool {
	return len(b.CallerWarnings) > 0 && (!b.Lite || b.Cause.Err != nil) && !omit.noCallerWarnings()
}

func (b *builder) renderWarnings(w *rawjson.Writer, omit *omissions) {
	var warnings []*fault.Error
	if b.showsCallerWarnings(omit) {
		warnings = slices.Clip(b.CallerWarnings)
	}
	if (!b.Lite || b.Cause.Err != nil) && !omit.noWarnings() {
		warnings = append(warnings, b.Warnings...)
		if misfit := b.misfit(); misfit != nil {
			warnings = append(warnings, misfit)
		}
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

// renderUsage writes what follows the number of tokens, to the end of the answer. hasResult: the answer shows
// the result, and no probe of it.
func (b *builder) renderUsage(w *rawjson.Writer, hasResult bool) {
	if limit := b.Meter.Limit(); limit > 0 {
		w.B = append(w.B, `,"limit":`...)
		w.B = strconv.AppendInt(w.B, int64(limit+b.handed.tokens), 10)
	}
	calls := b.UndoCalls
	if b.Run != nil {
		calls += b.Run.Calls()
	}
	w.B = append(w.B, `,"calls":`...)
	w.B = strconv.AppendInt(w.B, calls, 10)
	if b.Run != nil {
		if cached := b.Run.Cached; cached > 0 {
			w.Int("cached", cached)
		}
		writeProjected(w, b.Run.Projected)
	}
	w.Int("ms", b.ms)
	if b.Run != nil && !b.Call {
		w.Int("kept", int64(b.storedTokens))
	}
	if b.Cause.Err == nil && hasResult {
		b.handed.write(w)
	}
	if used := b.usedFormat(); used != "" && hasResult {
		w.Text("format", used)
	}
	w.B = append(w.B, "}}"...)
}

// writeProjected writes what calls did not ask for.
func writeProjected(w *rawjson.Writer, p facts.Projected) {
	if p.Calls == 0 {
		return
	}
	w.OpenMember("projected", '{')
	w.Int("calls", p.Calls)
	if p.Members > 0 {
		w.Int("members", p.Members)
	}
	w.Close('}')
}

func (b *builder) renderSteps(w *rawjson.Writer, omit *omissions) {
	if b.Run == nil || b.Call || omit.noTrace() {
		return
	}
	opened := false
	for i := range b.Run.Steps {
		s := &b.Run.Steps[i]
		switch {
		case b.Trace == "none" && (s.Status != facts.StatusFailed || i == b.Cause.Step): // it shows only the failed steps besides that of the error
			continue
		case omit.gaveUp(stepsOK) && s.Status == facts.StatusOK:
			continue
		}
		if !opened {
			w.OpenMember("steps", '[')
			opened = true
		}
		full := b.Trace == "full" && !omit.gaveUp(traceDetails)
		writeStepTrace(w, s, b.stepTokens[i], full, i == b.Cause.Step)
	}
	if opened {
		w.Close(']')
	}
}

func (b *builder) renderError(w *rawjson.Writer, omit *omissions) {
	w.OpenMember("error", '{')
	w.Text("code", string(b.Cause.Err.Code))
	switch {
	case b.Cause.Step >= 0 && omit.gaveUp(placeOfError):
		WriteStep(w, b.Cause.Step, "")
	case b.Cause.Step >= 0:
		WriteStep(w, b.Cause.Step, b.stepID(b.Cause.Step))
	}
	if b.Cause.Failed != nil && !omit.gaveUp(placeOfError) {
		w.Text("fn", b.Cause.Failed.Spec().Name)
	}
	if b.Cause.Index >= 0 {
		w.Int("index", int64(b.Cause.Index))
	}
	if b.Cause.Err.At != "" && !omit.gaveUp(placeOfError) {
		w.Text("at", fault.ClipRunes(b.Cause.Err.At, max(omit.maxMessage(), 100)))
	}
	w.Text("message", clipMessage(b.Cause.Err.Message, omit.maxMessage()))
	b.renderFaults(w, omit)
	b.renderElements(w, omit)
	b.renderApprovals(w, omit)
	writeOutcome(w, b.Cause.Outcome, b.Cause.Err)
	if b.Cause.Err.Status > 0 {
		w.Int("status", int64(b.Cause.Err.Status))
	}
	if len(b.Cause.Err.Body) > 0 && !omit.gaveUp(availableNames) {
		w.Raw("body", jsonOrText(b.Cause.Err.Body))
	}
	if len(b.Cause.Err.Available) > 0 && !omit.gaveUp(availableNames) {
		w.Texts("available", b.Cause.Err.Available)
	}
	if !omit.gaveUp(shortMessages) {
		writeNearest(w, b.Cause.Err)
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

func (b *builder) renderFaults(w *rawjson.Writer, omit *omissions) {
	if len(b.Faults) == 0 {
		return
	}
	w.OpenMember("faults", '[')
	signatures := map[*fault.Error]string{}
	if omit.schema() != schemaNone {
		for fn, f := range b.Signatures {
			signatures[f] = fn.Signature()
		}
	}
	for _, f := range b.Faults[:omit.faults] {
		b.renderFault(w, f, omit.maxMessage(), signatures[f])
	}
	w.Close(']')
	if more := len(b.Faults) - omit.faults + b.MoreFaults; more > 0 {
		w.Int("more", int64(more))
	}
}

// renderApprovals writes the calls that wait for approval.
func (b *builder) renderApprovals(w *rawjson.Writer, omit *omissions) {
	if b.Run == nil || len(b.Run.Waiting) == 0 {
		return
	}
	if !omit.gaveUp(waitingCalls) {
		w.OpenMember("calls", '[')
		for i := range b.Run.Waiting {
			facts.WriteCall(w, &b.Run.Waiting[i])
		}
		w.Close(']')
		return
	}
	if omit.waitingToken != "" {
		w.Text(budget.TokenField, omit.waitingToken)
	}
	if omit.gaveUp(placeOfError) { // the answer's `writes` has their number
		return
	}
	counts := map[string]int{}
	for i := range b.Run.Waiting {
		counts[b.Run.Waiting[i].Function]++
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

// clipMessage is fault.ClipRunes that leaves out an address that it would cut: half of one leads nowhere.
func clipMessage(text string, n int) string {
	clipped := fault.ClipRunes(text, n)
	begin := strings.LastIndexByte(clipped, ' ') + 1
	if clipped == text || !strings.Contains(clipped[begin:], "://") {
		return clipped
	}
	return clipped[:begin] + "…"
}

// elementMessage returns what an answer says of a failed element. Of one that waits for approval, the error itself says who approves it.
func elementMessage(f *fault.Error) string {
	if f.Code == fault.ApprovalRequired {
		return "waits for approval; it was not sent"
	}
	return f.Message
}

func (b *builder) renderElements(w *rawjson.Writer, omit *omissions) {
	if len(b.Cause.More) == 0 && len(b.Cause.Unstarted) == 0 {
		return
	}
	listed := min(len(b.Cause.More), omit.elements())
	if omit.elements() > 0 {
		w.OpenMember("elements", '[')
		for _, e := range b.Cause.More[:listed] {
			w.Open('{')
			w.Int("index", int64(e.Index))
			w.Text("code", string(e.Err.Code))
			w.Text("message", fault.ClipRunes(elementMessage(e.Err), min(omit.maxMessage(), 200)))
			writeOutcome(w, e.Outcome, e.Err)
			w.Close('}')
		}
		if len(b.Cause.Unstarted) > 0 {
			w.Open('{')
			w.Text("elements", facts.FormatIntervals(b.Cause.Unstarted))
			w.Text("status", facts.StatusSkipped)
			w.Text("reason", b.Cause.UnstartedReason)
			w.Close('}')
		}
		w.Close(']')
	}
	more := len(b.Cause.More) - listed
	if omit.elements() == 0 {
		more += facts.CountElements(b.Cause.Unstarted)
	}
	if more > 0 && !omit.gaveUp(placeOfError) {
		w.Int("more", int64(more))
	}
}

// renderSchema writes the schema or signature of the function that failed, if that helps. Of the two schema levels the higher one applies:
// it shows less.
func (b *builder) renderSchema(w *rawjson.Writer, omit *omissions) {
	if b.Cause.Failed == nil || max(b.schemaHelp, omit.schema()) == schemaNone {
		return
	}
	if max(b.schemaHelp, omit.schema()) == schemaWhole {
		if input, err := schema.Compact(b.Cause.Failed.Spec().Input); err == nil && len(input) > 0 {
			w.Raw("inputSchema", input)
			return
		}
	}
	w.Text("signature", b.Cause.Failed.Signature())
}

// retryable reports whether the same chain or call may succeed if it is sent again, and does no harm: nothing was sent that is not safe to
// repeat. It decides this for every answer: of chains, calls and passed calls.
func (b *builder) retryable() bool {
	passes := b.Cause.Err.Code.Retryable()
	switch b.Cause.Err.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		passes = true
	}
	return passes && (b.Run == nil || !b.Run.Unrepeatable)
}
