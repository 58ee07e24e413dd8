package chain

import (
	"context"
	"math"
	"slices"
	"sort"

	"github.com/onecall-mcp/onecall/fault"
)

// trim says what of a draft is given up. The zero value gives up nothing.
type trim struct {
	trace       traceLevel
	noWarnings  bool
	noNotices   bool // nor the door's warnings
	schema      schemaLevel
	noAvailable bool   // nor the body of a failed call
	probe       []byte // in the place of the result
	faults      int    // how many are told
	elements    int    // likewise
	longest     int    // characters of a message
	noNearest   bool
	label       int  // characters of the door's label
	bare        bool // nor the place and the function of the error
	noResult    bool // not even the probe
}

type traceLevel int

const (
	traceAsked   traceLevel = iota
	traceSummary            // no arguments and results
	traceNotOK              // only the steps that are not ok
	traceNone
)

type schemaLevel int

const (
	schemaWhole schemaLevel = iota
	schemaSignature
	schemaNone
)

const (
	longMessage  = 2000 // characters
	shortMessage = 300
	leastMessage = 60
	manyElements = 100
	fewElements  = 10
	shortLabel   = 24
	smallResult  = 60 // bytes; a probe is no shorter
)

// reductions is the order in which an answer gives things up until it fits.
var reductions = []func(ctx context.Context, d *draft, t *trim){
	func(_ context.Context, _ *draft, t *trim) { t.trace = traceSummary },
	func(_ context.Context, _ *draft, t *trim) { t.trace = traceNotOK },
	func(_ context.Context, _ *draft, t *trim) { t.noWarnings = true },
	func(_ context.Context, _ *draft, t *trim) { t.schema = schemaSignature },
	func(_ context.Context, _ *draft, t *trim) { t.schema = schemaNone },
	func(_ context.Context, _ *draft, t *trim) { t.noAvailable, t.longest = true, longMessage },
	func(ctx context.Context, d *draft, t *trim) { d.probe(ctx, t) },
	func(_ context.Context, _ *draft, t *trim) { t.elements = manyElements },
	func(_ context.Context, _ *draft, t *trim) { t.elements = fewElements },
	func(_ context.Context, _ *draft, t *trim) { t.trace = traceNone },
	func(_ context.Context, _ *draft, t *trim) { t.longest = shortMessage },
	func(_ context.Context, d *draft, t *trim) { d.fewerFaults(t) },
	func(_ context.Context, _ *draft, t *trim) { t.noNotices = true },
	func(_ context.Context, _ *draft, t *trim) { t.elements = 0 },
	func(_ context.Context, _ *draft, t *trim) { t.longest, t.noNearest = leastMessage, true },
	func(_ context.Context, d *draft, t *trim) { d.fewerFaults(t) },
	func(_ context.Context, _ *draft, t *trim) { t.bare = true },
	func(_ context.Context, d *draft, t *trim) { d.shorterMessage(t) },
	func(_ context.Context, _ *draft, t *trim) { t.label = shortLabel },
	func(_ context.Context, _ *draft, t *trim) { t.noResult = true },
	func(_ context.Context, d *draft, t *trim) { d.shorterMessage(t) },
	func(_ context.Context, _ *draft, t *trim) { t.label = 0 },
}

// answer writes the draft, giving up what does not fit.
func (d *draft) answer(ctx context.Context) *Answer {
	d.ms = d.millis()
	t := &trim{faults: len(d.faults), elements: math.MaxInt, longest: math.MaxInt, label: math.MaxInt}
	if d.heavy() {
		d.heavyProbe(ctx, t)
	}
	json, fits := d.render(t)
	for _, reduce := range reductions {
		if fits {
			break
		}
		reduce(ctx, d, t)
		json, fits = d.render(t)
	}
	if !fits {
		// The budget is never below what this costs: it is the code, the step and the numbers.
		d.last = true
		json, _ = d.render(t)
	}
	return &Answer{OK: d.err == nil, JSON: json, Error: d.err, Warnings: d.warnings, Warned: d.noticed(t)}
}

// shorterMessage cuts the message until the answer fits: characters cost between a part of a token and four.
func (d *draft) shorterMessage(t *trim) {
	tooLong := sort.Search(leastMessage+1, func(n int) bool {
		with := *t
		with.longest = n
		_, fits := d.render(&with)
		return !fits
	})
	t.longest = max(tooLong-1, 0)
}

