package refs

import (
	"context"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// maxNesting bounds the depth of a template's value.
const maxNesting = 200

// Template is a JSON value whose strings may contain references, compiled to compact JSON text with placeholders.
type Template struct {
	text         []byte // compact JSON without the placeholders' values
	placeholders []placeholder
	value        []byte // see Value
	uses         []Use

	faulty   []string // see Broken
	warnings []*fault.Error
}

// placeholder is the position of a reference's value.
type placeholder struct {
	offset int // its offset in Template.text
	ref    *boundReference
	at     string // the full JSON Pointer of the string that contains the reference
	inText bool   // the reference is inside a string, and its value becomes text
}

// CompileTemplate compiles one JSON value. Strings at any depth may contain references; keys never do. It returns all faults. If
// value is not JSON or is nested deeper than 200 levels (bad_json), t is nil. After other faults (bad_reference, not_supported) t
// cannot be resolved, but the rest of the value can be checked with it.
func CompileTemplate(value []byte, scope CompileScope) (t *Template, faults []*fault.Error) {
	if !gjson.ValidBytes(value) {
		f := fault.New(fault.BadJSON, "The value is not valid JSON.")
		f.At = scope.At
		return nil, []*fault.Error{f}
	}
	c := templateCompiler{scope: scope, source: string(value)}
	c.mayBeForeign = maybeForeign(c.source)
	scratch := make([]byte, 2*len(value))
	c.text, c.value = scratch[:0:len(value)], scratch[len(value):len(value)]
	if n := strings.Count(c.source, "$"); n > 0 {
		c.placeholders, c.uses = make([]placeholder, 0, n), make([]Use, 0, n)
	}
	if f := c.compile(); f != nil {
		return nil, []*fault.Error{f}
	}
	return &c.Template, c.faults
}

// Uses lists the references in the order of the text.
func (t *Template) Uses() []Use { return t.uses }

// Written returns how many bytes the value has beside those of its references.
func (t *Template) Written() int { return len(t.text) }

// Broken lists the full JSON Pointers of the faulty strings.
func (t *Template) Broken() []string { return t.faulty }

// Warnings lists what looks like a reference of another tool within a longer text, which stays as it is.
func (t *Template) Warnings() []*fault.Error { return t.warnings }

// Value returns the template as compact JSON: null for each whole reference and each faulty string, "" for each string with
// interpolations, and doubled dollars unescaped. It must not be written to.
func (t *Template) Value() []byte { return t.value }

// Resolve appends the template's value as compact JSON. Its error is a *fault.Error: reference_missing with the existing keys;
// limit_exceeded; timeout or cancelled if ctx ends during long work; internal for a template with faults.
func (t *Template) Resolve(ctx context.Context, dst []byte, s *Scope) ([]byte, error) {
	return t.resolve(ctx, dst, s, false)
}

// ResolveButResult is like Resolve, for use before $result exists: references to $result stay in the text. The result is for display
// and not a template: dollars of other texts are not escaped.
func (t *Template) ResolveButResult(ctx context.Context, dst []byte, s *Scope) ([]byte, error) {
	return t.resolve(ctx, dst, s, true)
}

func (t *Template) resolve(ctx context.Context, dst []byte, s *Scope, butResult bool) ([]byte, error) {
	if len(t.faulty) > 0 {
		f := fault.New(fault.Internal, "A template with faults cannot be resolved.")
		f.At = t.faulty[0]
		return dst, f
	}
	start, done := len(dst), 0
	limit := s.maxBytes()
	w := workMeter{ctx: ctx, blocks: s.Blocks}
	defer w.slot.Release()
	for i := range t.placeholders {
		placeholder := &t.placeholders[i]
		dst = append(dst, t.text[done:placeholder.offset]...)
		done = placeholder.offset
		if butResult && placeholder.ref.root == RootResult {
			dst = placeholder.appendSource(dst)
			continue
		}
		before := len(dst)
		var err error
		if dst, err = placeholder.ref.resolve(&w, dst, s, placeholder.at); err != nil {
			return dst[:start], err
		}
		if placeholder.inText {
			dst = intoText(dst, before)
		}
		if len(dst)-start > limit {
			f := fault.New(fault.LimitExceeded, "The value resolves to more than %d bytes. Refer to less of the results.", limit)
			f.At = placeholder.at
			return dst[:start], f
		}
	}
	return append(dst, t.text[done:]...), nil
}

// appendSource appends the reference itself.
func (p *placeholder) appendSource(dst []byte) []byte {
	if p.inText {
		return AppendEscaped(dst, "${"+p.ref.String()+"}")
	}
	return append(AppendEscaped(append(dst, '"'), p.ref.String()), '"')
}

// intoText turns the JSON value at start into the inside of a JSON string. A string keeps its text; another value becomes its JSON.
func intoText(dst []byte, start int) []byte {
	switch dst[start] {
	case '"':
		n := copy(dst[start:], dst[start+1:len(dst)-1])
		return dst[:start+n]
	case '{', '[':
		return AppendEscaped(dst[:start], string(dst[start:]))
	}
	return dst
}

// templateCompiler reads a valid JSON text once, from left to right.
type templateCompiler struct {
	Template
	scope  CompileScope
	source string
	open   []container
	faults []*fault.Error

	mayBeForeign bool // see maybeForeign
}

// container is an object or array that is open at the current position.
type container struct {
	object   bool
	valueDue bool   // in an object: a key was read, and its value comes next
	key      string // the last key, as written
	index    int    // number of the current element or member, from 0
}

func (c *templateCompiler) compile() *fault.Error {
	for i := 0; i < len(c.source); i++ {
		b := c.source[i]
		switch b {
		case ' ', '\t', '\r', '\n':
			continue
		case '"':
			end := rawjson.StringEnd(c.source, i)
			c.token(c.source[i:end])
			i = end - 1
			continue
		case '{', '[':
			if len(c.open) == maxNesting {
				f := fault.New(fault.BadJSON, "The value is nested deeper than %d levels.", maxNesting)
				f.At = c.scope.At
				return f
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

// token compiles one string: a key unchanged, a value with its references.
func (c *templateCompiler) token(raw string) {
	if n := len(c.open); n > 0 && c.open[n-1].object && !c.open[n-1].valueDue {
		c.open[n-1].key = raw
		c.literal(raw)
		return
	}
	if c.mayBeForeign && c.foreign(rawjson.Unquote(raw)) {
		return
	}
	if !strings.Contains(raw, "$") && !strings.Contains(raw, `\u0024`) {
		c.literal(raw)
		return
	}
	text := rawjson.Unquote(raw)
	if text[0] == '$' && (len(text) == 1 || text[1] != '$' && text[1] != '{') {
		c.wholeReference(text)
		return
	}
	c.interpolate(raw, text)
}

func (c *templateCompiler) literal(raw string) {
	c.text = append(c.text, raw...)
	c.value = append(c.value, raw...)
}

// at returns the JSON Pointer of the current value.
func (c *templateCompiler) at() string {
	at := c.scope.At
	for _, o := range c.open {
		if o.object {
			at = fault.Key(at, rawjson.Unquote(o.key))
		} else {
			at = fault.Index(at, o.index)
		}
	}
	return at
}

// wholeReference compiles a string that must be one reference, because it begins with a single dollar.
func (c *templateCompiler) wholeReference(text string) {
	p := referenceParser{text: text, pos: 1}
	r, err := p.reference()
	continues := err == nil && p.pos < len(text)
	var b *boundReference
	if continues {
		err = p.unexpectedFault()
	} else if err == nil {
		if b, err = c.scope.bind(r); err != nil {
			err = atOffset(err, text, 0)
		}
	}
	if err != nil {
		if err.Code == fault.BadReference {
			err.Message += c.scope.textRemedy(text, continues && p.computation() == "")
		}
		c.fault(err)
		return
	}
	at := c.at()
	c.placeholders = append(c.placeholders, placeholder{len(c.text), b, at, false})
	c.uses = append(c.uses, b.use(at, true))
	c.value = append(c.value, "null"...)
}

// fault records the fault of a string, and puts null in its place in Value.
func (c *templateCompiler) fault(e *fault.Error) {
	e.At = c.at()
	c.faults = append(c.faults, e)
	c.faulty = append(c.faulty, e.At)
	c.value = append(c.value, "null"...)
}
