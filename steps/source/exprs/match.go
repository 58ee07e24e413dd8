package exprs

import (
	"context"
	"slices"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/refs"
)

// Bounds of one search. RE2 takes time in proportion to the text times the compiled pattern: maxWork bounds that product
// for one match, to some seconds at the very worst.
const (
	maxWork    = 1 << 30  // bytes of text × instructions of the compiled pattern
	maxMatches = 100_000  // that one call answers or replaces
	maxGroups  = 100_000  // that a replacement names
	maxResult  = 64 << 20 // bytes
)

// search looks for matches on behalf of a call. It acquires a slot if that takes a while.
type search struct {
	refs.Search
	ctx     context.Context
	slot    admit.Slot
	names   []string // of groups, sorted
	matches int
	size    int // of the result
	held    int // bytes of memory, for the result while it is written
	next    int // size of the result from which on bounded looks again
}

// newSearch refuses a pattern that is no RE2 or too large for the text.
func newSearch(ctx context.Context, pattern, text string) (*search, error) {
	s := &search{ctx: ctx, next: piece}
	if admit.Many(ctx) { // before the pattern is compiled, which may take as long as a search
		if err := s.heavy(); err != nil {
			return nil, err
		}
	}
	p, f := refs.CompilePattern(pattern)
	if f != nil {
		s.end()
		f.At = "/pattern"
		return nil, f
	}
	if p.Size()*(len(text)+1) > maxWork {
		s.end()
		return nil, fault.New(fault.LimitExceeded, "the pattern is too large for a text of %d bytes: use fewer repetitions or a shorter text", len(text))
	}
	for _, name := range p.SubexpNames() {
		if name != "" {
			s.names = append(s.names, name)
		}
	}
	slices.Sort(s.names)
	s.Search = refs.Search{Pattern: p, Text: text, Heavy: s.heavy}
	return s, nil
}

// heavy is called by the search now and then.
func (s *search) heavy() error { return s.slot.Acquire(s.ctx) }

// end gives back the slot and the memory: whoever gets the result counts it.
func (s *search) end() {
	_ = admit.Hold(s.ctx, -s.held) // giving back never fails
	s.slot.Release()
}

// perMatch is the work that a match takes besides looking for it and its bytes in the result, in refs.Search's steps.
const perMatch = 64

// found counts a match, with which this is the result so far. The error ends the search: the context's, or that of a bound.
func (s *search) found(out []byte) error {
	s.matches++
	grown := len(out) - s.size
	s.size = len(out)
	if s.matches > maxMatches {
		return fault.New(fault.LimitExceeded, "more than %d matches: use a narrower pattern or a shorter text", maxMatches)
	}
	if err := s.bounded(out); err != nil {
		return err
	}
	return s.Worked(perMatch + grown)
}

// piece is how many bytes are written between two looks at the context.
const piece = 64 << 10

// bounded looks at the size of the result and, if it has become larger by a piece, at the context and the memory.
func (s *search) bounded(out []byte) error {
	if len(out) > maxResult {
		return fault.New(fault.LimitExceeded, "the result is larger than %d bytes: use a narrower pattern or a shorter text", maxResult)
	}
	if len(out) < s.next {
		return nil
	}
	s.next = len(out) + piece
	needed := 2 * cap(out) // when it grows, the old lies beside the new
	if err := admit.Hold(s.ctx, needed-s.held); err != nil {
		return err
	}
	s.held = needed
	return s.ctx.Err()
}

// appendString appends text as a JSON string, piece by piece: a match may be as long as the text, and stand in the result as
// often as its pattern has groups.
func (s *search) appendString(out []byte, text string) ([]byte, error) {
	out, err := s.appendText(append(out, '"'), text)
	return append(out, '"'), err
}

// appendText appends text as it stands inside a JSON string. The error is the context's, or that of a bound.
func (s *search) appendText(out []byte, text string) ([]byte, error) {
	for from := 0; from < len(text); {
		to := min(from+piece, len(text))
		for to < len(text) && !utf8.RuneStart(text[to]) {
			to++
		}
		out = refs.AppendEscaped(out, text[from:to])
		from = to
		if err := s.bounded(out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// appendMatch appends one match as text.match answers it; a group that took no part is null.
func (s *search) appendMatch(out []byte, indexes []int) ([]byte, error) {
	var err error
	group := func(i int) {
		start, end := indexes[2*i], indexes[2*i+1]
		switch {
		case err != nil:
		case start < 0:
			out = append(out, "null"...)
		default:
			out, err = s.appendString(out, s.Text[start:end])
		}
	}
	out = append(out, `{"match":`...)
	group(0)
	out = append(out, `,"groups":[`...)
	for i := range s.Pattern.NumSubexp() {
		if i > 0 {
			out = append(out, ',')
		}
		group(i + 1)
	}
	out = append(out, `],"named":{`...)
	separator := ""
	for _, name := range s.names {
		out = append(append(append(append(out, separator...), '"'), name...), `":`...)
		group(s.Pattern.SubexpIndex(name))
		separator = ","
	}
	return append(out, "}}"...), err
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
	s, err := newSearch(ctx, *a.Pattern, *a.Text)
	if err != nil {
		return nil, err
	}
	defer s.end()
	// Each match is written at once: many small ones take several times their length where they are kept.
	out := []byte{'['}
	for indexes := range s.All() {
		if s.matches > 0 {
			out = append(out, ',')
		}
		out, err = s.appendMatch(out, indexes)
		if err == nil {
			err = s.found(out)
		}
		if err != nil {
			return nil, err
		}
		if !a.All {
			return out[1:], nil
		}
	}
	switch {
	case s.Err() != nil:
		return nil, s.Err()
	case !a.All:
		return []byte("null"), nil
	}
	return append(out, ']'), nil
}
