package refs

import (
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// foreign is a reference in the notation of another tool: {{f.files[0]}}, {{ steps.f.files }}, ${{ steps.f.outputs.files }}, ${steps.f} or
// $steps[0]. It names something that this text may refer to.
type foreign struct {
	start, end int    // of the whole notation
	spelled    string // the reference as chains spell it
	computes   bool   // a filter or an operator follows the reference
	hasDollar  bool   // {{$f.x}}: within a text, it is a mention as well
}

// maybeForeign reports whether JSON or an expression may hold a foreign reference.
func maybeForeign(source string) bool {
	return strings.Contains(source, "{{") || strings.Contains(source, "$steps") || strings.Contains(source, "${steps")
}

// foreignIn returns the first foreign reference of a text, or nil.
func (s *CompileScope) foreignIn(text string) *foreign {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '$' && strings.HasPrefix(text[i:], "$$"): // an escape
			for i+1 < len(text) && text[i+1] == '$' {
				i++
			}
			if strings.HasPrefix(text[i:], "${{") {
				i += len("{{")
			}
		case text[i] == '$' || strings.HasPrefix(text[i:], "{{"):
			if f := s.foreignAt(text, i); f != nil {
				return f
			}
		}
	}
	return nil
}

// foreignAt returns the foreign reference that begins at start, or nil.
func (s *CompileScope) foreignAt(text string, start int) *foreign {
	rest := text[start:]
	for _, notation := range []struct{ open, close string }{{"${{", "}}"}, {"{{", "}}"}, {"${", "}"}} {
		inner, ok := strings.CutPrefix(rest, notation.open)
		if !ok {
			continue
		}
		inner, _, ok = strings.Cut(inner[:min(len(inner), maxReferenceBytes)], notation.close)
		if !ok || notation.open == "${" && !strings.HasPrefix(inner, "steps") {
			return nil
		}
		end := start + len(notation.open) + len(inner) + len(notation.close)
		p := referenceParser{text: strings.TrimSpace(inner)}
		hasDollar := p.peek() == '$'
		if hasDollar {
			p.pos++
		}
		r, ok := s.foreignReference(&p)
		if computes := p.pos < len(p.text); ok && (!computes || p.computation() != "") {
			return &foreign{start, end, r.String(), computes, hasDollar}
		}
		return nil
	}
	if !strings.HasPrefix(rest, "$steps") {
		return nil
	}
	p := referenceParser{text: text, pos: start + 1, plain: true}
	r, ok := s.foreignReference(&p)
	if !ok {
		return nil
	}
	return &foreign{start, p.pos, r.String(), false, false}
}

// foreignReference reads a reference whose dollar may be missing, and whose step may stand under `steps`, as in steps.f.outputs.x. ok is
// false if it names nothing that this text may refer to.
func (s *CompileScope) foreignReference(p *referenceParser) (r Reference, ok bool) {
	start := p.pos
	r, err := p.root()
	if err != nil {
		return r, false
	}
	underSteps := r.id == "steps" && !s.exists(r)
	if underSteps {
		if r, ok = p.stepUnderSteps(); !ok {
			return r, false
		}
	} else if p.plain {
		return r, false // $name is no foreign notation
	}
	if r.id == "inputs" && !s.exists(r) {
		r = Reference{root: RootInput}
	}
	if !s.isInScope(r) {
		return r, false
	}
	for len(r.segments) < maxSegments && p.pos-start <= maxReferenceBytes {
		segment, more, err := p.segment()
		if err != nil {
			return r, false
		}
		if !more {
			break
		}
		if underSteps && len(r.segments) == 0 && segment.Kind == Name && (segment.Key == "outputs" || segment.Key == "output") {
			underSteps = false
			continue
		}
		r.segments = append(r.segments, segment)
	}
	switch {
	case r.root == RootInput:
		isKey := len(r.segments) > 0 && r.segments[0].Kind <= Quoted
		return r, isKey && s.Steps > 0 && s.Input != nil && s.Input(r.segments[0].Key) // without steps, it is a template of an endpoint
	case r.root == RootStep && r.id == "" && p.text[start] != 's':
		return r, len(r.segments) > 0 // {{0}} is a placeholder of many formats
	}
	return r, true
}

// stepUnderSteps reads the step after `steps`: .f, .0, [0] or ["f"].
func (p *referenceParser) stepUnderSteps() (r Reference, ok bool) {
	segment, more, err := p.segment()
	if err != nil || !more || segment.Kind > At || segment.Index < 0 {
		return r, false
	}
	if segment.Kind == At {
		return Reference{step: segment.Index}, true
	}
	named := referenceParser{text: segment.Key}
	r, err = named.root()
	return r, err == nil && r.root == RootStep && named.pos == len(named.text)
}

// foreign reports whether a string is one foreign reference, which is a fault. One within a longer text is a warning, since templates for
// other tools pass.
func (c *templateCompiler) foreign(text string) bool {
	f := c.scope.foreignIn(text)
	if f == nil || c.at() == c.scope.Expression {
		return false
	}
	shown := clip(text[f.start:f.end])
	if strings.TrimSpace(text) != text[f.start:f.end] {
		if !f.hasDollar {
			w := fault.New(fault.BadReference, "%s is not replaced inside a text. Write ${%s} to insert the value.", shown, clip(f.spelled))
			w.At = c.at()
			c.warnings = append(c.warnings, w)
		}
		return false
	}
	remedy := "Write " + clip(f.spelled) + " for the value"
	if f.computes {
		remedy = strings.TrimSuffix(computeRemedy, ".")
	}
	c.fault(atOffset(fault.New(fault.BadReference, "%s is not replaced: it is the notation of other tools. %s; for the text itself, put it "+
		"into input, which is never read for references.", shown, remedy), text, f.start))
	return true
}

// foreignFault returns the fault of an expression with a foreign reference, or nil.
func (s *CompileScope) foreignFault(source string) *fault.Error {
	if !maybeForeign(source) {
		return nil
	}
	f := s.foreignIn(source)
	if f == nil {
		return nil
	}
	e := fault.New(fault.BadExpression, "%s is the notation of other tools. Write %s.", clip(source[f.start:f.end]), clip(f.spelled))
	e.At = s.At
	return atOffset(e, source, f.start)
}
