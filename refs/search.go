package refs

import (
	"io"
	"iter"
	"regexp"
	"strings"
	"unicode/utf8"
)

// heavySearch is the work after which Heavy is called, in characters × weight of the pattern: about 10 ms.
const heavySearch = 1 << 20

// Search finds the matches of a pattern in a text. It calls Heavy about every 10 ms of work, so that only long searches wait for
// admission. An error of Heavy ends the search, even within a match. One match takes RE2 time in proportion to text × pattern at
// worst; all matches may take time in proportion to the square of the text, as with `x.*y|x`. Only one goroutine may use a Search
// at a time.
type Search struct {
	Pattern *Pattern
	Text    string
	Heavy   func() error

	estimatedWork int    // upper bound of the work of short searches, which CountWork does not count
	uncheckedWork int    // the work since the last call of Heavy
	weight        int    // the weight of the current search
	rest          string // what ReadRune has yet to read
	err           error
}

// Err returns the error of Heavy that ended the search, or the error of a pattern that is nested too deeply for repeated searches.
func (s *Search) Err() error { return s.err }

// All yields the indexes of every match and its groups, as FindAllStringSubmatchIndex does: an empty match right after
// another match is ignored. If the search ended early, Err returns an error.
func (s *Search) All() iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		for from, previousEnd := 0, -1; from <= len(s.Text); {
			match := s.matchFrom(from)
			if match == nil {
				return
			}
			start, end := match[0], match[1]
			empty := start == end
			if after := empty && start == previousEnd; !after && !yield(match) {
				return
			}
			previousEnd = end
			if end > from {
				from = end
			} else {
				_, width := utf8.DecodeRuneInString(s.Text[from:])
				from += max(width, 1)
			}
		}
	}
}

// matches reports whether there is a match.
func (s *Search) matches() bool {
	s.weight = s.Pattern.size
	if work := s.weight * (len(s.Text) + 1); work <= heavySearch {
		return s.Pattern.MatchString(s.Text)
	}
	s.rest = s.Text
	matched := s.Pattern.MatchReader(runes{s})
	return matched && s.err == nil
}

// matchFrom finds the first match that begins at from or later; nil: there is none, or the search was ended.
func (s *Search) matchFrom(from int) []int {
	if prefix, _ := s.Pattern.LiteralPrefix(); prefix != "" {
		at := strings.Index(s.Text[from:], prefix)
		if at < 0 {
			return nil
		}
		from += at
	}
	base, re, skip := from, s.Pattern.Regexp, 0
	if from > 0 && s.Pattern.looksBack {
		var err error
		if re, err = s.Pattern.inside(); err != nil {
			s.err = patternFault(err)
			return nil
		}
		// ^ and \b must see the character before from, so the search begins with it. Group 1 of this expression is the match: skip
		// drops the two indexes of group 0.
		_, width := utf8.DecodeLastRuneInString(s.Text[:from])
		base, skip = from-width, 2
	}
	match := s.find(re, s.Text[base:])
	if match == nil || s.err != nil {
		return nil
	}
	match = match[skip:]
	for i := range match {
		if match[i] >= 0 {
			match[i] += base
		}
	}
	return match
}

// find finds the first match of re. A long text is read character by character, so that the work is known and the search
// can be stopped.
func (s *Search) find(re *regexp.Regexp, text string) []int {
	s.weight = s.Pattern.weight
	if work := s.weight * (len(text) + 1); s.estimatedWork+work <= heavySearch {
		s.estimatedWork += work
		return re.FindStringSubmatchIndex(text)
	}
	s.rest = text
	return re.FindReaderSubmatchIndex(runes{s})
}

// runes reads the text of a search for its regular expression (io.RuneReader). It ends early when the search is ended.
type runes struct{ *Search }

// ReadRune implements io.RuneReader.
func (s runes) ReadRune() (r rune, size int, err error) {
	if s.CountWork(s.weight) != nil || s.rest == "" {
		return 0, 0, io.EOF
	}
	r, size = utf8.DecodeRuneInString(s.rest)
	s.rest = s.rest[size:]
	return r, size, nil
}

// CountWork adds work between matches, in units of about 10 ns. It returns Err.
func (s *Search) CountWork(n int) error {
	if s.uncheckedWork += n; s.uncheckedWork >= heavySearch && s.err == nil {
		s.uncheckedWork = 0
		s.err = s.Heavy()
	}
	return s.err
}
