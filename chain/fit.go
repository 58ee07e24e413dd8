package chain

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"time"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

// trim says what of a draft is given up. The zero value gives up nothing.
type trim struct {
	trace       traceLevel
	noWarnings  bool
	noNotices   bool // nor the front end's warnings
	schema      schemaLevel
	noAvailable bool   // nor the body of a failed call
	probe       []byte // in the place of the result
	lost        bool   // probe is a preview of a result that is not kept
	faults      int    // how many are told
	elements    int    // likewise
	writes      int    // likewise
	longest     int    // characters of a message
	noNearest   bool
	label       int    // characters of the front end's label
	bare        bool   // nor the place and the function of the error, and the id of the run
	noResult    bool   // not even the probe
	counted     bool   // of the calls that wait for approval only how many
	awaited     string // the continuation token of their list; "": it is told, or could not be kept

	unkept *fault.Error // why the result could not be kept; nil: it was not tried, or it was kept
}

// nothing is the trim that gives up nothing of a draft.
func (d *draft) nothing() *trim {
	return &trim{faults: len(d.faults), elements: math.MaxInt, writes: math.MaxInt, longest: math.MaxInt, label: math.MaxInt}
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
	func(ctx context.Context, d *draft, t *trim) { d.countAwaited(ctx, t) },
	func(_ context.Context, _ *draft, t *trim) { t.elements = manyElements },
	func(_ context.Context, _ *draft, t *trim) { t.elements = fewElements },
	func(_ context.Context, _ *draft, t *trim) { t.trace = traceNone },
	func(_ context.Context, _ *draft, t *trim) { t.longest = shortMessage },
	func(_ context.Context, d *draft, t *trim) { d.fewerFaults(t) },
	func(_ context.Context, _ *draft, t *trim) { t.noNotices = true },
	func(_ context.Context, _ *draft, t *trim) { t.elements = 0 },
	func(_ context.Context, d *draft, t *trim) { d.fewerWrites(t) },
	func(_ context.Context, _ *draft, t *trim) { t.longest, t.noNearest = leastMessage, true },
	func(_ context.Context, d *draft, t *trim) { d.fewerWrites(t) },
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
	t := d.nothing()
	if d.heavy() {
		d.heavyProbe(ctx, t)
	}
	return d.fit(ctx, t)
}

// fit writes the draft, giving up what does not fit beside what t gives up already.
func (d *draft) fit(ctx context.Context, t *trim) *Answer {
	d.ms = time.Since(d.started).Milliseconds()
	d.hopeless = d.result != nil && !d.meter.Fits(d.result)
	json, fits := d.render(t)
	for i := 0; i < len(reductions) && !fits; i++ {
		lost := t.lost
		reductions[i](ctx, d, t)
		if t.lost && !lost { // what was given up for the result's sake may have room now
			again := d.nothing()
			again.probe, again.lost = t.probe, true
			t, i = again, -1
		}
		json, fits = d.render(t)
	}
	if !fits {
		// The budget is never below what this costs: it is the code, the step and the numbers.
		d.last = true
		json, _ = d.render(t)
	}
	d.tellKept(t.probe != nil && !t.lost)
	return &Answer{OK: d.err == nil, JSON: json, Error: d.err, Warnings: d.warnings, Warned: d.noticed(t)}
}

