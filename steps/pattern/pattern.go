// Package pattern matches names of functions with the patterns of configurations and rights. Each * of a pattern stands for any
// characters, dots included, or none, and each ? for one.
package pattern

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
)

// Fits reports whether a name fits a pattern. It takes no memory, and at most the product of both lengths in time.
func Fits(pattern, name string) bool {
	star, rest := -1, 0 // the last * so far, and what of the name comes after that which it stands for
	for p, n := 0, 0; ; {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, rest = p, n
			p++
		case n == len(name):
			return p == len(pattern)
		case p < len(pattern) && pattern[p] == '?':
			p, n = p+1, n+character(name[n:])
		case p < len(pattern) && pattern[p] == name[n]:
			p, n = p+1, n+1
		case star >= 0: // only the last * needs to be tried again: what fits before it stays fitting
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

// CouldFit reports whether the pattern fits any name that begins with prefix and is longer: where they both have
// characters before the pattern's first *, they must agree, and there must be pattern left for the rest of the name.
func CouldFit(pattern, prefix string) bool {
	head, _, open := strings.Cut(pattern, "*")
	maximum, length := utf8.RuneCountInString(head), utf8.RuneCountInString(prefix)
	both := min(maximum, length)
	return (open || maximum > length) && Fits(firstRunes(head, both), firstRunes(prefix, both))
}

// firstRunes is the first n characters of a text.
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

// Check refuses a pattern that no name can fit: bad_request.
func Check(pattern string) *fault.Error {
	unfit := func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }
	switch {
	case pattern == "":
		return fault.New(fault.BadRequest, "a pattern of function names is empty: write * where all functions are meant")
	case len(pattern) > maxLength:
		return fault.New(fault.BadRequest, "a pattern of function names is longer than %d bytes: no name is", maxLength)
	case !utf8.ValidString(pattern) || strings.ContainsFunc(pattern, unfit):
		return fault.New(fault.BadRequest, "the pattern %q holds blanks or control characters, which no function's name has: write one pattern "+
			"an entry", pattern)
	}
	return nil
}
