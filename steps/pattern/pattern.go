// Package pattern matches the names of functions against the patterns of configurations and rights. A * matches any number of characters,
// dots included; a ? matches one.
package pattern

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
)

// Matches reports whether a name matches a pattern. It allocates nothing. Its time is at most proportional to the product of both lengths.
func Matches(pattern, name string) bool { return MatchesOf(pattern, name, nil) }

// MatchesOf is Matches with * and ? for characters that are allowed; nil: all are.
func MatchesOf(pattern, name string, allowed func(rune) bool) bool {
	fits := func(n int) bool {
		c, _ := utf8.DecodeRuneInString(name[n:])
		return allowed == nil || allowed(c)
	}
	star, rest := -1, 0 // the last * so far, and the index in name after the text that it matches
	for p, n := 0, 0; ; {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, rest = p, n
			p++
		case n == len(name):
			return p == len(pattern)
		case p < len(pattern) && pattern[p] == '?' && fits(n):
			p, n = p+1, n+character(name[n:])
		case p < len(pattern) && pattern[p] == name[n]:
			p, n = p+1, n+1
		case star >= 0 && fits(rest): // retry only the last *: the match before it stands
			rest += character(name[rest:])
			p, n = star+1, rest
		default:
			return false
		}
	}
}

func character(text string) (bytes int) {
	_, bytes = utf8.DecodeRuneInString(text)
	return bytes
}

// CouldMatch reports whether the pattern matches any name that is longer than prefix and begins with it. The characters before the
// pattern's first * must agree with prefix, and some of the pattern must be left for the rest of the name.
func CouldMatch(pattern, prefix string) bool {
	head, _, open := strings.Cut(pattern, "*")
	maximum, length := utf8.RuneCountInString(head), utf8.RuneCountInString(prefix)
	both := min(maximum, length)
	return (open || maximum > length) && Matches(firstRunes(head, both), firstRunes(prefix, both))
}

// firstRunes returns the first n characters of a text.
func firstRunes(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// maxLength bounds a pattern in bytes: no function's name is longer.
const maxLength = 256

// Check returns bad_request for a pattern that no name can match.
func Check(pattern string) *fault.Error {
	unfit := func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }
	switch {
	case pattern == "":
		return fault.New(fault.BadRequest, "a pattern of function names is empty: write * for all functions")
	case len(pattern) > maxLength:
		return fault.New(fault.BadRequest, "a pattern of function names is longer than %d bytes: no name is", maxLength)
	case !utf8.ValidString(pattern) || strings.ContainsFunc(pattern, unfit):
		return fault.New(fault.BadRequest, "the pattern %q holds blanks or control characters, which no function's name has: write one pattern "+
			"an entry", pattern)
	}
	return nil
}
