package files

import (
	"bytes"
	"cmp"
	"path"
	"strings"
)

// hit is a file with matches.
type hit struct {
	path        string
	count       int // matching lines
	definitions int // matching lines that define what the pattern matches, as far as they matter
	test        bool
}

// shown returns how many of the file's matches all pages together show; top is their limit, 0: none.
func (h *hit) shown(top int) int {
	if top == 0 {
		return h.count
	}
	return min(h.count, top)
}

// compareHits ranks files: those with a definition first, then those that are not tests, then those with more matching lines, then
// by path.
func compareHits(a, b hit) int {
	return cmp.Or(trueFirst(a.definitions > 0, b.definitions > 0), trueFirst(!a.test, !b.test), cmp.Compare(b.count, a.count),
		cmp.Compare(a.path, b.path))
}

// trueFirst orders true before false.
func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// definingWords are the keywords that precede the name that they define.
var definingWords = wordSet("class const def define enum fn fun func function impl interface let macro object procedure protocol " +
	"record struct sub trait type typedef union val var")

// proseExtensions are the extensions of files that define nothing, although their text may contain defining words.
var proseExtensions = wordSet(".adoc .csv .html .json .lock .log .markdown .md .po .rst .sum .svg .toml .txt .xml .yaml .yml")

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

func isProse(name string) bool { return proseExtensions[strings.ToLower(path.Ext(name))] }

// isDefinition reports whether a matching line defines the match: a defining word precedes the match or begins it, as in "func
// Name", "func (r *T) Name" or "class Name".
func isDefinition(text []byte, l line) bool {
	if l.matchEnd < l.end && isWord(text[l.matchEnd]) && l.matchEnd > l.matchStart && isWord(text[l.matchEnd-1]) {
		return false // the match is only the beginning of a longer name
	}
	before, match := text[l.start:l.matchStart], text[l.matchStart:l.matchEnd]
	trimmed := bytes.TrimRight(before, " \t*&")
	word := trimmed[len(bytes.TrimRightFunc(trimmed, isLowerLetter)):]
	switch {
	case len(trimmed) < len(before) && definingWords[string(word)]:
	case bytes.HasPrefix(before, []byte("func (")) && bytes.HasSuffix(trimmed, []byte(")")) && bytes.Count(before, []byte("(")) == 1:
	case beginsDefining(match) && (len(before) == 0 || !isWord(before[len(before)-1])):
	default:
		return false
	}
	return !isComment(bytes.TrimLeft(before, " \t"))
}

// beginsDefining reports whether a match is a defining word followed by a name.
func beginsDefining(match []byte) bool {
	word, name, _ := bytes.Cut(match, []byte(" "))
	return len(bytes.TrimSpace(name)) > 0 && definingWords[string(word)]
}

func isLowerLetter(r rune) bool { return r >= 'a' && r <= 'z' }

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// isComment reports whether the text before a match makes its line a comment.
func isComment(before []byte) bool {
	for _, mark := range [...]string{"//", "/*", "*", "--", "# "} {
		if bytes.HasPrefix(before, []byte(mark)) {
			return true
		}
	}
	return false
}

// testFolders contain tests and their data.
var testFolders = wordSet("__tests__ e2e fixtures spec specs test testdata testing tests")

// isTest reports whether a path looks like that of a test.
func isTest(name string) bool {
	folder, file := path.Split(name)
	for segment := range strings.SplitSeq(folder, "/") {
		if testFolders[segment] {
			return true
		}
	}
	stem := strings.TrimSuffix(file, path.Ext(file))
	lower := strings.ToLower(stem)
	return strings.HasPrefix(lower, "test_") || strings.HasSuffix(stem, "Test") || strings.HasSuffix(stem, "Tests") ||
		strings.HasSuffix(lower, "_test") || strings.HasSuffix(lower, ".test") ||
		strings.HasSuffix(lower, "_spec") || strings.HasSuffix(lower, ".spec")
}
