package refs

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
)

// interpolate compiles a string that is not a whole reference; raw is its JSON, text its content. A string in which nothing changes
// keeps its JSON.
func (c *templateCompiler) interpolate(raw, text string) {
	start, placeholders, at := len(c.text), len(c.placeholders), ""
	changed := false
	escaped := -1 // position after the last escaped ${: a dollar there begins no mention
	c.text = append(c.text, '"')
	for i := 0; i < len(text); {
		j := strings.IndexByte(text[i:], '$')
		if j < 0 {
			c.text = AppendEscaped(c.text, text[i:])
			break
		}
		c.text = AppendEscaped(c.text, text[i:i+j])
		j += i
		i = j + 1
		for i < len(text) && text[i] == '$' {
			i++
		}
		n := i - j // dollars in a row; before a reference or a mention, each two of them are one dollar of text
		switch {
		case opensReference(text[i:]):
			changed = true
			c.text = append(c.text, text[j:j+n/2]...)
			if n%2 == 0 {
				c.text = append(c.text, '{')
				i++
				escaped = i
				continue
			}
			b, end, err := c.reference(text, i+1)
			if err != nil {
				err.Message += " For the text itself, write $${."
				c.fault(err)
				return
			}
			i = end
			if at == "" {
				at = c.at()
			}
			c.placeholders = append(c.placeholders, placeholder{len(c.text), b, at, true})
			c.uses = append(c.uses, b.use(at, false))
		case (n > 1 || j != escaped) && c.scope.mentionEnd(text, i, false) > 0 && c.at() != c.scope.Expression:
			changed = true
			c.text = append(c.text, text[j:j+n/2]...)
			if n%2 == 1 {
				c.fault(c.scope.mentionFault(text, i))
				return
			}
		case j == 0 && n > 1: // the first of several dollars that begin the string is an escape
			changed = true
			c.text = append(c.text, text[1:n]...)
		default:
			c.text = append(c.text, text[j:i]...)
		}
	}
	c.text = append(c.text, '"')
	if !changed {
		c.text = append(c.text[:start], raw...)
	}
	if len(c.placeholders) > placeholders {
		c.value = append(c.value, `""`...)
	} else {
		c.value = append(c.value, c.text[start:]...)
	}
}

// opensReference reports whether rest, which follows a dollar, begins an interpolation: {$, or { and a step number before .
// or [.
func opensReference(rest string) bool {
	if len(rest) < 2 || rest[0] != '{' {
		return false
	}
	if rest[1] == '$' {
		return true
	}
	i := 1
	for i < len(rest) && isDigit(rest[i]) {
		i++
	}
	return i > 1 && i < len(rest) && (rest[i] == '.' || rest[i] == '[')
}

// reference parses and binds the text from start, after ${, to the closing brace; end is after the brace.
func (c *templateCompiler) reference(text string, start int) (b *boundReference, end int, err *fault.Error) {
	p := referenceParser{text: text, pos: start}
	if p.peek() == '$' {
		p.pos++
	}
	r, err := p.reference()
	if err != nil {
		return nil, 0, err
	}
	if p.pos == len(text) {
		return nil, 0, p.malformed(p.pos, "The reference that begins with ${ is not closed with }.")
	}
	if p.peek() != '}' {
		return nil, 0, p.unexpectedFault()
	}
	if b, err = c.scope.bind(r); err != nil {
		return nil, 0, atOffset(err, text, start)
	}
	return b, p.pos + 1, nil
}

