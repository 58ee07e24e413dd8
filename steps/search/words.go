package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
)

// maxWord bounds a word in bytes: nobody looks for what is longer.
const maxWord = 64

// split gives the words of a text in lower case, until yield says stop. A word ends at every character that is neither
// a letter nor a digit; in scripts that are written without blanks, each character is a word. In an identifier a word
// also ends where lower case turns into upper (listPulls), before the last capital of a row of three and more
// (HTTPServer, but OAuth and URLs), and after digits that a longer row of letters follows (s3bucket, but k8s).
func split(text string, identifier bool, yield func(word string) bool) {
	start, at := 0, 0 // of the word that is being read
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
		case isAlone(c):
			if !end() || !yield(text[at:at+size]) {
				return
			}
			start = at + size
		default:
			if identifier && last != 0 && breaks(before, last, c, text[at+size:]) {
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

// isAlone tells of characters of scripts that are written without blanks.
func isAlone(c rune) bool {
	return c >= 0x0e00 && unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// breaks reports whether a new word of an identifier begins at c. before and last stand before it in the same row of
// letters and digits, rest follows it.
func breaks(before, last, c rune, rest string) bool {
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

// stem brings the forms of an English word together: plural, -ing, -ed and the like (Porter2). word is in lower case.
func stem(word string) string {
	if len(word) < 3 || word[0] >= utf8.RuneSelf {
		return word
	}
	return english.Stem(word, false)
}

// long is the word that an abbreviation stands for, and any other word as it is.
func long(word string) string {
	if long := abbreviations[word]; long != "" {
		return long
	}
	return word
}
