package files

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
)

// maxPatternBytes bounds a pattern. The bounds of refs.CheckPattern also apply unless it is plain text. maxLiterals bounds the
// literals that are searched for at once.
const maxPatternBytes, maxLiterals = 10_000, 16

// pattern is a compiled search. If every match must contain one of a few literals, the regular expression is tried only on lines that
// contain one. Many goroutines share it; each has its own finder.
type pattern struct {
	re       *regexp.Regexp
	literals []literal // nil: the regular expression is tried on every line
	exact    bool      // each occurrence of a literal is a match by itself

	definitions int // how many definitions of a file matter: one ranks it, the others may be shown first
}

func compilePattern(a *grepArgs) (*pattern, error) {
	source := a.Pattern
	if len(source) > maxPatternBytes {
		return nil, badArgument("pattern", "the pattern has %d bytes: at most %d", len(source), maxPatternBytes)
	}
	if a.Literal {
		source = regexp.QuoteMeta(source)
	}
	if a.Word {
		source = `\b(?:` + source + `)\b`
	}
	if a.IgnoreCase {
		source = `(?i:` + source + `)`
	}
	if !a.Literal { // the cost of a literal pattern is its length
		// A syntax error is left to syntax.Parse below, whose error names the place in the pattern.
		if f := refs.CheckPattern(source); f != nil && !errors.As(f.Err, new(*syntax.Error)) {
			return nil, badArgument("pattern", "%s", f.Message)
		}
	}
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, badPattern(a.Pattern, err)
	}
	if holdsNewline(tree) {
		return nil, badArgument("pattern", "the pattern holds a line break: matches lie within one line; context shows the lines around")
	}
	tree = tree.Simplify()
	p := &pattern{definitions: max(1, int(a.Top))}
	if a.Literal {
		p.re, err = regexp.Compile(source)
	} else if compiled, f := refs.CompilePattern(source); f == nil {
		p.re = compiled.Regexp
	} else {
		err = f.Err
	}
	if err != nil {
		return nil, badPattern(a.Pattern, err)
	}
	p.literals, p.exact = requiredLiterals(tree)
	return p, nil
}

func badPattern(pattern string, err error) *fault.Error {
	f := badArgument("pattern", "the pattern is not a regular expression in RE2 syntax")
	var s *syntax.Error
	if errors.As(err, &s) {
		f.Message += ": " + string(s.Code)
		if at := strings.Index(pattern, s.Expr); at >= 0 && s.Expr != "" {
			f.Source, f.Offset = pattern, at
			f.Message += " at " + s.Expr
		}
		if s.Code == syntax.ErrInvalidPerlOp {
			f.Message += " (RE2 has no look-around)"
		}
	}
	f.Message += "; literal: true takes it as plain text"
	f.Err = err
	return f
}

func holdsNewline(re *syntax.Regexp) bool {
	return re.Op == syntax.OpLiteral && slices.Contains(re.Rune, '\n') || slices.ContainsFunc(re.Sub, holdsNewline)
}

// requiredLiterals returns literals of which every match contains at least one; nil: none. exact reports whether each occurrence of
// one is a match by itself.
func requiredLiterals(re *syntax.Regexp) (literals []literal, exact bool) {
	switch re.Op {
	case syntax.OpLiteral:
		return literalOf(re)
	case syntax.OpCapture:
		return requiredLiterals(re.Sub[0])
	case syntax.OpPlus:
		literals, _ = requiredLiterals(re.Sub[0])
		return literals, false
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if l, _ := requiredLiterals(sub); shortest(l) > shortest(literals) {
				literals = l
			}
		}
		return literals, false
	case syntax.OpAlternate:
		exact = true
		for _, sub := range re.Sub {
			l, e := requiredLiterals(sub)
			if l == nil || len(literals)+len(l) > maxLiterals {
				return nil, false
			}
			literals, exact = append(literals, l...), exact && e
		}
		return literals, exact
	}
	return nil, false
}

// shortest returns the length of the shortest literal; 0 if there are none. The longer it is, the fewer lines need the regular
// expression.
func shortest(literals []literal) int {
	n := 0
	for i, l := range literals {
		if i == 0 || len(l.text) < n {
			n = len(l.text)
		}
	}
	return n
}

// literal is plain text that a line must contain. If fold is set, text is in lower case and case does not matter.
type literal struct {
	text []byte
	fold bool
	rare int // with fold: the position of the byte to search for first
}

// literalOf converts a literal of an expression. If case does not matter, it keeps only the longest run of characters whose upper and
// lower-case forms are all ASCII, which excludes k and s: the Kelvin sign and the long s are forms of these. It returns nil if nothing
// is left. exact reports whether the whole literal was kept.
func literalOf(re *syntax.Regexp) (literals []literal, exact bool) {
	if slices.Contains(re.Rune, utf8.RuneError) {
		return nil, false // U+FFFD in an expression also matches any invalid byte
	}
	if re.Flags&syntax.FoldCase == 0 {
		return []literal{{text: []byte(string(re.Rune))}}, true
	}
	var best, run []byte
	for _, r := range re.Rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		if r >= 0x80 || r == 'k' || r == 's' {
			run = nil
			continue
		}
		if run = append(run, byte(r)); len(run) > len(best) {
			best = run
		}
	}
	if best == nil {
		return nil, false
	}
	l := literal{text: best, fold: true}
	for i, c := range best {
		if rarity(c) > rarity(best[l.rare]) {
			l.rare = i
		}
	}
	return []literal{l}, len(best) == len(re.Rune)
}

