package answer

import (
	"bytes"
	"slices"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain/internal/answer/format"
	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// Formatter writes the result of one request, or the pages and parts of an earlier one, in the format that the request asks for.
type Formatter struct {
	form *Form

	// Of the value that was written last:
	used    string       // its format; "": none was written
	text    []byte       // its text; nil: it stays JSON
	written []byte       // how it stands in the answer
	misfit  *fault.Error // why the format cannot hold it; nil: it can
	tokens  int          // what written costs; 0: not counted
	json    int          // what the value costs as JSON; 0: not counted
}

// Formatter returns nil if the request asks for JSON.
func (f *Form) Formatter() *Formatter {
	if f.Format == "" || f.Format == format.JSON || !slices.Contains(format.Names(), f.Format) {
		return nil
	}
	return &Formatter{form: f}
}

// write writes a value as it stands in an answer: within something else, as a string of JSON. text is nil if the value stays JSON.
func (w *Formatter) write(value []byte, within bool) (written, text []byte) {
	written = w.choose(value, within || !w.form.Lite || w.form.Label != "")
	w.written = written
	return written, w.text
}

// choose sets what is known of the value, and returns it as it stands in the answer.
func (w *Formatter) choose(value []byte, quoted bool) (written []byte) {
	maxBytes := w.form.Meter.MaxBytes()
	w.misfit, w.tokens, w.json = nil, 0, 0
	if w.form.Format == format.Auto {
		w.used, w.text = format.Lossless(value, maxBytes)
	} else {
		var why string
		if w.text, why = format.Write(w.form.Format, value, maxBytes); w.text != nil {
			w.used = w.form.Format
		} else {
			w.used = format.JSON
			w.misfit = fault.New(fault.FormatMisfit, "%s %s: the result is JSON", w.form.Format, why).Under("/format")
		}
	}
	if w.text == nil {
		return value
	}
	if written = w.text; quoted {
		written = rawjson.AppendQuote(make([]byte, 0, len(w.text)+len(w.text)/8), w.text)
	}
	if w.form.Format == format.Auto && !w.isCheaper(written, value) {
		w.used, w.text, w.tokens = format.JSON, nil, w.json
		return value
	}
	return written
}

// isCheaper reports whether a text costs fewer tokens than JSON. It counts no more than the budget, above which both forms cost too much.
func (w *Formatter) isCheaper(text, json []byte) bool {
	limit := -1
	if n := w.form.Meter.Limit(); n > 0 {
		limit = n
	}
	asJSON := w.form.Counter.Count(json, limit)
	if limit >= 0 && asJSON > limit {
		w.tokens = w.form.Counter.Count(text, limit)
		return w.tokens <= limit
	}
	w.json, w.tokens = asJSON, w.form.Counter.Count(text, asJSON-1)
	return w.tokens < asJSON
}

// useFormat writes the result in the format that the request asks for, unless a fetch has done so. A plan and the lean form of a write stay
// JSON.
func (b *builder) useFormat() {
	switch w := b.Formatter(); {
	case w == nil || b.Result == nil || b.Plan || b.isLean:
		return
	case b.Formatted == nil:
		b.Formatted = w
		b.shown, _ = w.write(b.Result, b.Cause.Err != nil || b.excerpt != nil)
	case !bytes.Contains(b.Result, b.Formatted.written): // the answer to the fetch is a summary, or a probe
		b.Formatted = nil
	}
}

// misfit is the warning that the format cannot hold the result; nil: it can, or the request asks for JSON.
func (b *builder) misfit() *fault.Error {
	if b.Formatted == nil {
		return nil
	}
	return b.Formatted.misfit
}

// shownResult is the result as the answer shows it.
func (b *builder) shownResult() []byte {
	if b.shown != nil {
		return b.shown
	}
	return b.Result
}

// isWithin reports whether a lite answer, which shows the result, is within the budget.
func (b *builder) isWithin(lite []byte) bool {
	if b.shown != nil && b.Formatted.tokens > 0 && b.Label == "" && b.excerpt == nil {
		return b.Meter.Limit() == 0 || b.Formatted.tokens <= b.Meter.Limit()
	}
	return b.Meter.Allows(lite)
}

// tokensOf estimates the tokens of a step's result, unless auto has counted those of the answer's, and that is the same.
func (b *builder) tokensOf(raw []byte) int {
	if b.shown != nil && b.Formatted.json > 0 && len(raw) == len(b.Result) && &raw[0] == &b.Result[0] {
		return b.Formatted.json
	}
	return b.Meter.Estimate(raw)
}

// usedFormat names the format of the result, if the request asks for one; else "".
func (b *builder) usedFormat() string {
	if b.Formatted == nil {
		return ""
	}
	return b.Formatted.used
}

// textOfResult is the result as its preview shows it.
func (b *builder) textOfResult() []byte {
	if b.shown != nil && b.Formatted.text != nil {
		return b.Formatted.text
	}
	return b.Result
}

// isText reports whether a lite answer is a text and not JSON.
func (b *builder) isText(answer []byte) bool {
	return b.Formatted != nil && b.Formatted.text != nil && b.Label == "" && bytes.Equal(answer, b.Formatted.text)
}

// inEnvelope makes an envelope write what it holds like the answer. nil is an envelope without a limit.
func (b *builder) inEnvelope(e *budget.Envelope) *budget.Envelope {
	if b.shown == nil {
		return e
	}
	if e == nil {
		e = &budget.Envelope{}
	}
	e.Write = b.Formatted.write
	return e
}

// FetchEnvelope is Envelope for the answer of a fetch, whose result is written by then. The Formatter, for Content.Formatted, has written
// it; nil: the request asks for JSON.
func (f *Form) FetchEnvelope(warnings []*fault.Error) (*budget.Envelope, *Formatter) {
	w := f.Formatter()
	if w == nil {
		return f.Envelope(false, warnings), nil
	}
	b := f.builder(&Content{Cause: facts.NoStep(nil), Warnings: warnings, Result: []byte{}, Formatted: w})
	w.used = format.Markdown // no name costs more
	e := b.liteEnvelope()
	if !f.Lite {
		e = b.envelope(b.omitNothing())
	}
	e.Write, w.used = w.write, ""
	return e, w
}
