package refs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// maxNesting bounds the depth of a template's value.
const maxNesting = 200

// Template is a JSON value in which strings may hold references, compiled to spans of compact JSON with holes between.
type Template struct {
	text  []byte // compact JSON without what the holes give
	holes []hole
	value []byte
	uses  []Use

	broken []string
}

// hole is where a reference's value goes.
type hole struct {
	offset int // in text
	ref    *bound
	at     string
	within bool // inside a string, as text
}

// CompileTemplate compiles one JSON value. Strings at any depth may hold references, keys never do. It gives all faults
// (bad_reference, not_supported; bad_json where value is no JSON, or nested deeper than 200 levels, and then t is nil) and
// all warnings (bad_reference) at once. Where there are other faults t cannot be resolved: it serves to check the rest of
// the value.
func CompileTemplate(value []byte, p Place) (t *Template, faults, warnings []*fault.Error) {
	if !gjson.ValidBytes(value) {
		e := fault.New(fault.BadJSON, "The value is not valid JSON.")
		e.At = p.At
		return nil, []*fault.Error{e}, nil
	}
	c := templateCompiler{place: p, source: string(value)}
	room := make([]byte, 2*len(value))
	c.text, c.value = room[:0:len(value)], room[len(value):len(value)]
	if n := strings.Count(c.source, "$"); n > 0 {
		c.holes, c.uses = make([]hole, 0, n), make([]Use, 0, n)
	}
	if e := c.compile(); e != nil {
		return nil, []*fault.Error{e}, nil
	}
	return &c.Template, c.faults, c.warnings
}

// Uses lists the references in the order in which they stand.
func (t *Template) Uses() []Use { return t.uses }

// Constant tells that there are no references: Value is the whole truth.
func (t *Template) Constant() bool { return len(t.holes) == 0 }

// Broken lists the strings at fault, by full JSON Pointer; Value has null in their place.
func (t *Template) Broken() []string { return t.broken }

// Value is the template as compact JSON with null for each whole reference and "" for each string with interpolations;
// dollars that were doubled are single. It must not be written to.
func (t *Template) Value() []byte { return t.value }

// Resolve appends the template's value as compact JSON. Its error is a *fault.Error: reference_missing with what was
// there, or limit_exceeded; timeout or cancelled where ctx ends while it works through much; internal for a template with
// faults.
func (t *Template) Resolve(ctx context.Context, dst []byte, s *Scope) ([]byte, error) {
	if len(t.broken) > 0 {
		e := fault.New(fault.Internal, "A template with faults cannot be resolved.")
		e.At = t.broken[0]
		return dst, e
	}
	start, done := len(dst), 0
	limit := s.maxBytes()
	w := work{ctx: ctx}
	defer w.end()
	for i := range t.holes {
		h := &t.holes[i]
		dst = append(dst, t.text[done:h.offset]...)
		done = h.offset
		before := len(dst)
		var err error
		if dst, err = h.ref.resolve(&w, dst, s, h.at); err != nil {
			return dst[:start], err
		}
		if h.within {
			dst = intoText(dst, before)
		}
		if len(dst)-start > limit {
			e := fault.New(fault.LimitExceeded, "The value resolves to more than %d bytes. Refer to less of the results.", limit)
			e.At = h.at
			return dst[:start], e
		}
	}
	return append(dst, t.text[done:]...), nil
}

// intoText turns the JSON value from start on into the inside of a JSON string: a string as it is, another value as
// its JSON.
func intoText(dst []byte, start int) []byte {
	switch dst[start] {
	case '"':
		n := copy(dst[start:], dst[start+1:len(dst)-1])
		return dst[:start+n]
	case '{', '[':
		return appendEscaped(dst[:start], string(dst[start:]))
	}
	return dst
}

// templateCompiler reads a valid JSON text once, from left to right.
type templateCompiler struct {
	Template
	place    Place
	source   string
	open     []container
	faults   []*fault.Error
	warnings []*fault.Error
}

// container is an object or array that is open at the place read.
type container struct {
	object   bool
	valueDue bool   // in an object: a key was read
	key      string // raw
	index    int
}

func (c *templateCompiler) compile() *fault.Error {
	for i := 0; i < len(c.source); i++ {
		b := c.source[i]
		switch b {
		case ' ', '\t', '\r', '\n':
			continue
		case '"':
			end := stringEnd(c.source, i)
			c.token(c.source[i:end])
			i = end - 1
			continue
		case '{', '[':
			if len(c.open) == maxNesting {
				e := fault.New(fault.BadJSON, "The value is nested deeper than %d levels.", maxNesting)
				e.At = c.place.At
				return e
			}
			c.open = append(c.open, container{object: b == '{'})
		case '}', ']':
			c.open = c.open[:len(c.open)-1]
		case ',':
			top := &c.open[len(c.open)-1]
			top.index++
			top.valueDue = false
		case ':':
			c.open[len(c.open)-1].valueDue = true
		}
		c.text = append(c.text, b)
		c.value = append(c.value, b)
	}
	return nil
}

