package refs

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
)

// Root is what a reference starts from.
type Root uint8

// The roots of references.
const (
	RootStep   Root = iota // an earlier step's result, by number or id
	RootInput              // the chain's input
	RootItem               // the element of forEach
	rootIndex              // the number of that element, from 0
	rootPrev               // the previous step; compiled texts have RootStep instead
	RootResult             // the step's own result (select, repeat.until, undo)
	RootState              // what earlier chains have kept
	rootSecret             // not supported yet
)

var rootNames = map[string]Root{"input": RootInput, "item": RootItem, "index": rootIndex, "prev": rootPrev,
	"result": RootResult, "state": RootState, "secret": rootSecret}

func (r Root) name() string {
	for name, root := range rootNames {
		if root == r {
			return name
		}
	}
	return ""
}

// segmentKind says how a segment was written, and so what it may match.
type segmentKind uint8

// The kinds of segments. Their order matters: up to Quoted a key, up to At one element, from Each on the rest is mapped.
const (
	Name   segmentKind = iota // .name: a key, or an index if it is digits without a leading zero
	Quoted                    // ["key"]: a key only
	At                        // [n]: an index only; a negative one counts from the end
	Each                      // [*]: maps the rest over the elements
	Flat                      // [**]: flattens one level of arrays, then maps the rest
)

// Segment is one segment of a path into a value.
type Segment struct {
	Key      string // the key, for Name and Quoted
	Index    int    // the index, for At
	Kind     segmentKind
	Optional bool // written with ?: the result is null if the value before it is missing, is null, or lacks this segment
}

// Bounds of one reference's text.
const (
	maxReferenceBytes = 4096
	maxSegments       = 200
)

// Reference is a parsed reference. Step ids stay names until a CompileScope resolves them. The zero value is `$0`.
type Reference struct {
	root     Root
	step     int    // the number of the step, for RootStep without an id
	id       string // the id of the step, for RootStep; "": the step is given by number
	segments []Segment
	fallback string // compact JSON after ??; "" if there is none
}

// Parse parses a text that is exactly one reference of at most 4 KB and 200 segments. Its error is a *fault.Error
// (bad_reference) whose Source and Offset show the position.
func Parse(text string) (Reference, error) {
	r, err := parseWhole(text, false)
	if err != nil {
		return Reference{}, err
	}
	return r, nil
}

// parseWhole parses all of text. If plain is set, bare names end before characters that are operators in expressions.
func parseWhole(text string, plain bool) (Reference, *fault.Error) {
	p := referenceParser{text: text, plain: plain}
	if !strings.HasPrefix(text, "$") {
		return Reference{}, p.malformed(0, "A reference begins with a dollar, such as $0.name or $input.name.")
	}
	p.pos = 1
	r, err := p.reference()
	if err == nil && p.pos < len(text) {
		err = p.unexpectedFault()
	}
	return r, err
}

// referenceParser reads one reference from text, starting after its dollar, and leaves pos after it.
type referenceParser struct {
	text  string
	pos   int
	plain bool
}

func (p *referenceParser) reference() (Reference, *fault.Error) {
	start := p.pos
	if !utf8.ValidString(p.text) {
		return Reference{}, p.malformed(start, "A reference must be UTF-8.")
	}
	r, err := p.root()
	if err != nil {
		return r, err
	}
	for p.pos-start <= maxReferenceBytes {
		s, more, err := p.segment()
		if err != nil {
			return r, err
		}
		if !more {
			break
		}
		if len(r.segments) == maxSegments {
			return r, p.malformed(p.pos, "A reference has at most %d segments.", maxSegments)
		}
		r.segments = append(r.segments, s)
	}
	if r.fallback, err = p.fallback(); err != nil {
		return r, err
	}
	if p.pos-start > maxReferenceBytes {
		return r, p.malformed(start, "A reference has at most %d bytes.", maxReferenceBytes)
	}
	return r, nil
}