// mentionEnd looks for a mention: text that looks like a reference but is not one, such as `$0.name`, `$item` or
// `${input.who}` within a text. Its dollar is right before start. mentionEnd returns the offset of the mention's end, or 0
// if there is none: nothing in scope has that name, the name is only the start of a word, or it may well be a price, a
// regular expression group or a script variable ($5, $0.50, $1, ${HOME}). A step number without a segment counts as a mention only
// if numbers is set.
func (s *CompileScope) mentionEnd(text string, start int, numbers bool) int {
	q := referenceParser{text: text, pos: start, plain: true}
	braced := q.peek() == '{'
	if braced {
		q.pos++
	}
	r, err := q.root()
	if err != nil || q.peek() >= utf8.RuneSelf || !s.isInScope(r) {
		return 0
	}
	bare := q.pos
	var first Segment
	for n := 0; n < maxSegments; n++ {
		end := q.pos
		segment, more, err := q.segment()
		if err != nil || !more {
			q.pos = end
			break
		}
		if n == 0 {
			first = segment
		}
	}
	walks := q.pos > bare
	closed := braced && (q.peek() == '}' || strings.HasPrefix(strings.TrimLeft(text[q.pos:], " "), "??"))
	ok := walks || closed
	switch {
	case r.root == RootInput:
		ok = walks && first.Kind <= Quoted && s.Input != nil && s.Input(first.Key)
	case r.root == RootState:
		ok = walks && !braced
	case r.root == RootStep && r.id == "":
		ok = !braced && (walks && (first.Kind != Name || !isDigit(first.Key[0])) || numbers)
	case r.root == RootStep || r.root == RootItem || r.root == rootIndex:
		ok = ok || !braced
	}
	if !ok {
		return 0
	}
	return q.pos
}

// isInScope reports whether the text may use r.
func (s *CompileScope) isInScope(r Reference) bool {
	switch r.root {
	case RootStep:
		n, ok := r.step, true
		if r.id != "" {
			n, ok = s.IDs[r.id]
		}
		return ok && n < s.Step
	case rootPrev:
		return s.Step > 0
	case RootItem, rootIndex:
		return s.Item
	case RootResult:
		return s.Result
	case RootState:
		return s.State
	case rootSecret:
		return s.Secret
	}
	return true
}

// mentionFault returns the fault of a text with a mention whose dollar is right before start.
func (s *CompileScope) mentionFault(text string, start int) *fault.Error {
	end := s.mentionEnd(text, start, false)
	name := clip(strings.TrimPrefix(text[start:end], "{"))
	mention, escaped := "$"+name, "$$"+name
	if text[start] == '{' {
		mention, escaped = "${"+name+"}", "$${"+name+"}"
	}
	e := fault.New(fault.BadReference, "%s is not replaced inside a text. Write ${$%s} to insert the value, %s for the text itself; "+
		"or put the text into input, which is never read for references.", mention, name, escaped)
	if function := strings.TrimRight(text[:start-1], "("); function != "" && len(function) < start-1 && !strings.ContainsFunc(function,
		isNotLetter) {
		e.Message = mention + " is not replaced inside a text. " + computeRemedy // len($0.items)
	}
	if open := strings.LastIndex(text[:start-1], "${"); open >= 0 && !strings.Contains(text[open:start-1], "}") {
		e.Message = "${…} takes one reference and nothing else. " + computeRemedy
	}
	return atOffset(e, text, start-1)
}

func isNotLetter(r rune) bool { return !unicode.IsLetter(r) }

// textRemedy says how to write a text that was read as one reference; "" if it was meant as one. If continues is set, the text only
// begins with a reference.
func (s *CompileScope) textRemedy(text string, continues bool) string {
	const escape = " For a text that begins with a dollar, write $$."
	q := referenceParser{text: text, pos: 1, plain: true}
	r, err := q.root()
	switch {
	case err != nil || !s.exists(r):
		return escape
	case continues && s.isInScope(r):
		return " To insert values into a text, write " + clip(s.withInterpolations(text)) + "." + escape
	}
	return ""
}

// exists reports whether the chain has what r names, even if the text may not use it.
func (s *CompileScope) exists(r Reference) bool {
	if r.root != RootStep {
		return true
	}
	if _, ok := s.IDs[r.id]; ok {
		return true
	}
	return r.id == "" && r.step < s.Steps
}

// withInterpolations returns text with its mentions replaced by interpolations.
func (s *CompileScope) withInterpolations(text string) string {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(text, "$")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		end := 0
		if !strings.HasPrefix(after, "{") {
			end = s.mentionEnd(after, 0, true)
		}
		if end > 0 {
			b.WriteString("${$" + after[:end] + "}")
		} else {
			b.WriteByte('$')
		}
		text = after[end:]
	}
}
