package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// MaxConflicts bounds the calls that a conflict names.
const MaxConflicts = 20

// ConflictFault is the fault for calls that were made and are not in the corrected chain; nil: there are none. It adds them to the
// answer's writes.
func (l *Ledger) ConflictFault(list []*journal.PastCall, at string) *fault.Error {
	if len(list) == 0 {
		return nil
	}
	named := list[:min(len(list), MaxConflicts)]
	l.writes.addConflicting(named...)
	l.refused.Store(true)
	var calls, paths []string
	var applied, unknown string // the first path with each outcome
	for _, c := range named {
		outcome := c.KnownOutcome()
		if outcome == fault.SentUnknown {
			unknown = cmp.Or(unknown, c.StepPath)
		} else {
			applied = cmp.Or(applied, c.StepPath)
		}
		calls, paths = append(calls, fmt.Sprintf("%s (%s, %s)", c.StepPath, c.Function, outcome)), append(paths, c.StepPath)
	}
	if more := len(list) - len(calls); more > 0 {
		calls = append(calls, fmt.Sprintf("%d more", more))
	}
	f := fault.New(fault.ResumeConflict, "this run made calls that the chain no longer makes: %s", strings.Join(calls, ", "))
	if applied != "" {
		f.Message += fmt.Sprintf(". What is applied is done: leave its args as they were to reuse it, undo the run, or send this resume again "+
			"with assume: {%q: \"applied\"}, to keep it and make the calls of this chain besides", applied)
	}
	if unknown != "" {
		f.Message += fmt.Sprintf(". Find out whether what is sent_unknown was done, and send this resume again with assume: {%q: \"applied\"} or "+
			"\"not_sent\"", unknown)
	}
	if i := slices.IndexFunc(named, func(c *journal.PastCall) bool { return c.EffectAssumed }); i >= 0 {
		f.Message += undeclaredEffect(named[i].Function)
	}
	f.Available = paths
	if at != "" {
		f.Outcome = fault.NotSent // the outcome of the call at this pointer
	}
	return f.Under(at)
}

// undeclaredEffect continues a message about a function that is assumed to write.
func undeclaredEffect(function string) string {
	return fmt.Sprintf(". %s has no declared effect: if it only reads, say so in the configuration, as in functions: {%q: {effect: read}}",
		function, function)
}

// UnknownFault is the fault for a call at a path whose outcome is not known.
func (l *Ledger) UnknownFault(p *facts.Planned, stepPath string, previous *journal.PastCall) *fault.Error {
	if stepPath != previous.StepPath {
		l.writes.addConflicting(previous)
	} else {
		l.writes.markReported(previous)
	}
	f := fault.New(fault.ResumeConflict,
		"it is not known whether %s was done at %s, and it is not safe to repeat. Find out, and resume with assume: {%q: \"applied\"}, "+
			"\"not_sent\" (it is made again) or {\"result\": …}",
		p.Name(), previous.StepPath, previous.StepPath)
	if previous.UndoUnknown {
		undo := gjson.GetBytes(previous.Undo, "fn").Str
		f.Message = fmt.Sprintf("it is not known whether %s undid %s at %s. Find out, and resume with the outcome of %s in assume: "+
			"{%q: \"applied\"} or \"not_sent\"", undo, p.Name(), previous.StepPath, undo, previous.StepPath)
	}
	f.Available, f.Outcome = []string{previous.StepPath}, fault.SentUnknown
	if previous.EffectAssumed {
		f.Message += undeclaredEffect(p.Name())
	}
	return f.Under(p.At)
}

// applyAssumptions records what the caller says of calls whose outcome or place in the corrected chain is not known.
func applyAssumptions(record *journal.Run, assumptions []byte) *fault.Error {
	for _, m := range rawjson.ListMembers(assumptions) {
		if f := applyAssumption(record, m.Name, gjson.Parse(m.Raw)); f != nil {
			return f
		}
	}
	return nil
}

// applyAssumption records the outcome that the caller gives for a place: for the calls with an unknown outcome or, if there are none, for
// those that were applied or undone or, if there are none of these either, for the others.
func applyAssumption(record *journal.Run, stepPath string, v gjson.Result) *fault.Error {
	at := fault.Key("/assume", stepPath)
	stepPath = resolveIDs(gjson.GetBytes(record.Past().Chain, "steps"), stepPath)
	e := journal.Event{Kind: journal.Assumed}
	switch {
	case v.Type == gjson.String && v.Str == string(fault.Applied):
		e.Outcome = fault.Applied
	case v.Type == gjson.String && v.Str == string(fault.NotSent):
		e.Outcome = fault.NotSent
	case v.IsObject() && v.Get("result").Exists() && len(rawjson.ListMembers([]byte(v.Raw))) == 1:
		e.Outcome, e.Result = fault.Applied, []byte(v.Get("result").Raw)
	default:
		f := fault.New(fault.BadRequest, "must be \"applied\", \"not_sent\" or {\"result\": …}").Under(at)
		f.Available = []string{string(fault.Applied), string(fault.NotSent)}
		return f
	}
	var unknown, done, others []*journal.PastCall
	var paths []string
	for _, c := range record.Past().Calls() {
		switch {
		case !c.Writes() || c.Undoes != 0 && c.Outcome != fault.SentUnknown:
		case c.StepPath != stepPath:
			paths = append(paths, c.StepPath)
		case c.Outcome == fault.SentUnknown:
			unknown = append(unknown, c)
		case c.Outcome == fault.Applied, c.Outcome == fault.Undone:
			done = append(done, c)
		default:
			others = append(others, c)
		}
	}
	calls := others
	if len(unknown) > 0 {
		calls = unknown
	} else if len(done) > 0 {
		calls = done
	}
	switch {
	case len(calls) == 0:
		f := fault.New(fault.BadRequest, "this run has made no call that writes at %s", fault.ClipRunes(stepPath, 60)).Under(at)
		f.Available, f.Nearest = paths, fault.Nearest(stepPath, paths, 1)
		return f
	case len(calls) > 1 && (e.Outcome != fault.Applied || e.Result != nil):
		return fault.New(fault.BadRequest,
			"%d calls were made at %s, and one outcome must hold for all: only \"applied\" (leave them) can describe them all",
			len(calls), stepPath).Under(at)
	}
	for _, c := range calls {
		assumed := e
		assumed.Of = c.N
		record.Append(assumed)
	}
	return nil
}

// WritePastCalls writes the first MaxConflicts calls of a list.
func WritePastCalls(w *rawjson.Writer, name string, list []*journal.PastCall) {
	w.OpenMember(name, '[')
	for _, c := range list[:min(len(list), MaxConflicts)] {
		w.Open('{')
		writePastCall(w, c)
		w.Close('}')
	}
	w.Close(']')
}

func writePastCall(w *rawjson.Writer, c *journal.PastCall) {
	w.Text("at", c.StepPath)
	w.Text("fn", c.Function)
	w.Text("outcome", string(c.KnownOutcome()))
}
