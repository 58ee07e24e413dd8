package chain

import (
	"context"
	"strconv"
	"time"

	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// Bound says what a run of a chain takes if it succeeds: at least, probably and at most. A run that fails makes no more calls and holds no
// more bytes than the high ends say. What functions declare of their results is taken for granted, and what they took so far for likely.
type Bound struct {
	Calls  Interval
	Bytes  Interval // of all results, as Options.MaxChainBytes counts them
	Tokens Interval // of the answer
	Millis Interval // without waiting for sources that are starting
}

// Interval says how much of something there will be. Likely and High may be Unknown.
type Interval struct{ Low, Likely, High int64 }

// Unknown is an end of an Interval of which nothing is known.
const Unknown = plan.Unknown

// Known reports whether more is known than that there may be little.
func (i Interval) Known() bool { return i.Likely != Unknown || i.High != Unknown }

// bound returns the bound of a plan. resume is what is known of the run that the request continues; nil: it begins one.
func (s *request) bound(ctx context.Context, p *plan.Plan, resume *ResumePreview) *Bound {
	b := &plan.Bounder{Context: ctx, MaxElements: int64(s.o.MaxElements), MaxConcurrency: s.o.MaxConcurrency, Seen: s.seen(ctx, p)}
	of := b.Of(p)
	calls := of.Calls.AtMost(int64(p.MaxCalls))
	took := plan.Interval{Likely: millisOf(of.Micros), High: plan.Unknown}
	if resume != nil { // what its calls gave is in the journal
		calls = calls.AtMost(p.MaxRemainingCalls(resume.Made, resume.elements, s.o.MaxElements))
		calls.Low, calls.Likely, took.Likely = 0, Unknown, Unknown
	}
	if p.MaxDuration < noMaxDuration {
		took = took.AtMost(p.MaxDuration.Milliseconds())
	}
	if p.NeedsApproval() { // a person may take any time
		took = plan.Interval{Low: 0, Likely: Unknown, High: Unknown}
	}
	bytes := of.Bytes
	if bytes.High != Unknown {
		bytes = bytes.AtMost(p.MaxBytes)
	}
	return &Bound{Calls: Interval(calls), Bytes: Interval(bytes), Tokens: Interval(s.tokensOf(p, of.Result)),
		Millis: Interval(took)}
}

// millisOf rounds microseconds up.
func millisOf(micros int64) int64 {
	if micros == Unknown {
		return Unknown
	}
	return (micros + 999) / 1000
}

// seenDays are the days whose calls count as what functions took so far. seenTimeout bounds how long that is looked up: a dry run does
// without.
const (
	seenDays    = 30
	seenTimeout = 2 * time.Second
)

// seen returns what the journal knows of earlier calls of a plan's functions: those of the caller, or, for an operator, of all callers. Of
// functions that are called with the caller's own credential it says nothing, as others may be called with another one.
func (s *request) seen(ctx context.Context, p *plan.Plan) func(*steps.Entry) *plan.Seen {
	names, sums := p.FunctionNames(), map[string]*journal.Day{}
	for _, name := range names {
		sums[name] = &journal.Day{}
	}
	if s.o.Journal == nil || len(sums) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, seenTimeout)
	defer cancel()
	f := &journal.Filter{Callers: []string{s.caller}, Functions: names, Since: time.Now().AddDate(0, 0, -seenDays)}
	if s.override.Operator {
		f.Callers = nil
	}
	days, err := s.o.Journal.DaysWithin(ctx, f)
	if err != nil {
		s.warn(fault.New(fault.Unavailable, "what earlier calls took is not known: %s", fault.Message(err)))
		return nil
	}
	for i := range days {
		if sum := sums[days[i].Function]; sum != nil {
			sum.Add(&days[i])
		}
	}
	return func(e *steps.Entry) *plan.Seen {
		sum := sums[e.Spec().Name]
		if sum == nil || sum.Count == 0 || e.Spec().Credential != "" {
			return nil
		}
		seen := &plan.Seen{Bytes: Unknown, P50: sum.Times.Quantile(0.5), P90: sum.Times.Quantile(0.9)}
		if likely := sum.Sizes.Likely(); likely > 0 {
			seen.Bytes = likely
		}
		return seen
	}
}

// tokensOf returns the bound of the tokens of an answer, from that of the bytes of its result.
func (s *request) tokensOf(p *plan.Plan, result plan.Interval) plan.Interval {
	tokens := plan.Interval{Low: 1, Likely: Unknown, High: Unknown}
	last := p.Steps[len(p.Steps)-1]
	isShown := p.Returned == nil && last.Fn != nil && last.ForEach == nil && last.Selector == nil // the result of one call
	changes := p.Compares || isShown && last.Fn.Spec().Answer != nil
	if result.Likely != Unknown && !changes {
		tokens.Likely = s.likelyTokens(p, int(result.Likely), isShown)
	}
	whole := s.form.Lite && s.form.Label == "" && (s.form.Format == "" || s.form.Format == "json") && s.form.ProbeAbove == 0 &&
		!(isShown && (last.Effect != steps.Read || last.Fn.Spec().Heavy == "always"))
	if result.High != Unknown && !changes && whole { // each token has a byte, times the factor of the counter
		tokens.High = result.High * int64(s.form.Meter.Count([]byte("0")))
	}
	if limit := s.form.Meter.Limit(); limit > 0 {
		return tokens.AtMost(int64(limit))
	}
	return tokens
}

