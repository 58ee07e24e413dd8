package chain

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

const (
	maxDepth        = 4 // levels of inline chains below the outermost chain
	readConcurrency = 8 // how many elements of a forEach over functions that only read run at once by default
)

// compiler turns a request into a plan. It collects all faults and does not stop at the first.
type compiler struct {
	*compilation
	request        *request // what is being compiled: the whole request, or a saved chain
	saved          []string // the saved chains around request, outermost first
	common         []objectMember
	lacksFunction  bool // a step names an unknown function: which members of common it declares is not known either
	usedCommon     map[string]bool
	unreadSettings []string // keys of Override.Set, in a chain without params, that no reference has read so far
	onError        string
	faults         *faultList
}

// level has the state that the steps of one chain share: of the outermost chain, or of an inline one.
type level struct {
	at      string // JSON Pointer of the chain
	depth   int
	ids     map[string]int
	steps   []step
	item    bool       // $item and $index of an outer forEach are in scope
	element origin     // the origin of $item in that forEach
	values  stepValues // the origins that the step that is being compiled can refer to
	planned []*plannedStep
	fills   func(key string) bool // reports whether $input.key can exist
}

// compileRequest plans the whole request.
func (c *compiler) compileRequest() *plan {
	r := c.request
	input, fills := c.buildInput(r)
	outermost := &level{steps: r.Steps, fills: fills}
	p := c.compileLevel(outermost, r.Return)
	p.input, p.dryRun = input, r.DryRun || c.rules.dryRun
	p.maxCalls, p.maxDuration = c.limits.calls, c.limits.duration
	for _, m := range c.common {
		at := r.commonAt(m.name)
		c.warnText("common", "write it in the args of each step", []byte(m.raw), outermost.env(at, len(r.Steps)))
		if !c.usedCommon[m.name] && !c.lacksFunction {
			c.warnings.add(fault.New(fault.UnknownField, "no step's function declares %q, so none receives it", m.name).Under(at))
		}
	}
	for _, key := range c.unreadSettings {
		c.warnings.add(fault.New(fault.UnknownField, "nothing reads $input.%s", fault.ClipRunes(key, 60)).Under(fault.Key("/input", key)))
	}
	return p
}

func (c *compiler) fault(code fault.Code, at, format string, args ...any) {
	c.faults.add(fault.New(code, format, args...).Under(at))
}

// compileLevel plans the steps and the return of one level.
func (c *compiler) compileLevel(l *level, ret []byte) *plan {
	l.ids = c.indexIDs(l)
	p := &plan{steps: make([]*plannedStep, len(l.steps)), onError: c.onError, returnAt: l.at + "/return"}
	l.planned = p.steps
	for i := range l.steps {
		if c.total++; c.total > c.limits.steps {
			c.total += len(l.steps) - i - 1
			c.fault(fault.LimitExceeded, l.at+"/steps", "the chain has more than %d steps: split it", c.limits.steps)
			p.steps = p.steps[:i]
			return p
		}
		if !c.guard.proceed(c.total) {
			p.steps = p.steps[:i]
			return p
		}
		p.steps[i] = c.compileStep(l, i)
	}
	if ret != nil {
		env := l.env(p.returnAt, len(l.steps))
		env.Item = l.item
		t, faults := refs.CompileTemplate(ret, env)
		c.addFaults(l, faults)
		if t != nil {
			c.warnings.add(t.Warnings()...)
			p.returned = t
			c.addUses(l, nil, t.Uses())
			if v := c.checkUses(l, nil, t.Uses()); len(t.Uses()) == 1 && t.Uses()[0].At == p.returnAt {
				p.origin = v.origin
			}
		}
	} else if n := len(p.steps); n > 0 {
		p.origin = p.steps[n-1].origin
	}
	p.orderWrites()
	if c.rules.rung != nil {
		p.orderByRung(c.rules.rung)
	}
	return p
}

