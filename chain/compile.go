package chain

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// compiler turns a request into a plan and collects every fault on the way; nothing stops it at the first.
type compiler struct {
	*exchange
	request    *request // that is compiled: the exchange's, or a saved chain
	saved      []string // the saved chains around what is compiled, from the outermost on
	common     []objectMember
	usedCommon map[string]bool
	unread     []string // settings of the front end for input without params that no reference has read so far
	onError    string
	total      int // steps so far, inline ones included
	faults     *faultList
}

// level is what the steps of one chain share: the outermost one or an inline one.
type level struct {
	at      string // JSON Pointer of the chain
	depth   int
	ids     map[string]int
	steps   []step
	item    bool        // $item and $index of an outer forEach are in scope
	element origin      // of $item of that forEach
	own     stepOrigins // of the step that is compiled
	planned []*plannedStep
	fills   func(key string) bool // whether $input.key can be there
}

// compile makes the plan of a chain, or says all that is wrong with it, the faults of its decoding included; r is nil
// where nothing could be decoded. The fault that it gives is why it went no further.
func (s *exchange) compile(ctx context.Context, r *request, faults *faultList) (*plan, *fault.Error) {
	if r == nil {
		return nil, s.pace.ended
	}
	if low := s.apply(r.Budget, r.Lite, r.Trace); low != nil {
		faults.add(low)
	}
	s.request = r
	c := &compiler{exchange: s, request: r, usedCommon: map[string]bool{}, onError: r.OnError, faults: faults}
	s.pace.ctx, s.pace.since = ctx, time.Now()
	defer s.pace.slot.Release()
	if c.onError == "" {
		c.onError = onErrorStop
	}
	input, fills := c.input(r)
	c.common = members(r.Common)
	s.verify = r.Verify

	outermost := &level{steps: r.Steps, fills: fills}
	p := c.chain(outermost, r.Return)
	p.input, p.dryRun = input, r.DryRun || s.override.DryRun
	p.maxCalls, p.maxDuration = s.maxCalls, s.maxDuration
	for _, m := range c.common {
		at := r.commonAt(m.name)
		c.warnText("common", "write it in the args of each step", []byte(m.raw), outermost.place(at, len(r.Steps)))
		if !c.usedCommon[m.name] {
			s.warn(fault.New(fault.UnknownField, "no step's function declares %q: it is given to none", m.name).Under(at))
		}
	}
	for _, key := range c.unread {
		s.warn(fault.New(fault.UnknownField, "nothing reads $input.%s", fault.ClipRunes(key, 60)).Under(fault.Key("/input", key)))
	}
	return p, c.pace.ended
}

func (c *compiler) fault(code fault.Code, at, format string, args ...any) {
	c.faults.add(fault.New(code, format, args...).Under(at))
}

// chain plans the steps and the return of one level.
func (c *compiler) chain(l *level, ret []byte) *plan {
	l.ids = c.ids(l)
	p := &plan{steps: make([]*plannedStep, len(l.steps)), onError: c.onError, retAt: l.at + "/return"}
	l.planned = p.steps
	for i := range l.steps {
		if c.total++; c.total > c.maxSteps {
			c.total += len(l.steps) - i - 1
			c.fault(fault.LimitExceeded, l.at+"/steps", "the chain has more than %d steps: split it", c.maxSteps)
			p.steps = p.steps[:i]
			return p
		}
		if !c.pace.goesOn(c.total) {
			p.steps = p.steps[:i]
			return p
		}
		p.steps[i] = c.step(l, i)
	}
	if ret != nil {
		place := l.place(p.retAt, len(l.steps))
		place.Item = l.item
		t, faults := refs.CompileTemplate(ret, place)
		c.collect(l, faults)
		if t != nil {
			p.ret = t
			c.use(l, nil, t.Uses())
			if v := c.check(l, nil, t.Uses()); len(t.Uses()) == 1 && t.Uses()[0].At == p.retAt {
				p.gives = v.origin
			}
		}
	} else if n := len(p.steps); n > 0 {
		p.gives = p.steps[n-1].gives
	}
	p.order()
	if c.o.Rung != nil {
		p.climb(c.o.Rung)
	}
	return p
}