// countAwaited tells of the calls that wait for approval how many they are; their list is kept to be fetched.
func (d *draft) countAwaited(ctx context.Context, t *trim) {
	if d.run == nil || len(d.run.awaited) == 0 || t.counted {
		return
	}
	t.counted = true
	if d.results == nil {
		return
	}
	if token, _, err := d.results.Keep(context.WithoutCancel(ctx), d.owner, callsJSON(d.run.awaited)); err == nil {
		t.awaited = token
	}
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

// bareAnswer answers a success in its lite form: the result and nothing else. A result that neither fits nor can be kept is
// a failure, which tells what has run.
func (d *draft) bareAnswer(ctx context.Context) *Answer {
	whole := d.bare(d.result)
	heavy, fits := d.heavy(), d.meter.Fits(whole)
	if fits && !heavy {
		return d.bareSuccess(whole, false)
	}
	probe, f := d.keep(ctx, d.bareRoom(), false)
	switch {
	case f == nil:
		return d.bareSuccess(d.bare(probe), true)
	case fits:
		return d.bareSuccess(whole, false)
	case d.run != nil:
		d.measure()
	}
	t := d.nothing()
	d.lose(t, f)
	return d.fit(ctx, t)
}

// bareSuccess is the answer of this text, which holds a probe of the result or the result itself.
func (d *draft) bareSuccess(text []byte, probe bool) *Answer {
	d.tellKept(probe)
	return &Answer{OK: true, JSON: text, Warnings: d.warnings}
}

// bareRoom is what the lite form has for a result.
func (d *draft) bareRoom() *budget.Room {
	around := d.bare(nil)
	end := max(len(around)-1, 0)
	return &budget.Room{Meter: d.meter, Before: around[:end], After: around[end:]}
}

// bare is the lite form of a result: its bytes and nothing else, but for the label that a front end has asked for.
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

// heavy reports whether the result is to be a probe though it may fit: by its size, or as the function says whose own whole
// result is the default `return`. Where it does not fit it is a probe whatever the function says: else it would be lost.
func (d *draft) heavy() bool {
	if d.result == nil || d.run == nil || d.leaned || d.member != "result" {
		return false
	}
	declared := ""
	if last := d.run.plan.steps[len(d.run.plan.steps)-1]; d.run.plan.ret == nil && last.fn != nil && last.selects == nil {
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
// ever. A result that cannot be kept stays, as long as it fits.
func (d *draft) heavyProbe(ctx context.Context, t *trim) {
	t.probe, t.unkept = d.keep(ctx, nil, false)
}

// probe puts a probe in the place of the result, with as much of a preview as fits.
func (d *draft) probe(ctx context.Context, t *trim) {
	if t.lost || d.result == nil || d.leaned || d.member != "result" || len(d.result) <= smallResult && d.err != nil {
		return
	}
	if t.unkept != nil { // it was tried
		d.lose(t, t.unkept)
		return
	}
	probe, f := d.keep(ctx, d.room(t), false)
	if f != nil && f.Code == fault.BudgetTooSmall && d.noticed(t) {
		t.noNotices = true
		probe, f = d.keep(ctx, d.room(t), false)
	}
	if f != nil && f.Code == fault.BudgetTooSmall {
		probe, f = d.keep(ctx, nil, true)
	}
	if f != nil {
		d.lose(t, f)
		return
	}
	t.probe = probe
}

// wholeRoom is what an answer that gives nothing up has for a result.
func (d *draft) wholeRoom() *budget.Room {
	if d.lite {
		return d.bareRoom()
	}
	return d.room(d.nothing())
}

// room is what the answer with a trim has in the place of its result.
func (d *draft) room(t *trim) *budget.Room {
	with := *t
	with.probe = []byte{}
	text, end, number := d.write(&with)
	room := &budget.Room{Meter: d.meter, Before: text[:end], After: text[end:], Number: number - end}
	if d.bounded() {
		room.MaxRunes = maxFailure
	}
	return room
}

// lose gives up a result that does not fit and could not be kept, as f says: what there is room for is a preview of it. It
// is an error of its own, unless there is one already.
func (d *draft) lose(t *trim, f *fault.Error) {
	if d.err == nil {
		d.err = d.lost(f)
	}
	with := *t
	with.trace, with.noWarnings = traceNone, true
	room := d.room(&with)
	t.probe, t.lost = nil, true
	tooLong := sort.Search(maxLost+1, func(n int) bool { return !room.Fits(d.preview(n)) })
	if tooLong > leastLost {
		t.probe = d.preview(tooLong - 1)
		return
	}
	d.result, d.hopeless = nil, false
}

// Characters of the preview of a result that is lost: at most as many as a probe's, and so few that they tell nothing.
const maxLost, leastLost = 200, 20

// preview describes a result that cannot be fetched.
func (d *draft) preview(characters int) []byte {
	end := 0
	for range characters {
		_, size := utf8.DecodeRune(d.result[end:])
		end += size
	}
	w := &writer{b: []byte{'{'}}
	w.text("preview", string(d.result[:end]))
	w.int("total_size", int64(len(d.result)))
	w.close('}')
	return w.b
}

// tryAgain is what the end of a store's message advises to whoever uses the store alone.
var tryAgain = regexp.MustCompile(`[;.] [Tt]ry again[^.]*\.?$`)

// lost is the fault of a result that neither fits nor could be kept, as f says. It begins with what ran, as a message may be
// cut; whoever has had something written is not told to try again.
func (d *draft) lost(f *fault.Error) *fault.Error {
	what := "the result"
	switch {
	case d.run == nil:
	case d.single != nil:
		what = d.run.plan.steps[0].name() + " has run; its result"
	default:
		what = "the chain ran to its end; its result"
	}
	own := f.Under("") // a copy
	own.Message = fmt.Sprintf("%s, of about %d tokens, does not fit and is not kept. %s", what, d.meter.Estimate(d.result), tryAgain.ReplaceAllString(f.Message, "."))
	switch {
	case d.run != nil && d.run.unsafe.Load():
		own.Message += " What was to be done is done: do not send it again."
	case f.Code.Retryable():
		own.Message += " Ask for less, or send it again later."
	}
	return own
}

// keep keeps the result for its caller and describes it, with as much of a preview as there is room for; unseen: without one.
func (d *draft) keep(ctx context.Context, room *budget.Room, unseen bool) (probe []byte, f *fault.Error) {
	if d.results == nil {
		return nil, fault.New(fault.LimitExceeded, "There is no store to keep it in (Options.Results): ask for less of it.")
	}
	var err error
	// The answer is due even when the client's context has ended, and so is what it refers to.
	ctx = context.WithoutCancel(ctx)
	own := slices.Clip(d.result)
	if d.run != nil && d.run.shares() {
		own = slices.Clone(d.result)
	}
	if unseen {
		probe, err = d.results.Probe(ctx, d.owner, own, 0)
	} else {
		probe, err = d.results.ProbeWithin(ctx, d.owner, own, room)
	}
	if err != nil {
		return nil, coded(err, "")
	}
	return probe, nil
}

// shares reports whether the result may be a part of a larger one, which a store would hold with it.
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