func (c *compiler) indexIDs(l *level) map[string]int {
	var ids map[string]int
	for i := range l.steps {
		id := l.steps[i].ID
		if id == "" {
			continue
		}
		if ids == nil {
			ids = map[string]int{}
		}
		if first, exists := ids[id]; exists {
			c.fault(fault.BadRequest, fault.Index(l.at+"/steps", i)+"/id", "step %d has the id %q already: ids are unique in a chain",
				first, id)
			continue
		}
		ids[id] = i
	}
	return ids
}

// env returns the scope in which a reference, template or expression of step i is compiled. at is its JSON Pointer. For `return`, i is the
// number of steps.
func (l *level) env(at string, i int) refs.CompileScope {
	return refs.CompileScope{At: at, Step: i, Steps: len(l.steps), IDs: l.ids, Input: l.fills}
}

// compileStep plans one step.
func (c *compiler) compileStep(l *level, i int) *plannedStep {
	s := &l.steps[i]
	p := &plannedStep{number: i, id: l.steps[i].ID, at: fault.Index(l.at+"/steps", i), maxRounds: 1, timeout: c.rules.stepTimeout,
		effect: steps.Write}
	p.needs, p.after = p.dependencyBuf[0:0:2], p.dependencyBuf[2:2:4]
	l.values = stepValues{element: l.element}
	c.compileBefore(l, s, p)
	switch {
	case s.Chain != nil:
		c.compileInline(l, s, p)
	case s.Fn != "":
		c.compileFunction(l, s, p)
	case s.Expr != nil:
		c.compileExpression(l, s, p)
	}
	if s.Expr == nil {
		c.compileArguments(l, s, p)
	}
	c.compileUndo(l, s, p)
	if p.fn != nil {
		p.approve = mustApprove(p.fn.Spec(), c.rules.approve)
	}
	c.compileAfter(l, s, p)
	c.compileControls(l, s, p)
	return p
}

func (c *compiler) compileFunction(l *level, s *step, p *plannedStep) {
	if strings.HasPrefix(s.Fn, "$") {
		c.fault(fault.UnknownFunction, p.at+"/fn", "%q is not a function: a function's name is written out, never a reference",
			fault.ClipRunes(s.Fn, 60))
		return
	}
	entry, err := c.view.Resolve(s.Fn)
	if err != nil {
		c.lacksFunction = true
		f := notFoundFault(c.rules.functions, s.Fn, err).Under(p.at + "/fn")
		tool := f.Code == fault.UnknownFunction && len(f.Available) == 0 && !c.rules.isCall &&
			slices.Contains(serverTools, steps.FoldName(s.Fn))
		if tool {
			f.Message = strconv.Quote(s.Fn) + " is a tool of the server, not a function: a step cannot call it"
			if steps.FoldName(s.Fn) == "chain" {
				f.Message += ". Inner steps belong in the field chain, and a saved chain is called as chain.NAME"
			}
		}
		if f.Code == fault.UnknownFunction && len(f.Nearest) == 0 && !tool && c.rules.listHint != "" {
			f.Message += "; " + c.rules.listHint
		}
		c.faults.add(f)
		return
	}
	if c.rules.readOnly && entry.Spec().Effect != steps.Read {
		c.fault(fault.Denied, p.at+"/fn", "%s may write, and %s", entry.Spec().Name, cmp.Or(c.rules.whyReadOnly, onlyReads))
	}
	if entry.Spec().Saved != nil {
		c.compileSaved(l, s, p, entry)
		return
	}
	p.fn = entry
	if len(entry.Spec().Output) > 0 || entry.ResultShape() != nil {
		l.values.result.fn = entry
	}
	spec := entry.Spec()
	p.timeout, p.patient = cmp.Or(spec.Timeout, spec.DefaultTimeout, p.timeout), spec.Patient && spec.Timeout == 0
	p.effect, p.repeatable = entry.Spec().Effect, entry.Spec().Repeatable()
	p.common = c.commonFor(entry, s.Args)
	p.mayTruncate = bytes.Contains(entry.Spec().Output, []byte(`"truncated"`))
}

