package chain

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
)

// maxConflicts bounds the calls that a conflict names.
const maxConflicts = 20

// conflict is asked before a resumed run makes a call that writes, and that it has not made before: it must not stand beside
// another that was made instead of it. All that was written so far has to be a call of the corrected chain too, now or
// later: that is found out by following the chain as far as its calls were made.
func (r *run) conflict(ctx context.Context, p *plannedStep) *fault.Error {
	if r.rehearsal || r.record.Matched() {
		return nil
	}
	r.foreseeing.Do(func() { r.foreseen = r.rehearse(ctx) })
	return r.conflictOf(r.foreseen, p.at)
}

// rehearse follows the plan from its beginning without calling anything, and gives the calls that wrote and are none of it.
func (r *run) rehearse(ctx context.Context) []*journal.PastCall {
	s := r.shadow()
	s.record = r.record.Rehearse()
	defer s.release()
	s.rehearse(ctx, r.plan)
	return s.record.Unmatched()
}

// shadow is an exchange that nobody is told of.
func (s *exchange) shadow() *exchange {
	own := &exchange{o: s.o, provider: s.provider, view: s.view, owner: s.owner, results: s.results, started: s.started, meter: s.meter,
		maxSteps: s.maxSteps, maxCalls: s.maxCalls, maxDuration: s.maxDuration, trace: "none", single: s.single, request: s.request}
	own.admission, own.caller, own.all = s.admission, s.holding.caller, s.all
	own.computing.Caller, own.computing.Slots, own.computing.Memory = s.computing.Caller, s.computing.Slots, own
	return own
}

// rehearse executes a plan over what is known of its calls.
func (s *exchange) rehearse(ctx context.Context, p *plan) *run {
	r := &run{exchange: s, plan: p, parent: ctx, spare: make(chan struct{}, s.o.MaxConcurrency-1), rehearsal: true}
	r.steps = r.chain(ctx, p, refs.Scope{Input: p.input, MaxBytes: int(s.o.MaxResultBytes), Now: s.now()}, nil)
	return r
}

// conflictOf is the fault for calls that were made and are none of the corrected chain; nil: there are none.
// The answer's writes name them as well.
func (s *exchange) conflictOf(list []*journal.PastCall, at string) *fault.Error {
	if len(list) == 0 {
		return nil
	}
	s.writes.stands(list[:min(len(list), maxConflicts)]...)
	var named, places []string
	guessed := map[string]bool{}
	for _, c := range list[:min(len(list), maxConflicts)] {
		named, places = append(named, fmt.Sprintf("%s (%s, %s)", c.Place, c.Function, c.Outcome)), append(places, c.Place)
		guessed[c.Function] = c.Guessed
	}
	if more := len(list) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	f := fault.New(fault.ResumeConflict, "this run has made calls that the chain as it is now does not make: %s. Say of each what holds, as in assume: {%q: \"applied\"} (leave it), \"not_sent\" (make it again where the chain does) or {\"result\": …}; or have the chain make it as it was",
		strings.Join(named, ", "), places[0])
	for function, is := range guessed {
		if is {
			f.Message += fmt.Sprintf(". That %s writes is only assumed: functions: {%q: {effect: read}} in the configuration declares it", function, function)
			break
		}
	}
	f.Available = places
	if at != "" {
		f.Outcome = fault.NotSent // of the call there
	}
	return f.Under(at)
}

// doubted ends a call of which nobody knows whether it was done. A rehearsal takes note of it, and goes on: it is a call of the chain.
func (r *run) doubted(p *plannedStep, s *stepRun, was *journal.PastCall) ([]byte, *fault.Error, bool) {
	r.asking.Lock()
	r.doubts = append(r.doubts, was)
	r.asking.Unlock()
	if !r.rehearsal {
		return nil, r.doubt(p, s.call.Place, was), true
	}
	s.call.Take(false)
	return r.pending(s)
}

