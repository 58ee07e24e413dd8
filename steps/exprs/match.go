package exprs

import (
	"context"
	"regexp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/share"
)

// Bounds of one search. RE2 takes time in proportion to the text times the compiled pattern: maxWork bounds that product
// for one match, to some seconds at the very worst.
const (
	maxWork    = 1 << 30  // bytes of text × instructions of the compiled pattern
	maxMatches = 100_000  // that one call answers or replaces
	maxResult  = 64 << 20 // bytes
)

// search looks for matches on behalf of a call, and waits for its caller's turn where that takes a while.
type search struct {
	refs.Search
	ctx     context.Context
	turn    *share.Turn
	heavy   bool // it has a turn
	matches int
	size    int // of the result
}

// newSearch refuses a pattern that is no RE2 or too large for the text.
func newSearch(ctx context.Context, pattern, text string) (*search, error) {
	p, f := refs.CompilePattern(pattern)
	if f != nil {
		f.At = "/pattern"
		return nil, f
	}
	if p.Size()*(len(text)+1) > maxWork {
		return nil, fault.New(fault.LimitExceeded, "the pattern is too large for a text of %d bytes: use fewer repetitions or a shorter text", len(text))
	}
	s := &search{ctx: ctx}
	s.Search = refs.Search{Pattern: p, Text: text, Heavy: s.wait}
	return s, nil
}

// wait is called by the search now and then. The first time it waits for a turn, after that it lets others go first.
func (s *search) wait() (err error) {
	if s.heavy {
		err = s.turn.Yield(s.ctx)
	} else {
		s.turn, err = share.From(s.ctx).Turn(s.ctx)
		s.heavy = err == nil
	}
	if err != nil {
		return err
	}
	return s.ctx.Err()
}

// end gives back the turn.
func (s *search) end() { s.turn.Done() }

// perMatch is the work that a match takes besides looking for it and its bytes in the result, in refs.Search's steps.
const perMatch = 64

// found counts a match, with which the result has so many bytes. The error ends the search: the context's, or that of a bound.
func (s *search) found(size int) error {
	s.matches++
	grown := size - s.size
	s.size = size
	switch {
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	case s.matches > maxMatches:
		return fault.New(fault.LimitExceeded, "more than %d matches: use a narrower pattern or a shorter text", maxMatches)
	case size > maxResult:
		return fault.New(fault.LimitExceeded, "the result is larger than %d bytes: use a narrower pattern or a shorter text", maxResult)
	}
	return s.Worked(perMatch + grown)
}

// found is one match as text.match answers it; a group that took no part is null.
type found struct {
	Match  string             `json:"match"`
	Groups []*string          `json:"groups"`
	Named  map[string]*string `json:"named"`
}

func newFound(re *regexp.Regexp, text string, indexes []int) found {
	f := found{Match: text[indexes[0]:indexes[1]], Groups: []*string{}, Named: map[string]*string{}}
	for i, name := range re.SubexpNames()[1:] {
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
	s, err := newSearch(ctx, *a.Pattern, *a.Text)
	if err != nil {
		return nil, err
	}
	defer s.end()
	// Each match is written at once: many small ones take several times their length where they are kept.
	out := []byte{'['}
	for indexes := range s.All() {
		one, err := marshal(newFound(s.Pattern.Regexp, s.Text, indexes))
		if err == nil {
			err = s.found(len(out) + len(one))
		}
		if err != nil {
			return nil, err
		}
		if !a.All {
			return one, nil
		}
		if s.matches > 1 {
			out = append(out, ',')
		}
		out = append(out, one...)
	}
	switch {
	case s.Err() != nil:
		return nil, s.Err()
	case !a.All:
		return []byte("null"), nil
	}
	return append(out, ']'), nil
}