func (p *referenceParser) root() (Reference, *fault.Error) {
	start := p.pos
	for p.pos < len(p.text) && isWord(p.text[p.pos]) {
		p.pos++
	}
	word := p.text[start:p.pos]
	switch {
	case word == "":
		return Reference{}, p.malformed(start, "After the dollar comes a step number, a step's id, or one of input, item, index, prev, result.")
	case isDigit(word[0]):
		n, err := strconv.Atoi(word)
		if err != nil || strconv.Itoa(n) != word {
			return Reference{}, p.malformed(start, "%q is not a step number: steps are numbered 0, 1, 2, without leading zeros.", clip(word))
		}
		return Reference{step: n}, nil
	case word == "env":
		return Reference{}, p.malformed(start, "The environment cannot be read. Pass the value as $input.")
	}
	if root, ok := rootNames[word]; ok {
		return Reference{root: root}, nil
	}
	return Reference{id: word}, nil
}

// segment reads one segment; more is false if none begins here.
func (p *referenceParser) segment() (s Segment, more bool, err *fault.Error) {
	start := p.pos
	if p.peek() == '?' && p.peekAt(1) != '?' {
		s.Optional = true
		p.pos++
	}
	switch {
	case p.peek() == '.' && p.peekAt(1) != '[':
		p.pos++
		s.Key, err = p.bareName()
		return s, true, err
	case p.peek() == '.':
		p.pos++
		fallthrough
	case p.peek() == '[':
		p.pos++
		err = p.bracket(&s)
		return s, true, err
	case s.Optional:
		return s, false, p.malformed(start, "A ? comes before a segment: ?.name, ?[0] or ?[\"key\"]. For a default write ?? and a JSON value.")
	}
	return s, false, nil
}

func (p *referenceParser) bareName() (string, *fault.Error) {
	start, end := p.pos, p.pos
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		if !p.isName(c) && (c != ' ' || p.plain || end == start) {
			break
		}
		p.pos++
		if c != ' ' {
			end = p.pos
		}
	}
	p.pos = end
	if end == start {
		return "", p.malformed(start, "After the dot comes a name. A key with other characters is quoted: [\"a key\"].")
	}
	return p.text[start:end], nil
}

func (p *referenceParser) isName(c byte) bool {
	return isWord(c) || c >= utf8.RuneSelf || !p.plain && strings.IndexByte("-():/@", c) >= 0
}

// bracket reads what follows an opening bracket, including the closing one.
func (p *referenceParser) bracket(s *Segment) (err *fault.Error) {
	start := p.pos
	switch c := p.peek(); {
	case c == '*':
		s.Kind = Each
		p.pos++
		if p.peek() == '*' {
			s.Kind = Flat
			p.pos++
		}
	case c == '"' || c == '\'':
		s.Kind = Quoted
		s.Key, err = p.quoted(c)
	case c == '-' || isDigit(c):
		s.Kind = At
		s.Index, err = p.integer()
	case !p.plain && c == ':':
		return p.malformed(start, "A reference takes no slice. %s", computeRemedy)
	case !p.plain && c == '$':
		return p.malformed(start, "Brackets cannot contain a reference. %s", computeRemedy)
	default:
		return p.malformed(start, "Brackets contain an index, a quoted key, * or **: [0], [-1], [\"key\"], [*].")
	}
	switch {
	case err != nil || p.peek() == ']':
	case !p.plain && s.Kind == At && p.peek() == ':':
		err = p.malformed(p.pos, "A reference takes no slice. %s", computeRemedy)
	default:
		err = p.malformed(p.pos, "A bracket is not closed here.")
	}
	p.pos++
	return err
}

func (p *referenceParser) integer() (int, *fault.Error) {
	start := p.pos
	p.pos++
	for isDigit(p.peek()) {
		p.pos++
	}
	text := p.text[start:p.pos]
	n, err := strconv.Atoi(text)
	if err != nil || strconv.Itoa(n) != text {
		return 0, p.malformed(start, "%q is not an index: write 0, 1, 2 or, from the end, -1, -2, without leading zeros.", clip(text))
	}
	return n, nil
}