// doubt is the fault for a call of which nobody knows whether it was done.
func (r *run) doubt(p *plannedStep, place string, was *journal.PastCall) *fault.Error {
	if place != was.Place {
		r.writes.stands(was)
	} else {
		r.writes.isThere(was)
	}
	f := fault.New(fault.ResumeConflict, "whether %s was done at %s is not known, and it is not safe to repeat. Find out, and say it as in assume: {%q: \"applied\"}, \"not_sent\" (it is made again) or {\"result\": …}",
		p.name(), was.Place, was.Place)
	if was.Unsure {
		undo := gjson.GetBytes(was.Undo, "fn").Str
		f.Message = fmt.Sprintf("whether %s took %s back at %s is not known. Find out, and say of %s, as in assume: {%q: \"applied\"} or \"not_sent\"", undo, p.name(), was.Place, undo, was.Place)
	}
	f.Available, f.Outcome = []string{was.Place}, fault.SentUnknown
	if was.Guessed {
		f.Message += fmt.Sprintf(". That %s writes is only assumed: functions: {%q: {effect: read}} in the configuration declares it", p.name(), p.name())
	}
	return f.Under(p.at)
}

// assume takes what the caller says of calls whose outcome or place in the corrected chain is not known.
func assume(record *journal.Run, said []byte) *fault.Error {
	for _, m := range members(said) {
		if f := assumeOne(record, m.name, gjson.Parse(m.raw)); f != nil {
			return f
		}
	}
	return nil
}

// assumeOne takes what is said of the calls at a place: of those of which nobody knows how they ended, or else of those that were done, or else
// of the others.
func assumeOne(record *journal.Run, place string, v gjson.Result) *fault.Error {
	at := fault.Key("/assume", place)
	place = numbered(gjson.GetBytes(record.Past().Chain, "steps"), place)
	e := journal.Event{Kind: journal.Assumed}
	switch {
	case v.Type == gjson.String && v.Str == string(fault.Applied):
		e.Outcome = fault.Applied
	case v.Type == gjson.String && v.Str == string(fault.NotSent):
		e.Outcome = fault.NotSent
	case v.IsObject() && v.Get("result").Exists() && len(members([]byte(v.Raw))) == 1:
		e.Outcome, e.Result = fault.Applied, []byte(v.Get("result").Raw)
	default:
		f := fault.New(fault.BadRequest, "must be \"applied\", \"not_sent\" or {\"result\": …}").Under(at)
		f.Available = []string{string(fault.Applied), string(fault.NotSent)}
		return f
	}
	var unknown, done, others []*journal.PastCall
	var places []string
	for _, c := range record.Past().Calls() {
		switch {
		case !c.Writes() || c.Undoes != 0 && c.Outcome != fault.SentUnknown:
		case c.Place != place:
			places = append(places, c.Place)
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
		f := fault.New(fault.BadRequest, "this run has made no call that writes at %s", fault.ClipRunes(place, 60)).Under(at)
		f.Available, f.Nearest = places, fault.Nearest(place, places, 1)
		return f
	case len(calls) > 1 && (e.Outcome != fault.Applied || e.Result != nil):
		return fault.New(fault.BadRequest, "%d calls were made at %s, and this cannot hold of all: only \"applied\" (leave them) can be said of them together", len(calls), place).Under(at)
	}
	for _, c := range calls {
		one := e
		one.Of = c.N
		record.Tell(one)
	}
	return nil
}

// pastCalls names the first of some calls that a run has made.
func (w *writer) pastCalls(name string, list []*journal.PastCall) {
	w.key(name)
	w.b = append(w.b, '[')
	for _, c := range list[:min(len(list), maxConflicts)] {
		w.open('{')
		w.text("at", c.Place)
		w.text("fn", c.Function)
		w.text("outcome", string(c.Known()))
		w.close('}')
	}
	w.close(']')
}
