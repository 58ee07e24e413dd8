package chain

import (
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// expression compiles what the step computes: it reads what select reads, but for $result.
func (c *compiler) expression(l *level, s *step, p *plannedStep) {
	place := l.place(p.at+"/expr", p.number)
	place.Item = l.item || s.ForEach != nil
	var v value
	p.expr, v = compileText(c, l, p, *s.Expr, place, refs.CompileExpression)
	l.own.result = v.origin
	p.effect, p.repeatable = steps.Read, true
}

// before compiles what is decided before the step's call, once: when and forEach.
func (c *compiler) before(l *level, s *step, p *plannedStep) {
	place := l.place("", p.number)
	place.Item, place.Before = l.item, s.ForEach != nil
	if s.When != nil {
		place.At = p.at + "/when"
		p.when = c.condition(l, p, *s.When, place)
	}
	if s.ForEach != nil {
		place.At = p.at + "/forEach"
		var v value
		p.forEach, v = compileText(c, l, p, *s.ForEach, place, refs.CompileSelector)
		l.own.element = c.elements(v, place.At, "forEach", *s.ForEach)
	}
}

// after compiles what reads the call's result: repeat and select.
func (c *compiler) after(l *level, s *step, p *plannedStep) {
	place := l.place("", p.number)
	place.Item, place.Result = l.item || s.ForEach != nil, true
	if s.Repeat != nil && s.Repeat.Until != "" {
		place.At = p.at + "/repeat/until"
		p.until = c.condition(l, p, s.Repeat.Until, place)
	}
	if s.Repeat != nil && s.Repeat.Collect != nil {
		place.At = p.at + "/repeat/collect"
		var v value
		p.collect, v = compileText(c, l, p, *s.Repeat.Collect, place, refs.CompileSelector)
		l.own.result = c.elements(v, place.At, "collect", *s.Repeat.Collect).array()
	}
	if s.Select != nil {
		place.At = p.at + "/select"
		var v value
		p.selects, v = compileText(c, l, p, *s.Select, place, refs.CompileSelector)
		l.own.result = v.origin
	}
	p.gives = givenTo(s, l.own.result)
}

// condition compiles an expression that must be true or false.
func (c *compiler) condition(l *level, p *plannedStep, text string, place refs.Place) *refs.Expression {
	x, v := compileText(c, l, p, text, place, refs.CompileExpression)
	if v.types != nil && !slices.Contains(v.types, "boolean") {
		c.fault(fault.BadExpression, place.At, "a condition must be true or false, and %s gives %s: compare it, as in %[1]s != null",
			fault.ClipRunes(text, maxRemedy), withArticles(v.types))
	}
	return x
}

// compileText compiles one expression or selector, takes note of what it refers to and checks that it can be there. The value is
// that of a text that is one reference.
func compileText[T interface {
	*refs.Expression | *refs.Selector
	Uses() []refs.Use
}](c *compiler, l *level, p *plannedStep, text string, place refs.Place, compile func(string, refs.Place) (T, []*fault.Error)) (T, value) {
	compiled, faults := compile(text, place)
	c.collect(l, faults)
	if len(faults) > 0 {
		return nil, value{}
	}
	uses := compiled.Uses()
	c.use(l, p, uses)
	return compiled, c.check(l, p, uses)
}

// elements is the origin of the elements of an array, which a field needs. What is never an array is a fault.
func (c *compiler) elements(v value, at, field, text string) origin {
	if v.types == nil || slices.Contains(v.types, "array") {
		return v.at([]schema.Element{anyElement})
	}
	remedy := ""
	switch {
	case slices.Contains(v.types, "string"):
		remedy = splitInstead(text)
	case slices.Contains(v.types, "object"):
		remedy = membersInstead(text, v.arrayMembers())
	}
	c.fault(fault.BadArguments, at, "%s needs an array, and %s gives %s%s", field, fault.ClipRunes(text, maxRemedy), withArticles(v.types), remedy)
	return origin{}
}

// withArticles are JSON Schema types in a sentence.
func withArticles(types []string) string {
	named := make([]string, len(types))
	for i, name := range types {
		switch name {
		case "null":
			named[i] = name
		case "object", "integer", "array":
			named[i] = "an " + name
		default:
			named[i] = "a " + name
		}
	}
	return strings.Join(named, " or ")
}