// Texts like those of answers. Their tokens are those that an answer probably has.
const (
	sampleResult = `{"id":"7c2e4b","name":"Weekly report","owner":{"email":"ana@example.org"},"items":[{"count":3,"price":12.5},` +
		`{"count":14,"price":8.75}],"status":"open","updated":"2026-03-01T09:30:00Z"}`
	sampleProbe = `{"preview":"[{\"id\":1,\"name\":\"Weekly report\",\"owner\":{\"email\":\"ana@example.org\"},` +
		`\"status\":\"open\"},{\"id\":2,` +
		`\"name\":\"Monthly report\",\"owner\":{\"email\":\"ben@example.org\"},\"status\":\"closed\"},{\"id\":3,\"na` +
		`","total_size":48201,"total_tokens":12950,"shape":"array of 500 {id,name,owner,status}","count":500,"available_modes":["summary",` +
		`"paginated","filtered","query","full"],"continuation_token":"oc1_3c9fZkq0T2m8yLwX5bVh1A","expires_in":300}`
	sampleLean = `{"id":"7c2e4b","name":"Weekly report","status_code":201,"data_size":4096,"continuation_token":"oc1_3c9fZkq0T2m8yLwX5bVh1A"}`
)

// likelyTokens returns how many tokens an answer with a result of so many bytes probably has. isShown: it is the result of one call.
func (s *request) likelyTokens(p *plan.Plan, bytes int, isShown bool) int64 {
	count := func(text string) int { return s.form.Meter.Count([]byte(text)) }
	result := max(1, bytes*count(sampleResult)/len(sampleResult))
	around := 0
	if !s.form.Lite {
		around = s.form.Meter.Count(s.likelyAround(p))
	}
	limit, last := s.form.Meter.Limit(), p.Steps[len(p.Steps)-1]
	declared := isShown && last.Effect != steps.Read && last.Fn.Spec().EffectDeclared && last.OrElse == nil && last.Fn.Spec().Heavy == ""
	switch {
	case s.form.Results == nil:
	case declared && !s.form.Verify && s.form.LeanAbove >= 0 && result > s.form.LeanAbove:
		result = count(sampleLean)
	case limit > 0 && around+result > limit, s.form.ProbeAbove > 0 && result > s.form.ProbeAbove,
		isShown && last.Fn.Spec().Heavy == "always":
		result = count(sampleProbe)
	}
	return int64(around + result)
}

// likelyAround returns a text like that around the result in an answer of a plan.
func (s *request) likelyAround(p *plan.Plan) []byte {
	w := &rawjson.Writer{B: []byte{'{'}}
	if s.form.Label != "" {
		w.Text("chain", s.form.Label)
	}
	w.Bool("ok", true)
	w.Raw("result", nil)
	if s.form.Trace != "none" {
		w.OpenMember("steps", '[')
		for i, step := range p.Steps {
			w.Open('{')
			w.Int("step", int64(i))
			if step.ID != "" {
				w.Text("id", step.ID)
			}
			if step.Name() != "" {
				w.Text("fn", step.Name())
			}
			w.Text("status", "ok")
			w.Int("tokens", 120)
			w.Int("ms", 12)
			w.Close('}')
		}
		w.Close(']')
	}
	if len(s.warnings) > 0 {
		w.OpenMember("warnings", '[')
		for _, f := range s.warnings {
			w.Open('{')
			w.Text("code", string(f.Code))
			w.Text("at", f.At)
			w.Text("message", f.Message)
			w.Close('}')
		}
		w.Close(']')
	}
	w.OpenMember("usage", '{')
	w.Int("tokens", 350)
	if limit := s.form.Meter.Limit(); limit > 0 {
		w.Int("limit", int64(limit))
	}
	w.Int("calls", int64(len(p.Steps)))
	w.Int("ms", 120)
	w.Int("kept", 1200)
	w.Close('}')
	return append(w.B, '}')
}

// writeBound writes each interval.
func writeBound(w *rawjson.Writer, b *Bound) {
	w.OpenMember("bound", '{')
	w.Raw("calls", b.Calls.json())
	w.Raw("bytes", b.Bytes.json())
	w.Raw("tokens", b.Tokens.json())
	w.Raw("ms", b.Millis.json())
	w.Close('}')
}

// json returns the three ends; null where nothing is known.
func (i Interval) json() []byte {
	if !i.Known() {
		return []byte("null")
	}
	text := strconv.AppendInt([]byte{'['}, i.Low, 10)
	for _, end := range []int64{i.Likely, i.High} {
		if text = append(text, ','); end == Unknown {
			text = append(text, "null"...)
		} else {
			text = strconv.AppendInt(text, end, 10)
		}
	}
	return append(text, ']')
}
