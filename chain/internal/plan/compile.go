package plan

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/internal/rawjson"
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
	request        *Request // what is being compiled: the whole request, or a saved chain
	saved          []string // the saved chains around request, outermost first
	common         []rawjson.Member
	lacksFunction  bool // a step names an unknown function: which members of common it declares is not known either
	usedCommon     map[string]bool
	unreadSettings []string // keys of Override.Set, in a chain without params, that no reference has read so far
	onError        string
	faults         *decode.Faults
}

// level has the state that the steps of one chain share: of the outermost chain, or of an inline one.
type level struct {
	at      string // JSON Pointer of the chain
	depth   int
	ids     map[string]int
	steps   []StepRequest
	item    bool       // $item and $index of an outer forEach are in scope
	element origin     // the origin of $item in that forEach
	values  stepValues // the origins that the step that is being compiled can refer to
	planned []*Step
	state   bool                  // $state can be read
	fills   func(key string) bool // reports whether $input.key can exist
}

// compileRequest plans the whole request.
func (c *compiler) compileRequest() *Plan {
	r := c.request
	input, fills := c.buildInput(r)
	outermost := &level{steps: r.Steps, fills: fills, state: c.rules.State}
	p := c.compileLevel(outermost, r.Return)
	p.Input, p.DryRun = input, r.DryRun || c.rules.DryRun
	p.MaxCalls, p.MaxDuration, p.MaxBytes = c.Limits.Calls, c.Limits.Duration, c.Limits.Bytes
	for _, m := range c.common {
		at := r.commonAt(m.Name)
		c.warnText("common", "write it in the args of each step", []byte(m.Raw), outermost.env(at, len(r.Steps)))
		if !c.usedCommon[m.Name] && !c.lacksFunction {
			c.Warnings.Add(fault.New(fault.UnknownField, "no step's function declares %q, so none receives it", m.Name).Under(at))
		}
	}
	if r.IfChanged != nil {
		c.compareAnswer(p)
	}
	for _, key := range c.unreadSettings {
		c.Warnings.Add(fault.New(fault.UnknownField, "nothing reads $input.%s", fault.ClipRunes(key, 60)).Under(fault.Key("/input", key)))
	}
	return p
}

func (c *compiler) fault(code fault.Code, at, format string, args ...any) {
	c.faults.Add(fault.New(code, format, args...).Under(at))
}

