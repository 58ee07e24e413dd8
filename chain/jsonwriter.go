package chain

import (
	"cmp"
	"strconv"

	"github.com/onecall-mcp/onecall/fault"
)

// jsonWriter appends compact JSON objects and arrays, with their commas.
type jsonWriter struct{ b []byte }

func (w *jsonWriter) comma() {
	if n := len(w.b); n > 0 && w.b[n-1] != '{' && w.b[n-1] != '[' {
		w.b = append(w.b, ',')
	}
}

func (w *jsonWriter) key(name string) {
	w.comma()
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
}

func (w *jsonWriter) raw(name string, value []byte) {
	w.key(name)
	w.b = append(w.b, value...)
}

// step writes the number and the id of a step; id may be "".
func (w *jsonWriter) step(number int, id string) {
	w.int("step", int64(number))
	if id != "" {
		w.text("id", fault.ClipRunes(id, maxRemedyChars))
	}
}

func (w *jsonWriter) text(name, value string) {
	w.key(name)
	w.b = appendString(w.b, value)
}

func (w *jsonWriter) int(name string, value int64) {
	w.key(name)
	w.b = strconv.AppendInt(w.b, value, 10)
}

func (w *jsonWriter) bool(name string, value bool) {
	w.key(name)
	w.b = strconv.AppendBool(w.b, value)
}

func (w *jsonWriter) texts(name string, values []string) {
	w.key(name)
	w.b = append(w.b, '[')
	for _, v := range values {
		w.comma()
		w.b = appendString(w.b, v)
	}
	w.close(']')
}

func (w *jsonWriter) open(c byte) {
	w.comma()
	w.b = append(w.b, c)
}

func (w *jsonWriter) close(c byte) { w.b = append(w.b, c) }

// nearest writes the nearest names: a list for functions, else the best one.
func (w *jsonWriter) nearest(f *fault.Error) {
	switch {
	case len(f.Nearest) == 0:
	case f.Code == fault.UnknownFunction:
		w.texts("nearest", f.Nearest)
	default:
		w.text("nearest", f.Nearest[0])
	}
}

// renderFault writes one fault of a chain that does not compile, or of a single call; the latter has no step number. maxMessage is
// the maximum number of characters of the message. signature "": none is written.
func (b *answerBuilder) renderFault(w *jsonWriter, f *fault.Error, maxMessage int, signature string) {
	w.open('{')
	w.text("code", string(f.Code))
	if n := stepOf(f.At); n >= 0 && b.single == nil {
		w.step(n, b.idOf(n))
	}
	if f.At != "" {
		w.text("at", fault.ClipRunes(f.At, max(maxMessage, 200)))
	}
	if f.Code == fault.BadJSON && f.Line > 0 {
		w.int("line", int64(f.Line))
		w.int("column", int64(f.Column))
	}
	w.text("message", fault.ClipRunes(f.Message, maxMessage))
	w.nearest(f)
	if signature != "" {
		w.text("signature", signature)
	}
	w.close('}')
}

// renderWarning writes one warning.
func (b *answerBuilder) renderWarning(w *jsonWriter, f *fault.Error) {
	w.open('{')
	w.text("code", string(f.Code))
	if n := stepOf(f.At); b.single == nil && b.idOf(n) != "" { // without an id, the pointer says enough
		w.step(n, b.idOf(n))
	}
	if f.At != "" {
		w.text("at", f.At)
	}
	w.text("message", f.Message)
	w.close('}')
}

// stepTrace writes the trace of one step. brief leaves out the message that the answer's error has.
func (w *jsonWriter) stepTrace(p *plannedStep, s *stepRun, tokens int, full, brief bool) {
	w.open('{')
	w.step(p.number, p.id)
	if p.inline != nil && p.saved == nil {
		w.int("chain", int64(len(p.inline.steps)))
	} else {
		w.text("fn", p.name())
	}
	w.text("status", s.reportedStatus())
	if s.reason != "" {
		w.text("reason", s.reason)
	}
	if s.reason == reasonDependency {
		w.int("cause", int64(s.cause))
	}
	if s.defaulted > 0 {
		w.bool("defaulted", true)
		if s.count >= 0 {
			w.int("defaultedElements", int64(s.defaulted))
		}
	}
	if s.truncated {
		w.bool("truncated", true)
	}
	if s.err != nil {
		w.key("error")
		w.b = append(w.b, '{')
		w.text("code", string(s.err.Code))
		if !brief {
			w.text("message", fault.ClipRunes(s.err.Message, 200))
			w.outcome(s.outcome, s.err)
		}
		w.close('}')
	}
	if s.count >= 0 {
		w.int("elements", int64(s.count))
	}
	if s.calls > 1 {
		w.int("calls", s.calls)
	}
	if s.status != statusSkipped {
		if s.raw != nil {
			w.int("tokens", int64(tokens))
		}
		w.int("ms", s.took.Milliseconds())
	}
	if full {
		w.details(p, s)
	}
	w.close('}')
}

// outcome writes the outcome of the last call, or else that of the fault.
func (w *jsonWriter) outcome(last fault.Outcome, f *fault.Error) {
	if o := cmp.Or(last, f.Outcome); o != "" {
		w.text("outcome", string(o))
	}
}

// details writes the arguments, as they may be shown, and the result.
func (w *jsonWriter) details(p *plannedStep, s *stepRun) {
	if s.args != nil {
		args := s.args
		if p.fn != nil {
			args = p.fn.Shown(args)
		}
		w.raw("args", args)
	}
	if s.raw != nil {
		w.raw("result", s.raw)
	}
}