func (c *compiler) ids(l *level) map[string]int {
	var ids map[string]int
	for i := range l.steps {
		id := l.steps[i].ID
		if id == "" {
			continue
		}
		if ids == nil {
			ids = map[string]int{}
		}
		if first, taken := ids[id]; taken {
			c.fault(fault.BadRequest, fault.Index(l.at+"/steps", i)+"/id", "step %d has the id %q already: ids are unique in a chain", first, id)
			continue
		}
		ids[id] = i
	}
	return ids
}

// place is where a text of step i stands.
func (l *level) place(at string, i int) refs.Place {
	return refs.Place{At: at, Step: i, Steps: len(l.steps), IDs: l.ids, Input: l.fills}
}

// step plans one step.
func (c *compiler) step(l *level, i int) *plannedStep {
	s := &l.steps[i]
	p := &plannedStep{number: i, id: l.steps[i].ID, at: fault.Index(l.at+"/steps", i), maxRounds: 1, timeout: c.o.StepTimeout, effect: steps.Write}
	p.needs, p.after = p.room[0:0:2], p.room[2:2:4]
	l.own = stepOrigins{element: l.element}
	c.before(l, s, p)
	switch {
	case s.Chain != nil:
		c.inline(l, s, p)
	case s.Fn != "":
		c.function(l, s, p)
	case s.Expr != nil:
		c.expression(l, s, p)
	}
	if s.Expr == nil {
		c.arguments(l, s, p)
	}
	c.undo(l, s, p)
	c.after(l, s, p)
	c.controls(l, s, p)
	return p
}

func (c *compiler) function(l *level, s *step, p *plannedStep) {
	if strings.HasPrefix(s.Fn, "$") {
		c.fault(fault.UnknownFunction, p.at+"/fn", "%q is no function: a function's name is written out, never a reference", fault.ClipRunes(s.Fn, 60))
		return
	}
	entry, err := c.view.Resolve(s.Fn)
	if err != nil {
		f := c.absent(s.Fn, err).Under(p.at + "/fn")
		tool := f.Code == fault.UnknownFunction && len(f.Available) == 0 && c.single == nil && slices.Contains(serverTools, steps.FoldName(s.Fn))
		if tool {
			f.Message = strconv.Quote(s.Fn) + " is a tool beside chain, not a function: a step cannot call it"
		}
		if f.Code == fault.UnknownFunction && len(f.Nearest) == 0 && !tool && c.o.ListHint != "" {
			f.Message += "; " + c.o.ListHint
		}
		c.faults.add(f)
		return
	}
	if c.override.ReadOnly && entry.Spec().Effect != steps.Read {
		c.fault(fault.Denied, p.at+"/fn", "%s may write, and %s", entry.Spec().Name, cmp.Or(c.override.WhyReadOnly, onlyReads))
	}
	if entry.Spec().Saved != nil {
		c.savedChain(l, s, p, entry)
		return
	}
	p.fn = entry
	if len(entry.Spec().Output) > 0 || entry.Seen() != nil {
		l.own.result.fn = entry
	}
	if own := entry.Spec().Timeout; own > 0 {
		p.timeout = own
	}
	p.effect, p.repeatable = entry.Spec().Effect, entry.Spec().Repeatable()
	p.common = c.commonFor(entry, s.Args)
	p.mayCut = bytes.Contains(entry.Spec().Output, []byte(`"truncated"`))
}

// serverTools are the tools that stand beside the functions where the server is asked; a step that means one of them is told
// so.
var serverTools = []string{"chain", "chainread", "search", "info"}

func (c *compiler) inline(l *level, s *step, p *plannedStep) {
	at := p.at + "/chain"
	if l.depth+1 > maxDepth {
		c.fault(fault.LimitExceeded, at, "inline chains nest deeper than %d", maxDepth)
		return
	}
	p.inline = c.chain(&level{at: at, depth: l.depth + 1, steps: s.Chain.Steps, item: l.item || s.ForEach != nil, element: l.own.element,
		fills: func(key string) bool { return s.argsBroken || hasKey(s.Args, key) }}, s.Chain.Return)
	p.effect, p.repeatable = p.inline.effect()
	l.own.result = p.inline.gives
}

// effect is the strongest effect of a plan's steps, and whether all of them may be repeated.
func (p *plan) effect() (effect steps.Effect, repeatable bool) {
	effect, repeatable = steps.Read, true
	for _, s := range p.steps {
		repeatable = repeatable && s.repeatable
		if s.effect == steps.Destroy || effect == steps.Read {
			effect = s.effect
		}
	}
	return effect, repeatable
}

