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

// render writes the draft with a trim, and reports whether it fits the budget. usage.tokens is what the whole text costs,
// its own digits included.
func (d *draft) render(t *trim) (json []byte, fits bool) {
	if d.hopeless && t.probe == nil && (d.err == nil || !t.noResult) {
		return nil, false
	}
	text, _, number := d.write(t)
	limit := d.meter.Limit()
	tooLong := d.bounded() && len(text) > maxFailure && utf8.RuneCount(text) > maxFailure
	if !d.last && (tooLong || limit > 0 && !d.meter.Fits(text)) {
		return nil, false
	}
	n := d.meter.Settle(text[:number], text[number:])
	d.cost = n
	if d.observation != nil {
		d.observation.told.Tokens = n
	}
	json = slices.Insert(text, number, []byte(strconv.Itoa(n))...)
	return json, limit == 0 || n <= limit
}

// write writes the draft with a trim, without the number of its tokens. end is where its result ends, and number where that
// number goes.
func (d *draft) write(t *trim) (text []byte, end, number int) {
	result := d.result
	switch {
	case t.noResult && d.err != nil:
		result = nil
	case t.probe != nil:
		result = t.probe
	}
	w := &writer{b: make([]byte, 0, 512+len(result))}
	w.b = append(w.b, '{')
	if d.label != "" && t.label > 0 {
		w.text("chain", fault.ClipRunes(d.label, t.label))
	}
	w.bool("ok", d.err == nil)
	if d.err != nil {
		d.renderError(w, t)
		d.renderWrites(w, t)
	}
	if result != nil {
		w.raw(d.member, result)
	}
	end = len(w.b)
	d.renderSteps(w, t)
	d.renderWarnings(w, t)
	if d.err != nil && d.resume != "" {
		w.text("resume", d.resume)
		if d.approves != "" {
			w.text("approve", d.approves)
		}
	}
	if d.err != nil && d.id != "" && !t.bare {
		w.text("run", d.id)
	}
	w.key("usage")
	w.b = append(w.b, `{"tokens":`...)
	number = len(w.b)
	d.renderUsage(w)
	return w.b, end, number
}

// maxFailure is the most characters of a failure, the digits of usage.tokens not counted: clients cut longer ones.
const maxFailure = 10_000 - 10

// bounded reports whether the answer may have no more characters than clients take. With trace full the client has asked for more.
func (d *draft) bounded() bool { return d.err != nil && d.trace != "full" }

// noticed reports whether the front end's warnings stand in the answer.
func (d *draft) noticed(t *trim) bool {
	return len(d.notices) > 0 && (!d.lite || d.err != nil) && !t.noNotices
}

func (d *draft) renderWarnings(w *writer, t *trim) {
	var told []*fault.Error
	if d.noticed(t) {
		told = slices.Clip(d.notices)
	}
	if (!d.lite || d.err != nil) && !t.noWarnings {
		told = append(told, d.warnings...)
	}
	if len(told) == 0 {
		return
	}
	w.key("warnings")
	w.b = append(w.b, '[')
	for _, f := range told {
		d.renderWarning(w, f)
	}
	w.close(']')
}

func (d *draft) renderUsage(w *writer) {
	if limit := d.meter.Limit(); limit > 0 {
		w.b = append(w.b, `,"limit":`...)
		w.b = strconv.AppendInt(w.b, int64(limit), 10)
	}
	calls := int64(0)
	if d.run != nil {
		calls = d.run.made()
	}
	w.b = append(w.b, `,"calls":`...)
	w.b = strconv.AppendInt(w.b, calls, 10)
	if d.run != nil {
		if cached := d.run.cached.Load(); cached > 0 {
			w.int("cached", cached)
		}
	}
	w.int("ms", d.ms)
	if d.run != nil && d.single == nil {
		w.int("kept", int64(d.kept))
	}
	w.b = append(w.b, "}}"...)
}

func (d *draft) renderSteps(w *writer, t *trim) {
	if d.run == nil || d.single != nil || t.trace == traceNone {
		return
	}
	some := false
	for i := range d.run.steps {
		s := &d.run.steps[i]
		switch {
		case d.trace == "none" && (s.status != statusFailed || i == d.step): // a failure tells all that failed
			continue
		case t.trace == traceNotOK && s.status == statusOK:
			continue
		}
		if !some {
			w.key("steps")
			w.b = append(w.b, '[')
			some = true
		}
		full := d.trace == "full" && t.trace == traceAsked
		w.ran(d.run.plan.steps[i], s, d.tokens[i], full, i == d.step)
	}
	if some {
		w.close(']')
	}
}

