package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
)

// maxWord bounds a word in bytes; longer words are ignored.
const maxWord = 64

// split yields the words of a text in lower case, until yield returns false. A word ends at every character that is neither
// a letter nor a digit; in scripts without blanks, each character is a word. In an identifier a word also ends at a change
// from lower to upper case (listPulls), before the last capital of three or more (HTTPServer, but OAuth and URLs), and
// after digits before a longer run of letters (s3bucket, but k8s).
func split(text string, identifier bool, yield func(word string) bool) {
	start, at := 0, 0 // the bounds of the current word
	var before, last rune
	end := func() bool {
		word := text[start:at]
		before, last = 0, 0
		return word == "" || len(word) > maxWord || yield(strings.ToLower(word))
	}
	for at < len(text) {
		c, size := utf8.DecodeRuneInString(text[at:])
		switch {
		case !isWord(c):
			if !end() {
				return
			}
			start = at + size
		case isUnspaced(c):
			if !end() || !yield(text[at:at+size]) {
				return
			}
			start = at + size
		default:
			if identifier && last != 0 && startsWord(before, last, c, text[at+size:]) {
				if !end() {
					return
				}
				start = at
			}
			before, last = last, c
		}
		at += size
	}
	end()
}

func isWord(c rune) bool {
	if c < utf8.RuneSelf {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
	}
	return c != utf8.RuneError && (unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.IsMark(c))
}

// isUnspaced reports whether c belongs to a script without blanks between words.
func isUnspaced(c rune) bool {
	return c >= 0x0e00 && unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer,
		unicode.Myanmar)
}

// startsWord reports whether a new word of an identifier begins at c. before and last are the two characters that precede c in the
// current word, 0 if there are none; rest follows c.
func startsWord(before, last, c rune, rest string) bool {
	next, size := utf8.DecodeRuneInString(rest)
	afterNext, _ := utf8.DecodeRuneInString(rest[size:])
	switch {
	case unicode.IsUpper(c) && unicode.IsUpper(last):
		isPlural := next == 's' && !unicode.IsLower(afterNext)
		return unicode.IsUpper(before) && unicode.IsLower(next) && !isPlural
	case unicode.IsUpper(c):
		return true
	case unicode.IsDigit(last) && unicode.IsLower(c):
		return unicode.IsLower(next) && unicode.IsLower(afterNext)
	}
	return false
}

// stem returns the common stem of the forms of an English word: plural, -ing, -ed and the like (Porter2). word is in lower
// case.
func stem(word string) string {
	if len(word) < 3 || word[0] >= utf8.RuneSelf {
		return word
	}
	return english.Stem(word, false)
}

// expandAbbreviation returns the word that an abbreviation stands for, and any other word unchanged.
func expandAbbreviation(word string) string {
	if long := abbreviations[word]; long != "" {
		return long
	}
	return word
}
