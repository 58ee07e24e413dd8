package answer

import (
	"sort"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// summedWrites returns the answer's entries for writes.
func (b *builder) summedWrites() []*facts.Write {
	if !b.writesSummed && b.Run != nil && b.Run.Writes != nil {
		b.writes = b.Run.Writes.Summary()
	}
	b.writesSummed = true
	return b.writes
}

// renderWrites writes what a failed run has written: as many entries as omit allows, and the number of the others by outcome.
func (b *builder) renderWrites(w *rawjson.Writer, omit *omissions) {
	if len(b.summedWrites()) == 0 {
		return
	}
	w.OpenMember("writes", '[')
	listed := min(omit.writes, len(b.writes))
	for _, e := range b.writes[:listed] {
		b.renderWrite(w, e)
	}
	counts := map[fault.Outcome]int{}
	for _, e := range b.writes[listed:] {
		counts[e.Outcome] += e.Calls
	}
	for _, outcome := range fault.Outcomes() {
		if n := counts[outcome]; n > 0 {
			w.Open('{')
			w.Int("count", int64(n))
			w.Text("outcome", string(outcome))
			w.Close('}')
		}
	}
	w.Close(']')
}

func (b *builder) renderWrite(w *rawjson.Writer, e *facts.Write) {
	w.Open('{')
	expected, elements := 1, facts.FormatIntervals(e.Elements)
	if elements != "" {
		expected = facts.CountElements(e.Elements)
	}
	switch {
	case e.At != "":
		w.Text("at", e.At)
	case !b.Call:
		WriteStep(w, e.Step, b.stepID(e.Step))
		switch {
		case e.Suffix != "":
			w.Text("in", e.Prefix+"["+elements+"]"+e.Suffix)
		case e.Inline:
			w.Text("in", e.Prefix)
		}
		if elements != "" && e.Suffix == "" {
			w.Text("elements", elements)
		}
	}
	if e.Fn != "" {
		w.Text("fn", e.Fn)
	}
	if e.Calls != expected {
		w.Int("count", int64(e.Calls))
	}
	w.Text("outcome", string(e.Outcome))
	w.Close('}')
}

// fewerWrites shows as many writes as fit.
func (b *builder) fewerWrites(omit *omissions) {
	if b.Cause.Err == nil || len(b.summedWrites()) == 0 {
		return
	}
	omit.writes = sort.Search(len(b.writes), func(n int) bool {
		trial := *omit
		trial.writes = n + 1
		_, within := b.render(&trial)
		return !within
	})
}