// serverTools are the MCP server's tools. They are not functions, and a step that names one gets its own message.
var serverTools = []string{"chain", "chainread", "search", "info"}

func (c *compiler) compileInline(l *level, s *step, p *plannedStep) {
	at := p.at + "/chain"
	if l.depth+1 > maxDepth {
		c.fault(fault.LimitExceeded, at, "inline chains nest deeper than %d", maxDepth)
		return
	}
	p.inline = c.compileLevel(&level{at: at, depth: l.depth + 1, steps: s.Chain.Steps, item: l.item || s.ForEach != nil,
		element: l.values.element,
		fills:   func(key string) bool { return s.argsBroken || hasKey(s.Args, key) }}, s.Chain.Return)
	p.effect, p.repeatable = p.inline.effect()
	l.values.result = p.inline.origin
}

// effect returns the strongest effect of a plan's steps, and whether all steps may be repeated.
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

// compileArguments compiles the arguments of the step's function or inline chain.
func (c *compiler) compileArguments(l *level, s *step, p *plannedStep) {
	args := s.Args
	if s.argsBroken {
		return // nothing is known of its members
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
	env := l.env(p.at+"/args", p.number)
	env.Item, env.Result = l.item || s.ForEach != nil, s.Repeat != nil
	if p.fn != nil && p.fn.Spec().Expression != "" {
		env.Expression = fault.Key(env.At, p.fn.Spec().Expression)
	}
	t, faults := refs.CompileTemplate(args, env)
	c.addFaults(l, faults)
	if t == nil {
		return
	}
	p.args = t
	c.warnings.add(t.Warnings()...)
	c.addUses(l, p, t.Uses())
	if p.callee() != nil {
		c.checkArguments(l, p)
		if s.Repeat != nil {
			p.omitIfNull = c.argumentsFromLastRound(p)
		}
	} else {
		c.checkUses(l, p, t.Uses())
	}
}

// compileControls sets and checks orElse, the timeout, the limits of repeat and retry, and the concurrency.
func (c *compiler) compileControls(l *level, s *step, p *plannedStep) {
	if p.orElse = s.OrElse; p.orElse != nil {
		env := l.env(p.at+"/orElse", p.number)
		env.Item = l.item || s.ForEach != nil
		c.warnText("orElse", "leave orElse out, and write ?? where the step is referred to", p.orElse, env)
	}
	switch {
	case s.TimeoutMs != nil:
		p.timeout, p.patient = time.Duration(*s.TimeoutMs)*time.Millisecond, false
	case p.fn == nil:
		p.timeout = 0 // the calls of an inline chain have their own timeouts, and an expression has other limits
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
		p.concurrency = min(readConcurrency, c.rules.maxConcurrency)
	}
	if s.Concurrency == nil {
		return
	}
	p.concurrency = *s.Concurrency
	if s.ForEach == nil {
		c.fault(fault.BadRequest, p.at+"/concurrency", "concurrency goes with forEach: drop it")
	}
	if p.concurrency > c.rules.maxConcurrency {
		c.fault(fault.LimitExceeded, p.at+"/concurrency", "must be at most %d (limits.maxConcurrency)", c.rules.maxConcurrency)
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

// addUses adds the dependencies of a text of step p, and checks its uses of $input. p is nil for `return`.
func (c *compiler) addUses(l *level, p *plannedStep, uses []refs.Use) {
	for _, u := range uses {
		switch {
		case u.Root == refs.RootInput:
			c.checkInputUse(l, u)
		case u.Root == refs.RootStep && p != nil:
			p.after = appendNew(p.after, u.Step)
			if !u.Status {
				p.needs = appendNew(p.needs, u.Step)
			}
		}
	}
}

func (c *compiler) addFaults(l *level, faults []*fault.Error) {
	for _, f := range faults {
		if l.depth > 0 && f.Code == fault.BadReference {
			f = f.Under("") // a copy: compiled texts may be cached
			f.Message += " An inline chain has step numbers of its own: hand outer values in by the step's args, and read them as $input."
		}
		c.faults.add(f)
	}
}