// stringEnd gives the offset behind the string that begins at i.
func stringEnd(json string, i int) int {
	for i++; json[i] != '"'; i++ {
		if json[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// token compiles one string: a key as it stands, a value with its references.
func (c *templateCompiler) token(raw string) {
	if n := len(c.open); n > 0 && c.open[n-1].object && !c.open[n-1].valueDue {
		c.open[n-1].key = raw
		c.literal(raw)
		return
	}
	if !strings.Contains(raw, "$") && !strings.Contains(raw, `\u0024`) {
		c.literal(raw)
		return
	}
	text := unquote(raw)
	if text[0] == '$' && (len(text) == 1 || text[1] != '$' && text[1] != '{') {
		c.whole(text)
		return
	}
	c.interpolate(raw, text)
}

func (c *templateCompiler) literal(raw string) {
	c.text = append(c.text, raw...)
	c.value = append(c.value, raw...)
}

// unquote gives the text of a valid JSON string.
func unquote(raw string) string {
	if strings.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	var s string
	_ = json.Unmarshal([]byte(raw), &s) // cannot fail
	return s
}

// at is the JSON Pointer of the value read.
func (c *templateCompiler) at() string {
	at := c.place.At
	for _, o := range c.open {
		if o.object {
			at = fault.Key(at, unquote(o.key))
		} else {
			at = fault.Index(at, o.index)
		}
	}
	return at
}

func (c *templateCompiler) whole(text string) {
	r, err := parseWhole(text, false)
	var b *bound
	if err == nil {
		if b, err = c.place.bind(r); err != nil {
			err = atOffset(err, text, 0)
		}
	}
	if err != nil {
		if err.Code == fault.BadReference {
			err.Message += " For a text that begins with a dollar, write $$."
		}
		c.fault(err)
		return
	}
	at := c.at()
	c.holes = append(c.holes, hole{len(c.text), b, at, false})
	c.uses = append(c.uses, b.use(at, true))
	c.value = append(c.value, "null"...)
}

// fault takes note of a string that is at fault, and leaves a hole in its place.
func (c *templateCompiler) fault(e *fault.Error) {
	e.At = c.at()
	c.faults = append(c.faults, e)
	c.broken = append(c.broken, e.At)
	c.value = append(c.value, "null"...)
}

func (c *templateCompiler) warn(text string, offset int, format string, args ...any) {
	e := atOffset(fault.New(fault.BadReference, format, args...), text, offset)
	e.At = c.at()
	c.warnings = append(c.warnings, e)
}

// interpolate compiles a string that is no whole reference; raw is its JSON.
func (c *templateCompiler) interpolate(raw, text string) {
	start, holes, at := len(c.text), len(c.holes), ""
	changed := false
	escaped := -1 // where the dollar of an escaped ${$ stands
	c.text = append(c.text, '"')
	for i := 0; i < len(text); {
		j := strings.IndexByte(text[i:], '$')
		if j < 0 {
			c.text = appendEscaped(c.text, text[i:])
			break
		}
		c.text = appendEscaped(c.text, text[i:i+j])
		j += i
		i = j + 1
		for i < len(text) && text[i] == '$' {
			i++
		}
		n := i - j
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
			c.holes = append(c.holes, hole{len(c.text), b, at, true})
			c.uses = append(c.uses, b.use(at, false))
		case j == 0 && n > 1:
			changed = true
			c.text = append(c.text, text[1:n]...)
		default:
			c.text = append(c.text, text[j:i]...)
			if n == 1 && j != escaped {
				c.lookAlike(text, j)
			}
		}
	}
	c.text = append(c.text, '"')
	if !changed {
		c.text = append(c.text[:start], raw...)
	}
	if len(c.holes) > holes {
		c.value = append(c.value, `""`...)
	} else {
		c.value = append(c.value, c.text[start:]...)
	}
}

// opensReference tells whether rest, behind a dollar, begins an interpolation: {$, or { with a step number that . or [
// follows.
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

// reference parses and binds what stands from start, behind ${, up to the closing brace; end is behind that.
func (c *templateCompiler) reference(text string, start int) (b *bound, end int, err *fault.Error) {
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
		return nil, 0, p.unexpected()
	}
	if b, err = c.place.bind(r); err != nil {
		return nil, 0, atOffset(err, text, start)
	}
	return b, p.pos + 1, nil
}

// lookAlike warns where plain text at the dollar looks like a reference that was meant: `see $0.name`, and `${name}`
// with a step's id.
func (c *templateCompiler) lookAlike(text string, dollar int) {
	braced := strings.HasPrefix(text[dollar+1:], "{")
	start := dollar + 1
	if braced {
		start++
	}
	end := start
	for end < len(text) && isWord(text[end]) {
		end++
	}
	word, rest := text[start:end], text[end:]
	if word == "" {
		return
	}
	if braced {
		if _, ok := c.place.IDs[word]; ok && rest != "" && strings.IndexByte("}.[?", rest[0]) >= 0 {
			c.warn(text, dollar, "${%s is plain text here, though a step has the id %s. To put its value there, write ${$%s…}.", word, word, word)
		}
		return
	}
	walks := len(rest) > 1 && (rest[0] == '[' || rest[0] == '.' && (isWord(rest[1]) && !isDigit(rest[1])))
	p := referenceParser{text: word}
	r, err := p.root()
	if err != nil {
		return
	}
	if _, id := c.place.IDs[word]; !walks && !id {
		return
	}
	if _, _, err := c.place.resolve(r); err == nil {
		sample := "$" + word
		if walks {
			sample += "…"
		}
		c.warn(text, dollar, "%s inside a text is plain text. To put the value there, write %s.", sample, fmt.Sprintf("${%s}", sample))
	}
}
