package shape

import (
	"strings"
	"unicode"
)

// maxName is the length in bytes above which a name is data.
const maxName = 64

// isData reports whether the name of a member is data: an id, a number, a hash, an address, a date, a path, a phrase. A
// proper name consists of letters, digits, "_" and "-", may begin with "@", "$" or "#", and has no word that looks
// generated.
func isData(name string) bool {
	if len(name) > maxName {
		return true
	}
	plain := name
	if name != "" && strings.IndexByte("@$#", name[0]) >= 0 {
		plain = name[1:]
	}
	if plain == "" {
		return true
	}
	for _, r := range plain {
		if r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			return true
		}
	}
	for word := range strings.FieldsFuncSeq(plain, func(r rune) bool { return r == '_' || r == '-' }) {
		if isGenerated(word) {
			return true
		}
	}
	return strings.Trim(plain, "0123456789_-") == ""
}

// isGenerated reports whether a word of letters and digits looks like part of an id: four digits in a row, mostly digits,
// capitals with digits, more than three changes between letters and digits, or eight hexadecimal digits.
func isGenerated(word string) bool {
	digits, longest, run, changes, lower, hex := 0, 0, 0, 0, false, true
	before := ' '
	for _, r := range word {
		isDigit := unicode.IsDigit(r)
		if before != ' ' && isDigit != unicode.IsDigit(before) {
			changes++
		}
		if isDigit {
			digits++
			run++
			longest = max(longest, run)
		} else {
			run = 0
			lower = lower || unicode.IsLower(r)
			hex = hex && strings.ContainsRune("abcdefABCDEF", r)
		}
		before = r
	}
	letters := len(word) - digits
	switch {
	case digits == 0:
		return false
	case longest >= 4, changes > 3:
		return true
	case hex && len(word) >= 8:
		return true
	case len(word) >= 4 && digits > letters:
		return true
	}
	return !lower && digits >= 3 && letters > 0
}