// bareAnswer answers a success in its lite form: the result and nothing else.
func (d *draft) bareAnswer(ctx context.Context) *Answer {
	fits := func(result []byte) bool { return d.meter.Fits(d.bare(result)) }
	if !d.heavy() && fits(d.result) {
		return &Answer{OK: true, JSON: d.bare(d.result), Warnings: d.warnings}
	}
	probe, f := d.keep(ctx, fits)
	if f != nil {
		return d.exchange.failure(ctx, f)
	}
	return &Answer{OK: true, JSON: d.bare(probe), Warnings: d.warnings}
}

// bare is the lite form of a result: its bytes and nothing else, but for the label that a door has asked for.
func (d *draft) bare(result []byte) []byte {
	if d.label == "" {
		return result
	}
	w := &writer{b: make([]byte, 0, len(result)+len(d.label)+24)}
	w.b = append(w.b, '{')
	w.text("chain", d.label)
	w.raw("result", result)
	w.close('}')
	return w.b
}

// heavy tells whether the result is to be a probe though it may fit: by its size, or as the function says that gives the
// default `return`. Where it does not fit it is a probe whatever the function says: else it would be lost.
func (d *draft) heavy() bool {
	if d.result == nil || d.run == nil || d.leaned || d.member != "result" {
		return false
	}
	declared := ""
	if last := d.run.plan.steps[len(d.run.plan.steps)-1]; d.run.plan.ret == nil && last.fn != nil {
		declared = last.fn.Spec().Heavy
	}
	switch {
	case declared == "never":
		return false
	case declared == "always" && d.err == nil:
		return true
	}
	return d.o.ProbeAbove > 0 && d.o.Counter.Count(d.result, d.o.ProbeAbove) > d.o.ProbeAbove
}

// heavyProbe puts a probe in the place of a result that may fit; what does not fit then is given up in the same order as
// ever.
func (d *draft) heavyProbe(ctx context.Context, t *trim) {
	probe, f := d.keep(ctx, func([]byte) bool { return true })
	if f == nil {
		t.probe = probe
	}
}

// probe puts a probe in the place of the result, with as much of a preview as fits. A result that cannot be kept is an
// error of its own, unless there is one already.
func (d *draft) probe(ctx context.Context, t *trim) {
	if d.result == nil || d.leaned || d.member != "result" || len(d.result) <= smallResult && d.err != nil {
		return
	}
	fits := func(result []byte) bool {
		with := *t
		with.probe = result
		_, ok := d.render(&with)
		return ok
	}
	probe, f := d.keep(ctx, fits)
	if f != nil && f.Code == fault.BudgetTooSmall && d.noticed(t) {
		t.noNotices = true
		probe, f = d.keep(ctx, fits)
	}
	if f != nil && f.Code == fault.BudgetTooSmall {
		probe, f = d.keep(ctx, nil)
	}
	if f == nil {
		t.probe = probe
		return
	}
	if d.err == nil {
		d.err = f
	}
	d.result, d.fits = nil, nil
}

// keep keeps the result for its caller and describes it; fits nil: without a preview.
func (d *draft) keep(ctx context.Context, fits func([]byte) bool) (probe []byte, f *fault.Error) {
	if d.o.Results == nil {
		return nil, fault.New(fault.LimitExceeded, "the result has about %d tokens, more than the answer may have, and the engine has no store to keep it in (Options.Results): return less of it", d.meter.Estimate(d.result))
	}
	var err error
	// The answer is due even when the client's context has ended, and so is what it refers to.
	ctx = context.WithoutCancel(ctx)
	own := slices.Clip(d.result)
	if d.run != nil && d.run.shares() {
		own = slices.Clone(d.result)
	}
	if fits == nil {
		probe, err = d.o.Results.Probe(ctx, d.owner, own, 0)
	} else {
		probe, err = d.o.Results.ProbeWithin(ctx, d.owner, own, fits)
	}
	if err != nil {
		return nil, coded(err, "")
	}
	return probe, nil
}

// shares tells whether the result may be a part of a larger one, which a store would hold with it.
func (r *run) shares() bool {
	return r.plan.ret == nil && r.plan.steps[len(r.plan.steps)-1].selects != nil
}

// fewerFaults tells as many of the faults as fit.
func (d *draft) fewerFaults(t *trim) {
	if len(d.faults) == 0 {
		return
	}
	t.faults = sort.Search(len(d.faults), func(n int) bool {
		with := *t
		with.faults = n + 1
		_, fits := d.render(&with)
		return !fits
	})
}