// byFrequency lists the letters of source code, the most frequent first.
const byFrequency = "etrnaiosclpdumfghbywvkxjqz"

// rarity ranks bytes by how rare they are in source code. A letter counts with both its cases, so it is more frequent than any
// character without case, except the blank.
func rarity(c byte) int {
	if c == ' ' {
		return -1
	}
	if i := strings.IndexByte(byFrequency, c); i >= 0 {
		return i
	}
	return len(byFrequency)
}

// finder searches regions for a pattern, one after the other. It remembers the next position of each literal, so that it reads a region
// only once for each literal.
type finder struct {
	p      *pattern
	region []byte
	next   []nextMatch
}

// nextMatch holds the next positions of a literal (at), and of the two cases of its rare byte, in the region. A position is notSearched
// before the first search, and the region's length if there is none.
type nextMatch struct{ at, lower, upper int }

const notSearched = -1

func newFinder(p *pattern) *finder { return &finder{p: p, next: make([]nextMatch, len(p.literals))} }

func (f *finder) reset(region []byte) {
	f.region = region
	for i := range f.next {
		f.next[i] = nextMatch{notSearched, notSearched, notSearched}
	}
}

// line is a matching line of a region: its start, its end without the line break, the match, and the start of the next
// line.
type line struct{ start, end, matchStart, matchEnd, next int }

// find returns the first matching line at or after pos, which must be the start of a line. It finds none if ctx is done.
func (f *finder) find(ctx context.Context, pos int) (l line, ok bool) {
	for pos < len(f.region) && ctx.Err() == nil {
		hit, length := pos, 0
		if f.p.literals != nil {
			if hit, length = f.literal(pos); hit == len(f.region) {
				return line{}, false
			}
		}
		l.start = pos + bytes.LastIndexByte(f.region[pos:hit], '\n') + 1
		after := len(f.region)
		if i := bytes.IndexByte(f.region[hit:], '\n'); i >= 0 {
			after = hit + i
		}
		l.end, l.next = after, after+1
		if l.end > l.start && f.region[l.end-1] == '\r' {
			l.end--
		}
		if f.p.exact && hit+length <= l.end {
			l.matchStart, l.matchEnd = hit, hit+length
			return l, true
		}
		if m := f.p.match(ctx, f.region[l.start:l.end]); m != nil {
			l.matchStart, l.matchEnd = l.start+m[0], l.start+m[1]
			return l, true
		}
		pos = l.next
	}
	return line{}, false
}

// longMatch is the length of a line, in bytes, from which its matching can be stopped.
const longMatch = 16 << 10

// match returns the start and end of the first match in a line; nil if there is none.
func (p *pattern) match(ctx context.Context, text []byte) []int {
	if len(text) < longMatch {
		return p.re.FindIndex(text)
	}
	return p.re.FindReaderIndex(&stoppableReader{ctx: ctx, text: text})
}

// stoppableReader reads the characters of a text, which ends early when ctx is done.
type stoppableReader struct {
	ctx  context.Context
	text []byte
	read int
}

// ReadRune implements io.RuneReader.
func (s *stoppableReader) ReadRune() (r rune, size int, err error) {
	if len(s.text) == 0 || s.read%64 == 0 && s.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	r, size = utf8.DecodeRune(s.text)
	s.text = s.text[size:]
	s.read++
	return r, size, nil
}

// literal returns the first position at or after pos of any literal, and its length; the region's length if there is none.
func (f *finder) literal(pos int) (at, length int) {
	at = len(f.region)
	for i := range f.next {
		l, n := &f.p.literals[i], &f.next[i]
		if n.at < pos {
			n.at = f.index(l, n, pos)
		}
		if n.at < at {
			at, length = n.at, len(l.text)
		}
	}
	return at, length
}

// index returns the first position of a literal at or after pos; the region's length if there is none. If case does not matter, it looks
// for both cases of the rare byte and compares the text around them.
func (f *finder) index(l *literal, n *nextMatch, pos int) int {
	if !l.fold {
		return indexFrom(f.region, pos, func(b []byte) int { return bytes.Index(b, l.text) })
	}
	lower := l.text[l.rare]
	upper := lower
	if lower >= 'a' && lower <= 'z' {
		upper -= 'a' - 'A'
	}
	for from := pos + l.rare; ; {
		if n.lower < from {
			n.lower = indexFrom(f.region, from, func(b []byte) int { return bytes.IndexByte(b, lower) })
		}
		if n.upper < from {
			n.upper = n.lower
			if upper != lower {
				n.upper = indexFrom(f.region, from, func(b []byte) int { return bytes.IndexByte(b, upper) })
			}
		}
		rare := min(n.lower, n.upper)
		start := rare - l.rare
		if start+len(l.text) > len(f.region) {
			return len(f.region)
		}
		if equalFold(f.region[start:], l.text) {
			return start
		}
		from = rare + 1
	}
}

// indexFrom applies index to b from a position, and returns a position in b; the length of b if there is none.
func indexFrom(b []byte, from int, index func([]byte) int) int {
	if from < len(b) {
		if i := index(b[from:]); i >= 0 {
			return from + i
		}
	}
	return len(b)
}

// equalFold reports whether b begins with the lower-case ASCII text, ignoring case. b must not be shorter than text.
func equalFold(b, text []byte) bool {
	for i, c := range text {
		if d := b[i]; d != c && (d < 'A' || d > 'Z' || d+('a'-'A') != c) {
			return false
		}
	}
	return true
}
