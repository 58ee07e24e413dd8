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
// for one match, to some seconds at worst.
const (
	maxWork    = 1 << 30  // bytes of text × instructions of the compiled pattern
	maxMatches = 100_000  // matches that one call returns or replaces
	maxGroups  = 100_000  // groups that a replacement names
	maxResult  = 64 << 20 // bytes
)

// search finds matches for one call. It acquires a slot if that takes long.
type search struct {
	refs.Search
	ctx       context.Context
	slot      admit.Slot
	names     []string // the names of groups, sorted
	matches   int
	size      int // the size of the result so far
	heldBytes int // bytes of memory held for the result while it is written
	nextCheck int // size of the result at which checkSize checks again
}

// newSearch begins a search. It rejects a pattern that is not RE2 or is too large for the text.
func newSearch(ctx context.Context, pattern, text string) (*search, error) {
	s := &search{ctx: ctx, nextCheck: chunkBytes}
	if admit.NeedsSlot(ctx) { // before the pattern is compiled, which may take as long as a search
		if err := s.acquireSlot(); err != nil {
			return nil, err
		}
	}
	p, f := refs.CompilePattern(pattern)
	if f != nil {
		s.release()
		f.At = "/pattern"
		return nil, f
	}
	if p.Size()*(len(text)+1) > maxWork {
		s.release()
		return nil, fault.New(fault.LimitExceeded, "the pattern is too large for a text of %d bytes: use fewer repetitions or a shorter text",
			len(text))
	}
	for _, name := range p.SubexpNames() {
		if name != "" {
			s.names = append(s.names, name)
		}
	}
	slices.Sort(s.names)
	s.Search = refs.Search{Pattern: p, Text: text, Heavy: s.acquireSlot}
	return s, nil
}

// acquireSlot waits for a slot unless the search holds one; its error is the context's. It is the Heavy of refs.Search, which calls it
// about every 10 ms of work.
func (s *search) acquireSlot() error { return s.slot.Acquire(s.ctx) }

// release releases the slot and the memory, which the receiver of the result counts from now on.
func (s *search) release() {
	_ = admit.Hold(s.ctx, -s.heldBytes) // releasing never fails
	s.slot.Release()
}

// perMatch is the fixed work that each match costs, in addition to the search and to the bytes that the match adds to the result. Its
// unit is that of refs.Search.CountWork.
const perMatch = 64

// addMatch counts a match; out is the result so far. An error ends the search: it is the context's, or reports an exceeded bound.
func (s *search) addMatch(out []byte) error {
	s.matches++
	grown := len(out) - s.size
	s.size = len(out)
	if s.matches > maxMatches {
		return fault.New(fault.LimitExceeded, "more than %d matches: use a narrower pattern or a shorter text", maxMatches)
	}
	if err := s.checkSize(out); err != nil {
		return err
	}
	return s.CountWork(perMatch + grown)
}

// chunkBytes is how many bytes are written between two checks of the context.
const chunkBytes = 64 << 10

// checkSize checks the size of the result and, if it has grown by a chunk, the context and the memory.
func (s *search) checkSize(out []byte) error {
	if len(out) > maxResult {
		return fault.New(fault.LimitExceeded, "the result is larger than %d bytes: use a narrower pattern or a shorter text", maxResult)
	}
	if len(out) < s.nextCheck {
		return nil
	}
	s.nextCheck = len(out) + chunkBytes
	needed := 2 * cap(out) // when it grows, the old and the new array both exist
	if err := admit.Hold(s.ctx, needed-s.heldBytes); err != nil {
		return err
	}
	s.heldBytes = needed
	return s.ctx.Err()
}

// appendString appends text as a JSON string, in chunks: a match may be as long as the text, and occur in the result as
// often as its pattern has groups.
func (s *search) appendString(out []byte, text string) ([]byte, error) {
	out, err := s.appendText(append(out, '"'), text)
	return append(out, '"'), err
}

// appendText appends text escaped for the inside of a JSON string. An error is the context's, or reports an exceeded bound.
func (s *search) appendText(out []byte, text string) ([]byte, error) {
	for from := 0; from < len(text); {
		to := min(from+chunkBytes, len(text))
		for to < len(text) && !utf8.RuneStart(text[to]) {
			to++
		}
		out = refs.AppendEscaped(out, text[from:to])
		from = to
		if err := s.checkSize(out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// appendMatch appends one match as text.match returns it; a group that did not take part is null.
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

// match is the call of text.match: it returns the first match, or null if there is none; with all, the array of all matches.
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
	defer s.release()
	// Each match is written immediately, because many small matches would take several times their length in memory.
	out := []byte{'['}
	for indexes := range s.All() {
		if s.matches > 0 {
			out = append(out, ',')
		}
		out, err = s.appendMatch(out, indexes)
		if err == nil {
			err = s.addMatch(out)
		}
		if err != nil {
			return nil, err
		}
		if !a.All {
			return out[1:], nil // without the "[": one match, not an array
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
