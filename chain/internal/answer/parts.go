package answer

import (
	"cmp"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// maxIDChars is how many characters of an id are shown.
const maxIDChars = 80

// WriteStep writes the number and the id of a step; id may be "".
func WriteStep(w *rawjson.Writer, number int, id string) {
	w.Int("step", int64(number))
	if id != "" {
		w.Text("id", fault.ClipRunes(id, maxIDChars))
	}
}

// writeNearest writes the nearest names: a list for functions, else the best one.
func writeNearest(w *rawjson.Writer, f *fault.Error) {
	switch {
	case len(f.Nearest) == 0:
	case f.Code == fault.UnknownFunction:
		w.Texts("nearest", f.Nearest)
	default:
		w.Text("nearest", f.Nearest[0])
	}
}

// renderFault writes one fault of a chain that does not compile, or of a single call; the latter has no step number. maxMessage is
// the maximum number of characters of the message. signature "": none is written.
func (b *builder) renderFault(w *rawjson.Writer, f *fault.Error, maxMessage int, signature string) {
	w.Open('{')
	w.Text("code", string(f.Code))
	if n := facts.StepOf(f.At); n >= 0 && !b.Call {
		WriteStep(w, n, b.stepID(n))
	}
	if f.At != "" {
		w.Text("at", fault.ClipRunes(f.At, max(maxMessage, 200)))
	}
	if f.Code == fault.BadJSON && f.Line > 0 {
		w.Int("line", int64(f.Line))
		w.Int("column", int64(f.Column))
	}
	w.Text("message", fault.ClipRunes(f.Message, maxMessage))
	writeNearest(w, f)
	if signature != "" {
		w.Text("signature", signature)
	}
	w.Close('}')
}

// renderWarning writes one warning.
func (b *builder) renderWarning(w *rawjson.Writer, f *fault.Error) {
	w.Open('{')
	w.Text("code", string(f.Code))
	if n := facts.StepOf(f.At); !b.Call && b.stepID(n) != "" { // without an id, the pointer says enough
		WriteStep(w, n, b.stepID(n))
	}
	if f.At != "" {
		w.Text("at", f.At)
	}
	w.Text("message", f.Message)
	w.Close('}')
}

// writeStepTrace writes the trace of one step. brief leaves out the message that the answer's error has.
func writeStepTrace(w *rawjson.Writer, s *facts.Step, tokens int, full, brief bool) {
	w.Open('{')
	WriteStep(w, s.Number, s.ID)
	if s.Inner > 0 && s.Saved == nil {
		w.Int("chain", int64(s.Inner))
	} else {
		w.Text("fn", s.Name())
	}
	w.Text("status", s.ReportedStatus())
	if s.Reason != "" {
		w.Text("reason", s.Reason)
	}
	if s.Reason == facts.ReasonDependency {
		w.Int("cause", int64(s.Cause))
	}
	if s.Defaulted > 0 {
		w.Bool("defaulted", true)
		if s.Count >= 0 {
			w.Int("defaultedElements", int64(s.Defaulted))
		}
	}
	if s.Truncated {
		w.Bool("truncated", true)
	}
	if s.Err != nil {
		w.OpenMember("error", '{')
		w.Text("code", string(s.Err.Code))
		if !brief {
			w.Text("message", fault.ClipRunes(s.Err.Message, 200))
			writeOutcome(w, s.Outcome, s.Err)
		}
		w.Close('}')
	}
	if s.Count >= 0 {
		w.Int("elements", int64(s.Count))
	}
	if s.Calls > 1 {
		w.Int("calls", s.Calls)
	}
	if s.Status != facts.StatusSkipped {
		if s.Raw != nil {
			w.Int("tokens", int64(tokens))
		}
		w.Int("ms", s.Took.Milliseconds())
	}
	if full {
		writeDetails(w, s)
	}
	w.Close('}')
}

// writeOutcome writes the outcome of the last call, or else that of the fault.
func writeOutcome(w *rawjson.Writer, last fault.Outcome, f *fault.Error) {
	if o := cmp.Or(last, f.Outcome); o != "" {
		w.Text("outcome", string(o))
	}
}

// writeDetails writes the arguments, as they may be shown, and the result.
func writeDetails(w *rawjson.Writer, s *facts.Step) {
	if s.Args != nil {
		args := s.Args
		if s.Fn != nil {
			args = s.Fn.Shown(args)
		}
		w.Raw("args", args)
	}
	if s.Raw != nil {
		w.Raw("result", s.Raw)
	}
}