func (d *draft) renderError(w *writer, t *trim) {
	w.key("error")
	w.b = append(w.b, '{')
	w.text("code", string(d.err.Code))
	switch {
	case d.step >= 0 && t.bare:
		w.step(d.step, "")
	case d.step >= 0:
		w.step(d.step, d.idOf(d.step))
	}
	if d.failed != nil && !t.bare {
		w.text("fn", d.failed.Spec().Name)
	}
	if d.index >= 0 {
		w.int("index", int64(d.index))
	}
	if d.err.At != "" && !t.bare {
		w.text("at", fault.ClipRunes(d.err.At, max(t.longest, 100)))
	}
	w.text("message", fault.ClipRunes(d.err.Message, t.longest))
	d.renderFaults(w, t)
	d.renderElements(w, t)
	d.renderAwaited(w, t)
	w.outcome(d.outcome, d.err)
	if d.err.Status > 0 {
		w.int("status", int64(d.err.Status))
	}
	if len(d.err.Body) > 0 && !t.noAvailable {
		w.raw("body", jsonOrText(d.err.Body))
	}
	if len(d.err.Available) > 0 && !t.noAvailable {
		w.texts("available", d.err.Available)
	}
	if !t.noNearest {
		w.nearest(d.err)
	}
	w.bool("retryable", d.retryable())
	d.renderSchema(w, t)
	w.close('}')
}

// jsonOrText is a body as JSON: what is not is a text.
func jsonOrText(body []byte) []byte {
	if compact, err := schema.Compact(body); err == nil {
		return compact
	}
	return appendString(nil, string(body))
}

func (d *draft) renderFaults(w *writer, t *trim) {
	if len(d.faults) == 0 {
		return
	}
	w.key("faults")
	w.b = append(w.b, '[')
	signatures := map[*fault.Error]string{}
	if t.schema != schemaNone {
		for fn, f := range d.teaching {
			signatures[f] = fn.Signature()
		}
	}
	for _, f := range d.faults[:t.faults] {
		d.renderFault(w, f, t.longest, signatures[f])
	}
	w.close(']')
	if more := len(d.faults) - t.faults + d.moreFaults; more > 0 {
		w.int("more", int64(more))
	}
}

// renderAwaited tells which calls wait for approval.
func (d *draft) renderAwaited(w *writer, t *trim) {
	if d.run == nil || len(d.run.awaited) == 0 {
		return
	}
	if !t.counted {
		w.key("calls")
		w.b = append(w.b, '[')
		for i := range d.run.awaited {
			w.approvalCall(&d.run.awaited[i])
		}
		w.close(']')
		return
	}
	if t.awaited != "" {
		w.text(tokenField, t.awaited)
	}
	if t.bare { // writes has their number
		return
	}
	counts := map[string]int{}
	for i := range d.run.awaited {
		counts[d.run.awaited[i].Function]++
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

func (d *draft) renderElements(w *writer, t *trim) {
	if len(d.more) == 0 && len(d.unstarted) == 0 {
		return
	}
	told := min(len(d.more), t.elements)
	if t.elements > 0 {
		w.key("elements")
		w.b = append(w.b, '[')
		for _, e := range d.more[:told] {
			w.open('{')
			w.int("index", int64(e.index))
			w.text("code", string(e.err.Code))
			w.text("message", fault.ClipRunes(e.err.Message, min(t.longest, 200)))
			w.outcome(e.outcome, e.err)
			w.close('}')
		}
		if len(d.unstarted) > 0 {
			w.open('{')
			w.text("elements", rangesOf(d.unstarted))
			w.text("status", statusSkipped)
			w.text("reason", d.skipped)
			w.close('}')
		}
		w.close(']')
	}
	more := len(d.more) - told
	if t.elements == 0 {
		more += sizeOf(d.unstarted)
	}
	if more > 0 && !t.bare {
		w.int("more", int64(more))
	}
}

// renderSchema teaches what the failing function takes, where the failure has to do with it.
func (d *draft) renderSchema(w *writer, t *trim) {
	if d.failed == nil || max(d.teaches, t.schema) == schemaNone {
		return
	}
	if max(d.teaches, t.schema) == schemaWhole {
		if input, err := schema.Compact(d.failed.Spec().Input); err == nil && len(input) > 0 {
			w.raw("inputSchema", input)
			return
		}
	}
	w.text("signature", d.failed.Signature())
}

// retryable reports whether the same chain, sent again, may succeed and does no harm: it does where a function was called
// that is not safe to repeat.
func (d *draft) retryable() bool {
	passes := d.err.Code.Retryable()
	switch d.err.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		passes = true
	}
	return passes && (d.run == nil || !d.run.unsafe.Load())
}
