package bpe

import (
	"unicode"
	"unicode/utf8"
)

// The encoding cuts a text into pieces by the leftmost match of this expression, and no token crosses a cut:
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	|\p{N}{1,3}
//	| ?[^\s\p{L}\p{N}]+[\r\n/]*
//	|\s*[\r\n]+
//	|\s+(?!\S)
//	|\s+
//
// Below it is written out by hand: every alternative's backtracking ends after one step back, so one look at each
// character is enough.

// class is the class of a character in the expression, as one bit.
type class uint8

const (
	other    class = 1 << iota // punctuation, symbols, controls, unassigned characters, invalid UTF-8
	upper                      // \p{Lu} \p{Lt}
	lower                      // \p{Ll}
	caseless                   // \p{Lm} \p{Lo}
	mark                       // \p{M}: in a word like a letter, elsewhere a symbol
	number                     // \p{N}
	space                      // \s without line ends
	line                       // [\r\n]

	head   = upper | caseless | mark         // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	tail   = lower | caseless | mark         // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
	letter = upper | lower | caseless | mark // the characters of words
	symbol = other | mark                    // [^\s\p{L}\p{N}]
	blank  = space | line                    // \s
)

// categories maps tables of characters to classes. The tables are disjoint, and a character in none of them is `other`.
var categories = []struct {
	class class
	table *unicode.RangeTable
}{
	{upper, unicode.Lu}, {upper, unicode.Lt}, {lower, unicode.Ll}, {caseless, unicode.Lm}, {caseless, unicode.Lo},
	{mark, unicode.M}, {number, unicode.N}, {space, unicode.White_Space},
}

// classes holds the class of every character of the first two planes. Other characters are looked up in categories.
type classes [0x20000]class

func newClasses() *classes {
	c := new(classes)
	for r := range c {
		c[r] = other
	}
	for _, k := range categories {
		for _, r := range k.table.R16 {
			c.fill(k.class, uint32(r.Lo), uint32(r.Hi), uint32(r.Stride))
		}
		for _, r := range k.table.R32 {
			c.fill(k.class, r.Lo, r.Hi, r.Stride)
		}
	}
	c['\r'], c['\n'] = line, line
	return c
}

func (c *classes) fill(k class, low, high, stride uint32) {
	for r := low; r <= high && r < uint32(len(c)); r += stride {
		c[r] = k
	}
}

// at returns the class and the length in bytes of the character at i.
func (c *classes) at(text []byte, i int) (class, int) {
	if b := text[i]; b < utf8.RuneSelf {
		return c[b], 1
	}
	return c.wide(text[i:])
}

func (c *classes) wide(text []byte) (class, int) {
	r, n := utf8.DecodeRune(text)
	if int(r) < len(c) {
		return c[r], n
	}
	for _, k := range categories {
		if unicode.Is(k.table, r) {
			return k.class, n
		}
	}
	return other, n
}

// run returns the end of the run of characters of classes k that begins at i.
func (c *classes) run(text []byte, i int, k class) int {
	for i < len(text) {
		x, n := c.at(text, i)
		if x&k == 0 {
			break
		}
		i += n
	}
	return i
}

// next returns the length of the first piece of text, which must not be empty.
func (c *classes) next(text []byte) int {
	first, n := c.at(text, 0)
	var second class // 0 at the end of the text
	if n < len(text) {
		second, _ = c.at(text, n)
	}
	switch {
	case first == number:
		return c.digits(text, n)
	case first&(upper|lower|caseless) != 0:
		end, _ := c.word(text, 0)
		return contraction(text, end)
	case first == mark:
		// A mark may precede a word that has a tail; otherwise it is a piece of its own.
		if second&letter != 0 {
			if end, whole := c.word(text, n); whole {
				return contraction(text, end)
			}
		}
		return contraction(text, n)
	case first != line && second&letter != 0: // one symbol or space before a word
		end, _ := c.word(text, n)
		return contraction(text, end)
	case first == other:
		return c.symbols(text, n)
	case text[0] == ' ' && second == other:
		return c.symbols(text, n)
	default:
		return c.blanks(text)
	}
}

// word returns the end of the word that begins at i: characters of head, then characters of tail. If no lower-case letter follows the
// characters of head, the word ends after the last of them that is also in tail, and whole is still true. If none of them is, the word is
// all of them, and whole is false.
func (c *classes) word(text []byte, i int) (end int, whole bool) {
	for i < len(text) {
		x, n := c.at(text, i)
		if x == lower {
			return c.run(text, i+n, tail), true
		}
		if x&head == 0 {
			break
		}
		i += n
		if x&tail != 0 {
			end = i
		}
	}
	if end > 0 {
		return end, true
	}
	return i, false
}

// contraction returns the end of (?i:'s|'t|'re|'ve|'m|'ll|'d) at i, or i if there is none.
func contraction(text []byte, i int) int {
	if i+1 >= len(text) || text[i] != '\'' {
		return i
	}
	var third byte
	if i+2 < len(text) {
		third = text[i+2]
	}
	switch second := text[i+1]; {
	case isLetter(second, 's'), isLetter(second, 't'), isLetter(second, 'm'), isLetter(second, 'd'):
		return i + 2
	case isLetter(second, 'r') && isLetter(third, 'e'), isLetter(second, 'v') && isLetter(third, 'e'),
		isLetter(second, 'l') && isLetter(third, 'l'):
		return i + 3
	case second == 0xC5 && third == 0xBF: // ſ, the long s, which folds to s
		return i + 3
	}
	return i
}

// isLetter reports whether b is the letter l in lower or upper case.
func isLetter(b, l byte) bool { return b|0x20 == l }

// digits returns the end of at most three numbers, the first of which ends at i.
func (c *classes) digits(text []byte, i int) int {
	for range 2 {
		if i == len(text) {
			break
		}
		x, n := c.at(text, i)
		if x != number {
			break
		}
		i += n
	}
	return i
}

// symbols returns the end of the symbols at i and of the line ends and slashes after them.
func (c *classes) symbols(text []byte, i int) int {
	i = c.run(text, i, symbol)
	for i < len(text) && (text[i] == '\n' || text[i] == '\r' || text[i] == '/') {
		i++
	}
	return i
}

// blanks returns the end of the white space at the beginning of text. It ends after the last line end, if there is one. Otherwise it
// leaves the last character to the next piece, unless nothing follows or it is the only one.
func (c *classes) blanks(text []byte) int {
	i, last, lines := 0, 0, 0
	for i < len(text) {
		x, n := c.at(text, i)
		if x&blank == 0 {
			break
		}
		last = i
		i += n
		if x == line {
			lines = i
		}
	}
	switch {
	case lines > 0:
		return lines
	case i == len(text) || last == 0:
		return i
	}
	return last
}
