package exprs

import (
	"context"
	"io"
	"iter"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/share"
)

// Bounds of one search. RE2 takes time in proportion to the text times the compiled pattern: maxWork bounds that product
// for one match, to some seconds at the very worst. From longWork on, a match is made in a way that can be stopped.
const (
	maxPattern = 4 << 10  // bytes
	maxWork    = 1 << 30  // bytes of text × instructions of the compiled pattern
	longWork   = 1 << 24  // the same; less takes some hundredths of a second
	heavyWork  = 1 << 20  // the same; from here on a search waits for its caller's turn
	maxMatches = 100_000  // that one call answers or replaces
	maxResult  = 64 << 20 // bytes
)

// pattern is a regular expression and the same one for a search that goes on inside a text.
type pattern struct {
	first *regexp.Regexp
	// next matches from the second character on, so that what looks back (^, \b) sees the first one. Its group 1 is the
	// whole match. Searching from slice to slice lets a search be cancelled between matches, which FindAll cannot be:
	// a pattern such as `x.*y|x` takes time in proportion to the square of the text.
	next         *regexp.Regexp
	instructions int
}

// compile refuses a pattern that is no RE2 or too large for the text.
func compile(source, text string) (*pattern, error) {
	if len(source) > maxPattern {
		return nil, badPattern("the pattern is longer than 4,096 bytes")
	}
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, badPattern(err.Error() + " (RE2 has no look-around and no back-references)")
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, badPattern(err.Error())
	}
	if len(program.Inst)*(len(text)+1) > maxWork {
		return nil, fault.New(fault.LimitExceeded, "the pattern is too large for a text of %d bytes: use fewer repetitions or a shorter text", len(text))
	}
	p := pattern{instructions: len(program.Inst)}
	if p.first, err = regexp.Compile(source); err != nil {
		return nil, badPattern(err.Error())
	}
	if p.next, err = regexp.Compile(`(?s:\A..*?)(` + tree.String() + `)`); err != nil {
		return nil, badPattern(err.Error())
	}
	return &p, nil
}

// turn waits until it is the caller's turn to search a text, where that may take a while.
func (p *pattern) turn(ctx context.Context, text string) (*share.Turn, error) {
	if p.instructions*len(text) < heavyWork {
		return nil, nil //nolint:nilnil // no turn is needed
	}
	return share.From(ctx).Turn(ctx)
}

func badPattern(message string) *fault.Error {
	return &fault.Error{Code: fault.BadArguments, Message: message, At: "/pattern"}
}

// matches yields the indexes of every match and its groups as FindAllStringSubmatchIndex finds them: an empty match
// right after another match is none. When ctx is done, the last one may be wrong or missing: the caller looks at ctx
// with every match and at the end.
func (p *pattern) matches(ctx context.Context, text string) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		for from, previousEnd := 0, -1; from <= len(text); {
			found := p.search(ctx, text, from)
			if found == nil {
				return
			}
			start, end := found[0], found[1]
			empty := start == end
			if after := empty && start == previousEnd; !after && !yield(found) {
				return
			}
			previousEnd = end
			if end > from {
				from = end
			} else {
				_, width := utf8.DecodeRuneInString(text[from:])
				from += max(width, 1)
			}
		}
	}
}

// search finds the first match that begins at from or after it.
func (p *pattern) search(ctx context.Context, text string, from int) []int {
	if from == 0 {
		return p.find(ctx, p.first, text)
	}
	_, width := utf8.DecodeLastRuneInString(text[:from])
	base := from - width
	found := p.find(ctx, p.next, text[base:])
	if found == nil {
		return nil
	}
	found = found[2:]
	for i := range found {
		if found[i] >= 0 {
			found[i] += base
		}
	}
	return found
}

// find lets re find its first match in a text; where that may take long, ctx stops it.
func (p *pattern) find(ctx context.Context, re *regexp.Regexp, text string) []int {
	if p.instructions*len(text) < longWork {
		return re.FindStringSubmatchIndex(text)
	}
	return re.FindReaderSubmatchIndex(&stoppable{ctx: ctx, text: text})
}

// stoppable reads the characters of a text, which ends early when ctx is done.
type stoppable struct {
	ctx  context.Context
	text string
	read int
}

// ReadRune implements io.RuneReader.
func (s *stoppable) ReadRune() (r rune, size int, err error) {
	if s.text == "" || s.read%64 == 0 && s.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	r, size = utf8.DecodeRuneInString(s.text)
	s.text = s.text[size:]
	s.read++
	return r, size, nil
}

// found is one match as text.match answers it; a group that took no part is null.
type found struct {
	Match  string             `json:"match"`
	Groups []*string          `json:"groups"`
	Named  map[string]*string `json:"named"`
}

func (p *pattern) found(text string, indexes []int) found {
	f := found{Match: text[indexes[0]:indexes[1]], Groups: []*string{}, Named: map[string]*string{}}
	for i, name := range p.first.SubexpNames()[1:] {
		var group *string
		if start, end := indexes[2*i+2], indexes[2*i+3]; start >= 0 {
			part := text[start:end]
			group = &part
		}
		f.Groups = append(f.Groups, group)
		if name != "" {
			f.Named[name] = group
		}
	}
	return f
}

func match(ctx context.Context, args []byte) ([]byte, error) {
	var a struct {
		Text    *string `json:"text"`
		Pattern *string `json:"pattern"`
		All     bool    `json:"all"`
	}
	if err := decode(args, &a); err != nil {
		return nil, err
	}
	switch {
	case a.Text == nil:
		return nil, missing("text")
	case a.Pattern == nil:
		return nil, missing("pattern")
	}
	p, err := compile(*a.Pattern, *a.Text)
	if err != nil {
		return nil, err
	}
	turn, err := p.turn(ctx, *a.Text)
	if err != nil {
		return nil, err
	}
	defer turn.Done()
	// Each match is written at once: many small ones take several times their length where they are kept.
	out, count := []byte{'['}, 0
	for indexes := range p.matches(ctx, *a.Text) {
		one, err := marshal(p.found(*a.Text, indexes))
		if err == nil {
			err = bounded(ctx, count, len(out)+len(one))
		}
		if err != nil {
			return nil, err
		}
		if !a.All {
			return one, nil
		}
		if count++; count > 1 {
			out = append(out, ',')
		}
		out = append(out, one...)
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !a.All:
		return []byte("null"), nil
	}
	return append(out, ']'), nil
}

// bounded is the error that ends a search: the context's, or that of a bound.
func bounded(ctx context.Context, matches, size int) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case matches >= maxMatches:
		return fault.New(fault.LimitExceeded, "more than %d matches: use a narrower pattern or a shorter text", maxMatches)
	case size > maxResult:
		return fault.New(fault.LimitExceeded, "the result is larger than %d bytes: use a narrower pattern or a shorter text", maxResult)
	}
	return nil
}