// compileLevel plans the steps and the return of one level.
func (c *compiler) compileLevel(l *level, ret []byte) *Plan {
	l.ids = c.indexIDs(l)
	p := &Plan{Steps: make([]*Step, len(l.steps)), OnError: c.onError, ReturnAt: l.at + "/return"}
	l.planned = p.Steps
	for i := range l.steps {
		if c.total++; c.total > c.Limits.Steps {
			c.total += len(l.steps) - i - 1
			c.fault(fault.LimitExceeded, l.at+"/steps", "the chain has more than %d steps: split it", c.Limits.Steps)
			p.Steps = p.Steps[:i]
			return p
		}
		if !c.guard.proceed(c.total) {
			p.Steps = p.Steps[:i]
			return p
		}
		p.Steps[i] = c.compileStep(l, i)
	}
	if ret != nil {
		env := l.env(p.ReturnAt, len(l.steps))
		env.Item = l.item
		t, faults := refs.CompileTemplate(ret, env)
		c.addFaults(l, faults)
		if t != nil {
			c.Warnings.Add(t.Warnings()...)
			p.Returned = t
			c.addUses(l, nil, t.Uses())
			if v := c.checkUses(l, nil, t.Uses()); len(t.Uses()) == 1 && t.Uses()[0].At == p.ReturnAt {
				p.origin = v.origin
			}
		}
	} else if n := len(p.Steps); n > 0 {
		p.origin = p.Steps[n-1].origin
	}
	p.orderWrites()
	if c.rules.Rung != nil {
		p.orderByRung(c.rules.Rung)
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
	return refs.CompileScope{At: at, Step: i, Steps: len(l.steps), IDs: l.ids, Input: l.fills, State: l.state}
}

// compileStep plans one step.
func (c *compiler) compileStep(l *level, i int) *Step {
	s := &l.steps[i]
	p := &Step{Planned: facts.Planned{Number: i, ID: s.ID, At: fault.Index(l.at+"/steps", i)}, MaxRounds: 1, Timeout: c.rules.StepTimeout,
		Effect: steps.Write}
	if s.short != "" {
		p.Short = fault.Key("", s.short)
	}
	p.Needs, p.After = p.dependencyBuf[0:0:2], p.dependencyBuf[2:2:4]
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
	c.noteStateChange(s, p)
	c.compileUndo(l, s, p)
	if p.Fn != nil {
		p.Approve = MustApprove(p.Fn.Spec(), c.rules.Approve)
	}
	c.compileAfter(l, s, p)
	c.compileControls(l, s, p)
	return p
}

func (c *compiler) compileFunction(l *level, s *StepRequest, p *Step) {
	if strings.HasPrefix(s.Fn, "$") {
		c.fault(fault.UnknownFunction, p.FnAt(), "%q is not a function: a function's name is written out, never a reference",
			fault.ClipRunes(s.Fn, 60))
		return
	}
	entry, err := c.view.Resolve(s.Fn)
	if err != nil {
		c.lacksFunction = true
		f := notFoundFault(c.rules.Functions, s.Fn, err).Under(p.FnAt())
		if s.short != "" {
			f = f.Under("")
			f.Err = errors.Join(f.Err, fault.ErrUnknownKey) // its place is the name
		}
		near := fault.Nearest(s.short, stepTable.Names, 1)
		if f.Code == fault.UnknownFunction && len(near) > 0 && !strings.Contains(s.short, ".") { // no field has a dot
			f.Nearest = append(slices.Clone(f.Nearest), near[0])
			if len(f.Nearest) > 1 {
				f.Message += " Or the field " + near[0] + "?"
			} else {
				f.Message += ": did you mean the field " + near[0] + "?"
			}
		}
		tool := f.Code == fault.UnknownFunction && len(f.Available) == 0 && !c.rules.IsCall &&
			slices.Contains(serverTools, steps.FoldName(s.Fn))
		if tool {
			f.Message = strconv.Quote(s.Fn) + " is a tool of the server, not a function: a step cannot call it"
			if steps.FoldName(s.Fn) == "chain" {
				f.Message += ". Inner steps belong in the field chain, and a saved chain is called as chain.NAME"
			}
		}
		if f.Code == fault.UnknownFunction && len(f.Nearest) == 0 && !tool && c.rules.ListHint != "" {
			f.Message += "; " + c.rules.ListHint
		}
		c.faults.Add(f)
		return
	}
	if f := c.unboundFault(entry); f != nil {
		c.faults.Add(f.Under(p.FnAt()))
	}
	if c.rules.ReadOnly && entry.Spec().Effect != steps.Read {
		c.fault(fault.Denied, p.FnAt(), "%s may write, and %s", entry.Spec().Name, cmp.Or(c.rules.WhyReadOnly, OnlyReads))
	}
	if entry.Spec().Saved != nil {
		c.compileSaved(l, s, p, entry)
		return
	}
	p.Fn = entry
	if len(entry.Spec().Output) > 0 || entry.ResultShape() != nil {
		l.values.result.fn = entry
	}
	spec := entry.Spec()
	p.Timeout, p.Patient = cmp.Or(spec.Timeout, spec.DefaultTimeout, p.Timeout), spec.Patient && spec.Timeout == 0
	p.Effect, p.Repeatable = entry.Spec().Effect, entry.Spec().Repeatable()
	p.Common = c.commonFor(entry, s.Args)
	p.MayTruncate = bytes.Contains(entry.Spec().Output, []byte(`"truncated"`))
}

// serverTools are the MCP server's tools. They are not functions, and a step that names one gets its own message.
var serverTools = []string{"chain", "chainread", "search", "info"}

func (c *compiler) compileInline(l *level, s *StepRequest, p *Step) {
	at := p.At + "/chain"
	if l.depth+1 > maxDepth {
		c.fault(fault.LimitExceeded, at, "inline chains nest deeper than %d", maxDepth)
		return
	}
	p.Inline = c.compileLevel(&level{at: at, depth: l.depth + 1, steps: s.Chain.Steps, item: l.item || s.ForEach != nil,
		element: l.values.element, state: l.state,
		fills: func(key string) bool { return s.argsBroken || hasKey(s.Args, key) }}, s.Chain.Return)
	p.Inner = len(p.Inline.Steps)
	p.Effect, p.Repeatable = p.Inline.Effect()
	l.values.result = p.Inline.origin
}

// Effect returns the strongest effect of a plan's steps, and whether all steps may be repeated.
func (p *Plan) Effect() (effect steps.Effect, repeatable bool) {
	effect, repeatable = steps.Read, true
	for _, s := range p.Steps {
		repeatable = repeatable && s.Repeatable
		if s.Effect == steps.Destroy || effect == steps.Read {
			effect = s.Effect
		}
	}
	return effect, repeatable
}

// compileArguments compiles the arguments of the step's function or inline chain.
func (c *compiler) compileArguments(l *level, s *StepRequest, p *Step) {
	if s.argsBroken {
		return // nothing is known of its members
	}
	args := orEmpty(s.Args)
	if s.literal {
		p.Literal = args
		if p.Callee() != nil {
			c.checkArguments(l, p)
		}
		return
	}
	env := l.env(p.ArgsAt(), p.Number)
	env.Item, env.Result = l.item || s.ForEach != nil, s.Repeat != nil
	if p.Fn != nil && p.Fn.Spec().Expression != "" {
		env.Expression = fault.Key(env.At, p.Fn.Spec().Expression)
	}
	t, faults := refs.CompileTemplate(args, env)
	c.addFaults(l, faults)
	if t == nil {
		return
	}
	p.Args = t
	c.Warnings.Add(t.Warnings()...)
	c.addUses(l, p, t.Uses())
	if p.Callee() != nil {
		c.checkArguments(l, p)
		if s.Repeat != nil {
			p.OmitIfNull = c.argumentsFromLastRound(p)
		}
	} else {
		c.checkUses(l, p, t.Uses())
	}
}

// compileControls sets and checks orElse, the timeout, the limits of repeat and retry, and the concurrency.
func (c *compiler) compileControls(l *level, s *StepRequest, p *Step) {
	if p.OrElse = s.OrElse; p.OrElse != nil {
		env := l.env(p.At+"/orElse", p.Number)
		env.Item = l.item || s.ForEach != nil
		c.warnText("orElse", "leave orElse out, and write ?? where the step is referred to", p.OrElse, env)
	}
	switch {
	case s.TimeoutMs != nil:
		p.Timeout, p.Patient = time.Duration(*s.TimeoutMs)*time.Millisecond, false
	case p.Fn == nil:
		p.Timeout = 0 // the calls of an inline chain have their own timeouts, and an expression has other limits
	}
	if s.Repeat != nil {
		p.MaxRounds, p.Delay = max(s.Repeat.Max, 1), time.Duration(s.Repeat.DelayMs)*time.Millisecond
	}
	if s.Retry != nil {
		p.MaxRetries, p.Backoff = s.Retry.Max, time.Duration(s.Retry.BackoffMs)*time.Millisecond
		keyed := p.Fn != nil && p.Fn.Spec().Idempotency != nil
		if (p.Fn != nil || p.Inline != nil) && !p.Repeatable && !keyed {
			c.fault(fault.BadRequest, p.At+"/retry", "%s may write, and is not known to be safe to repeat: drop retry", Describe(p))
		}
	}
	p.Concurrency = 1
	if p.Effect == steps.Read {
		p.Concurrency = min(readConcurrency, c.rules.MaxConcurrency)
	}
	if s.Concurrency == nil {
		return
	}
	p.Concurrency = *s.Concurrency
	if s.ForEach == nil {
		c.fault(fault.BadRequest, p.At+"/concurrency", "concurrency goes with forEach: drop it")
	}
	if p.Concurrency > c.rules.MaxConcurrency {
		c.fault(fault.LimitExceeded, p.At+"/concurrency", "must be at most %d (limits.maxConcurrency)", c.rules.MaxConcurrency)
	}
}

// Describe names a step in a sentence.
func Describe(p *Step) string {
	switch {
	case p.Callee() != nil:
		return p.Name()
	case p.Expr != nil:
		return "the expression"
	}
	return "the inline chain"
}

// addUses adds the dependencies of a text of step p, and checks its uses of $input. p is nil for `return`.
func (c *compiler) addUses(l *level, p *Step, uses []refs.Use) {
	for _, u := range uses {
		switch {
		case u.Root == refs.RootInput:
			c.checkInputUse(l, u)
		case u.Root == refs.RootState:
			c.useState(u)
		case u.Root == refs.RootStep && p != nil:
			p.After = appendNew(p.After, u.Step)
			if !u.Status {
				p.Needs = appendNew(p.Needs, u.Step)
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
		c.faults.Add(f)
	}
}