// quoted reads a quoted key: JSON's escapes, and \'. Control characters may be unescaped.
func (p *referenceParser) quoted(quote byte) (string, *fault.Error) {
	start := p.pos
	literal := []byte{'"'}
	for p.pos++; p.pos < len(p.text) && p.text[p.pos] != quote; p.pos++ {
		switch c := p.text[p.pos]; {
		case c == '\\' && p.peekAt(1) == '\'':
			p.pos++
			literal = append(literal, '\'')
		case c == '\\' && p.pos+1 < len(p.text):
			p.pos++
			literal = append(literal, '\\', p.text[p.pos])
		default:
			literal = AppendEscaped(literal, p.text[p.pos:p.pos+1])
		}
	}
	if p.pos == len(p.text) {
		return "", p.malformed(start, "A quoted key is not closed.")
	}
	p.pos++
	var key string
	if json.Unmarshal(append(literal, '"'), &key) != nil {
		return "", p.malformed(start, "A quoted key has an escape that JSON does not know.")
	}
	return key, nil
}

// fallback reads ?? and a JSON value if they follow.
func (p *referenceParser) fallback() (string, *fault.Error) {
	start := p.pos
	p.blanks()
	if !strings.HasPrefix(p.text[p.pos:], "??") {
		p.pos = start
		return "", nil
	}
	p.pos += 2
	p.blanks()
	d := json.NewDecoder(strings.NewReader(p.text[p.pos:]))
	var raw json.RawMessage
	if d.Decode(&raw) != nil {
		return "", p.malformed(p.pos,
			"?? must be followed by a JSON value: ?? 10, ?? \"none\", ?? []. To compute a default, use an expression in select or an expr step.")
	}
	p.pos += int(d.InputOffset())
	p.blanks()
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return "", p.malformed(start, "?? must be followed by a JSON value.")
	}
	return compact.String(), nil
}

func (p *referenceParser) blanks() {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
}

func (p *referenceParser) peek() byte { return p.peekAt(0) }

// peekAt returns the byte at offset n from pos, 0 past the end.
func (p *referenceParser) peekAt(n int) byte {
	if p.pos+n < len(p.text) {
		return p.text[p.pos+n]
	}
	return 0
}

func (p *referenceParser) malformed(at int, format string, args ...any) *fault.Error {
	return atOffset(fault.New(fault.BadReference, format, args...), p.text, at)
}

// String returns the canonical spelling, which Parse parses into an equal reference.
func (r Reference) String() string {
	text, _ := r.spell()
	return text
}

// spell returns the canonical spelling, and the offset at which each segment begins.
func (r Reference) spell() (text string, offsets []int) {
	b := []byte{'$'}
	switch {
	case r.root != RootStep:
		b = append(b, r.root.name()...)
	case r.id != "":
		b = append(b, r.id...)
	default:
		b = strconv.AppendInt(b, int64(r.step), 10)
	}
	for _, s := range r.segments {
		offsets = append(offsets, len(b))
		b = s.append(b)
	}
	if r.fallback != "" {
		b = append(append(b, " ?? "...), r.fallback...)
	}
	return string(b), offsets
}

func (s Segment) append(b []byte) []byte {
	if s.Optional {
		b = append(b, '?')
	}
	switch s.Kind {
	case Name:
		return append(append(b, '.'), s.Key...)
	case Quoted:
		return append(appendString(append(b, '['), s.Key), ']')
	case At:
		return append(strconv.AppendInt(append(b, '['), int64(s.Index), 10), ']')
	case Each:
		return append(b, "[*]"...)
	default:
		return append(b, "[**]"...)
	}
}

// lenient reports whether a missing value is expected.
func (r *Reference) lenient() bool {
	return r.fallback != "" || anyOptional(r.segments)
}

func anyOptional(segments []Segment) bool {
	return slices.ContainsFunc(segments, func(s Segment) bool { return s.Optional })
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWord(c byte) bool {
	return c == '_' || isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
