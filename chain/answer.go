package chain

import (
	"context"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// draft is everything that an answer would tell if there were room.
type draft struct {
	*session
	err    *fault.Error // nil: ok
	step   int          // of err; -1: none
	index  int          // the forEach's element of err; -1: none
	failed *steps.Entry // the function of err, nil: none
	faults []*fault.Error
	more   []elementFault // all failed elements of the step of err

	member string // the name of the result: "result" or "plan"
	result []byte // nil: none
	fits   *bool  // whether the result alone is within the budget; nil: not looked at
	run    *run   // nil: nothing ran
	tokens []int  // of the run's steps
	kept   int
}

// report makes the answer of a run.
func (s *session) report(ctx context.Context, r *run) *Answer {
	d := &draft{session: s, step: -1, index: -1, member: "result", run: r}
	d.cause()
	raw, f := returned(r.plan, r.steps, s.scope(r.plan.input))
	if f != nil && d.err == nil {
		d.err = f
	}
	d.result = raw
	if d.err == nil && s.lite {
		return d.lean(ctx)
	}
	d.measure()
	return d.answer(ctx)
}

// cause finds what the answer's error is: the lowest failed step, or why steps were skipped without a failure.
func (d *draft) cause() {
	for i := range d.run.steps {
		s := &d.run.steps[i]
		if s.status == statusFailed {
			d.err, d.step, d.index, d.failed, d.more = s.err, i, s.index, s.fn, s.elements
			return
		}
	}
	for i := range d.run.steps {
		at := d.run.plan.steps[i].at
		switch d.run.steps[i].reason {
		case reasonCancelled:
			d.err, d.step = fault.New(fault.Cancelled, "the client cancelled").Under(at), i
		case reasonBudget:
			d.err, d.step = d.run.callsUsedUp(at), i
			if d.run.callsLeft() > 0 {
				d.err = fault.New(fault.Timeout, "the chain's time of %v is used up (budget.maxDurationMs)", d.maxDuration).Under(at)
			}
		default:
			continue
		}
		return
	}
}

// measure counts what the steps' results would have cost.
func (d *draft) measure() {
	d.tokens = make([]int, len(d.run.steps))
	for i := range d.run.steps {
		raw := d.run.steps[i].raw
		if raw == nil {
			continue
		}
		d.tokens[i] = d.meter.Estimate(raw)
		if i < len(d.run.steps)-1 || d.run.plan.ret != nil {
			d.kept += d.tokens[i]
		}
	}
}

// refuse answers a request that does not compile.
func (s *session) refuse(text []byte, faults []*fault.Error) *Answer {
	sortFaults(faults)
	locateAll(text, faults)
	message := strconv.Itoa(len(faults)) + " faults"
	if len(faults) == 1 {
		message = "1 fault"
	}
	d := &draft{session: s, err: fault.New(fault.Compile, "%s", message), step: -1, index: -1, faults: faults}
	a := d.answer(context.Background())
	a.Faults = faults
	return a
}

// checked answers a check without faults.
func (s *session) checked(text []byte) *Answer {
	locateAll(text, s.warnings)
	return (&draft{session: s, step: -1, index: -1}).answer(context.Background())
}

// failure answers an error that belongs to no step.
func (s *session) failure(ctx context.Context, f *fault.Error) *Answer {
	return (&draft{session: s, err: f, step: -1, index: -1}).answer(ctx)
}

func locateAll(text []byte, list []*fault.Error) {
	for _, f := range list {
		if f.Line == 0 {
			f.Line, f.Column = locate(text, f.At)
		}
	}
}

// locate finds the line and column of a JSON Pointer's value in a text; 0 when the text has no such place.
func locate(text []byte, at string) (line, column int) {
	value, offset := gjson.ParseBytes(text), 0
	if !gjson.ValidBytes(text) {
		return 0, 0
	}
	for _, token := range pointerTokens(at) {
		found, next := false, 0
		isArray := value.IsArray()
		i := -1
		value.ForEach(func(key, v gjson.Result) bool {
			i++
			if isArray && strconv.Itoa(i) == token || !isArray && key.String() == token {
				found, next, value = true, v.Index, v
			}
			return !found
		})
		if !found {
			break
		}
		offset = next
	}
	return position(text, offset)
}

// millis is the time since the request came.
func (s *session) millis() int64 { return time.Since(s.started).Milliseconds() }
