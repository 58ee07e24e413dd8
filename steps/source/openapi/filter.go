package openapi

import (
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// filter selects the operations that become functions: those that match a pattern of include (all if it is empty) and none of
// exclude. In a pattern, * matches any characters, including dots, and ? any one character; case does not matter. A pattern is
// compared with the name (device.list), with the operationId, and with the name including the path prefix that the name leaves out
// (dcim.device.list).
type filter struct{ include, exclude []string }

// check returns bad_request for an empty pattern; At is the pattern's position.
func (f *filter) check() error {
	for field, patterns := range map[string][]string{"include": f.include, "exclude": f.exclude} {
		for i, pattern := range patterns {
			if strings.TrimSpace(pattern) == "" {
				e := fault.New(fault.BadRequest, "an empty pattern matches nothing: write a pattern such as device.* or *.list")
				e.At = "/" + field + "/" + strconv.Itoa(i)
				return e
			}
		}
	}
	return nil
}

// accepts reports whether the filter selects an operation. It adds the patterns that match to used.
func (f *filter) accepts(o *operationName, used map[string]bool) bool {
	matches := func(patterns []string) bool {
		matched := false
		for _, pattern := range patterns {
			if glob(pattern, o.name) || o.area != "" && glob(pattern, o.area+"."+o.name) || o.id != "" && glob(pattern, o.id) {
				used[pattern] = true
				matched = true
			}
		}
		return matched
	}
	included := len(f.include) == 0 || matches(f.include)
	return !matches(f.exclude) && included
}

// unused lists the patterns that match no operation: most likely they are misspelled.
func (f *filter) unused(used map[string]bool) []string {
	var unused []string
	for _, patterns := range [][]string{f.include, f.exclude} {
		for _, pattern := range patterns {
			if !used[pattern] {
				unused = append(unused, pattern)
			}
		}
	}
	return unused
}

// glob matches in a time at most proportional to the product of the lengths, because it backtracks only to the last *.
func glob(pattern, text string) bool {
	pattern, text = strings.ToLower(pattern), strings.ToLower(text)
	// p and t are the positions in pattern and text. star is the position of the last *, -1 before the first; mark is where in text the
	// match of that * ends.
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
