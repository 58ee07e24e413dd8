package plan

import (
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// compileExpression compiles the step's expr.
func (c *compiler) compileExpression(l *level, s *StepRequest, p *Step) {
	env := l.env(p.At+"/expr", p.Number)
	env.Item = l.item || s.ForEach != nil
	var v value
	p.Expr, v = compileText(c, l, p, *s.Expr, env, refs.CompileExpression)
	l.values.result = v.origin
	p.IsExpr, p.Effect, p.Repeatable = true, steps.Read, true
}

// compileBefore compiles what is evaluated once before the step's calls: when and forEach.
func (c *compiler) compileBefore(l *level, s *StepRequest, p *Step) {
	env := l.env("", p.Number)
	env.Item, env.Before = l.item, s.ForEach != nil
	if s.When != nil {
		env.At = p.At + "/when"
		p.When = c.compileCondition(l, p, *s.When, env)
	}
	if s.ForEach != nil {
		env.At = p.At + "/forEach"
		var v value
		p.ForEach, v = compileText(c, l, p, *s.ForEach, env, refs.CompileSelector)
		l.values.element = c.elementOrigin(v, env.At, "forEach", *s.ForEach)
	}
}

// compileAfter compiles what reads the call's result: repeat and select.
func (c *compiler) compileAfter(l *level, s *StepRequest, p *Step) {
	env := l.env("", p.Number)
	env.Item, env.Result = l.item || s.ForEach != nil, true
	if s.Repeat != nil && s.Repeat.Until != "" {
		env.At = p.At + "/repeat/until"
		p.Until = c.compileCondition(l, p, s.Repeat.Until, env)
	}
	if s.Repeat != nil && s.Repeat.Collect != nil {
		env.At = p.At + "/repeat/collect"
		var v value
		p.Collect, v = compileText(c, l, p, *s.Repeat.Collect, env, refs.CompileSelector)
		l.values.result = c.elementOrigin(v, env.At, "collect", *s.Repeat.Collect).array()
	}
	if s.Select != nil {
		env.At = p.At + "/select"
		var v value
		p.Selector, v = compileText(c, l, p, *s.Select, env, refs.CompileSelector)
		l.values.result = v.origin
	}
	p.origin = stepOrigin(s, l.values.result)
}

// compileCondition compiles an expression that must be true or false.
func (c *compiler) compileCondition(l *level, p *Step, text string, env refs.CompileScope) *refs.Expression {
	x, v := compileText(c, l, p, text, env, refs.CompileExpression)
	if v.types != nil && !slices.Contains(v.types, "boolean") {
		c.fault(fault.BadExpression, env.At, "a condition must be true or false, and %s gives %s: compare it, as in %[1]s != null",
			fault.ClipRunes(text, MaxRemedyChars), withArticles(v.types))
	}
	return x
}

// compileText compiles one expression or selector, records and checks what it refers to. The value is that of a text that is a single
// reference.
func compileText[T interface {
	*refs.Expression | *refs.Selector
	Uses() []refs.Use
}](c *compiler, l *level, p *Step, text string, env refs.CompileScope, compile func(string, refs.CompileScope) (T, []*fault.Error),
) (T, value) {
	compiled, faults := compile(text, env)
	c.addFaults(l, faults)
	if len(faults) > 0 {
		return nil, value{}
	}
	uses := compiled.Uses()
	c.addUses(l, p, uses)
	return compiled, c.checkUses(l, p, uses)
}

// elementOrigin returns the origin of an array's elements. A value that is never an array is a fault.
func (c *compiler) elementOrigin(v value, at, field, text string) origin {
	if v.types == nil || slices.Contains(v.types, "array") {
		return v.at([]schema.Element{anyElement})
	}
	remedy := ""
	switch {
	case slices.Contains(v.types, "string"):
		remedy = SplitInstead(text)
	case slices.Contains(v.types, "object"):
		remedy = MembersInstead(text, v.arrayMembers())
	}
	c.fault(fault.BadArguments, at, "%s needs an array, and %s gives %s%s", field, fault.ClipRunes(text, MaxRemedyChars),
		withArticles(v.types), remedy)
	return origin{}
}

// withArticles writes JSON Schema types for a sentence.
func withArticles(types []string) string {
	words := make([]string, len(types))
	for i, name := range types {
		switch name {
		case "null":
			words[i] = name
		case "object", "integer", "array":
			words[i] = "an " + name
		default:
			words[i] = "a " + name
		}
	}
	return strings.Join(words, " or ")
}