// arguments compiles what the step hands to its function or inline chain.
func (c *compiler) arguments(l *level, s *step, p *plannedStep) {
	args := s.Args
	if s.argsBroken {
		return // what they hold is not known, and what they lack neither
	}
	if args == nil {
		args = []byte("{}")
	}
	if s.literal {
		p.literal = args
		if p.callee() != nil {
			c.checkArguments(l, p)
		}
		return
	}
	place := l.place(p.at+"/args", p.number)
	place.Item, place.Result = l.item || s.ForEach != nil, s.Repeat != nil
	if p.fn != nil && p.fn.Spec().Expression != "" {
		place.Expression = fault.Key(place.At, p.fn.Spec().Expression)
	}
	t, faults := refs.CompileTemplate(args, place)
	c.collect(l, faults)
	if t == nil {
		return
	}
	p.args = t
	c.use(l, p, t.Uses())
	if p.callee() != nil {
		c.checkArguments(l, p)
		if s.Repeat != nil {
			p.leftOut = c.fromRoundBefore(p)
		}
	} else {
		c.check(l, p, t.Uses())
	}
}

// controls checks the numbers that say how often, how long and how many at once.
func (c *compiler) controls(l *level, s *step, p *plannedStep) {
	if p.orElse = s.OrElse; p.orElse != nil {
		place := l.place(p.at+"/orElse", p.number)
		place.Item = l.item || s.ForEach != nil
		c.warnText("orElse", "leave orElse out, and write ?? where the step is referred to", p.orElse, place)
	}
	switch {
	case s.TimeoutMs != nil:
		p.timeout = time.Duration(*s.TimeoutMs) * time.Millisecond
	case p.fn == nil:
		p.timeout = 0 // the calls of an inline chain have their own, and an expression has its bounds
	}
	if s.Repeat != nil {
		p.maxRounds, p.delay = max(s.Repeat.Max, 1), time.Duration(s.Repeat.DelayMs)*time.Millisecond
	}
	if s.Retry != nil {
		p.maxRetries, p.backoff = s.Retry.Max, time.Duration(s.Retry.BackoffMs)*time.Millisecond
		keyed := p.fn != nil && p.fn.Spec().Idempotency != nil
		if (p.fn != nil || p.inline != nil) && !p.repeatable && !keyed {
			c.fault(fault.BadRequest, p.at+"/retry", "%s may write, and is not known to be safe to repeat: drop retry", describe(p))
		}
	}
	p.concurrency = 1
	if p.effect == steps.Read {
		p.concurrency = min(readConcurrency, c.o.MaxConcurrency)
	}
	if s.Concurrency == nil {
		return
	}
	p.concurrency = *s.Concurrency
	if s.ForEach == nil {
		c.fault(fault.BadRequest, p.at+"/concurrency", "concurrency goes with forEach: drop it")
	}
	if p.concurrency > c.o.MaxConcurrency {
		c.fault(fault.LimitExceeded, p.at+"/concurrency", "must be at most %d (limits.maxConcurrency)", c.o.MaxConcurrency)
	}
}

func describe(p *plannedStep) string {
	switch {
	case p.callee() != nil:
		return p.name()
	case p.expr != nil:
		return "the expression"
	}
	return "the inline chain"
}

// use notes the steps that a text of step p refers to, and checks what it reads of $input; p is nil for `return`.
func (c *compiler) use(l *level, p *plannedStep, uses []refs.Use) {
	for _, u := range uses {
		switch {
		case u.Root == refs.RootInput:
			c.useInput(l, u)
		case u.Root == refs.RootStep && p != nil:
			p.after = appendNew(p.after, u.Step)
			if !u.Status {
				p.needs = appendNew(p.needs, u.Step)
			}
		}
	}
}

func (c *compiler) collect(l *level, faults []*fault.Error) {
	for _, f := range faults {
		if l.depth > 0 && f.Code == fault.BadReference {
			f = f.Under("") // a copy: what is compiled may be kept
			f.Message += " An inline chain has step numbers of its own: hand outer values in by the step's args, and read them as $input."
		}
		c.faults.add(f)
	}
}
