package files

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/onecall-mcp/onecall/fault"
)

// maxGlobBytes and maxAlternatives bound a pattern argument. Braces multiply: {a,b}{c,d} is four patterns, tried one by one.
const maxGlobBytes, maxAlternatives = 1000, 1000

// rule is one pattern with the meaning of a .gitignore line, shared by excludePatterns, pattern and glob. Without "/" it matches
// names at any depth, else the path from the rule's folder.
type rule struct {
	glob     string // a pattern that is neither literal nor suffix
	literal  string // a pattern without wildcards
	suffix   string // for "*" followed by plain text: that text, which may be empty
	negated  bool   // "!": includes a match again
	dirOnly  bool   // "/" at the end: folders only
	anchored bool   // holds "/" before its end: matched with the path, not with the name
}

// argumentRule parses a pattern argument, in which braces {a,b} are alternatives.
func argumentRule(argument, pattern string) (rule, error) {
	switch {
	case strings.Trim(pattern, "/") == "":
		return rule{}, badArgument(argument, "the pattern is empty")
	case pattern[0] == '!':
		return rule{}, badArgument(argument,
			`"!" does not negate here: excludePatterns leave files out; a name that begins with "!" is written "\\!"`)
	case len(pattern) > maxGlobBytes:
		return rule{}, badArgument(argument, "the pattern has %d bytes: at most %d", len(pattern), maxGlobBytes)
	case !doublestar.ValidatePattern(pattern):
		return rule{}, badArgument(argument,
			`%q is not a glob pattern: *, **, ?, [a-z] and {a,b} are known, and a backslash makes a character plain`, fault.Short(pattern))
	case alternatives(pattern) > maxAlternatives:
		return rule{}, badArgument(argument, "the braces of the pattern make more than %d patterns", maxAlternatives)
	}
	return newRule(pattern), nil
}

// alternatives returns the number of patterns that braces, including nested braces, expand to. The alternatives of a group add up,
// consecutive groups multiply. A group counts as at least two, because even a group of one alternative takes a step. The result is at
// most maxAlternatives+1, which stands for any larger number.
func alternatives(pattern string) int {
	type group struct{ ended, product int } // the alternatives before the last comma, and those of the text after it
	groups := []group{{product: 1}}         // the whole pattern, then the open groups
	for i := 0; i < len(pattern); i++ {
		current := &groups[len(groups)-1]
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '[': // braces and commas between brackets are literal
			for i++; i < len(pattern) && pattern[i] != ']'; i++ {
				if pattern[i] == '\\' {
					i++
				}
			}
		case c == '{':
			groups = append(groups, group{product: 1})
		case c == ',' && len(groups) > 1:
			*current = group{ended: current.ended + current.product, product: 1}
		case c == '}' && len(groups) > 1:
			count := max(2, current.ended+current.product)
			groups = groups[:len(groups)-1]
			outer := &groups[len(groups)-1]
			outer.product = min(outer.product*count, maxAlternatives+1)
		}
	}
	return groups[0].product
}

// newRule parses a pattern in doublestar's syntax, without a leading "!".
func newRule(pattern string) rule {
	var r rule
	if trimmed := strings.TrimSuffix(pattern, "/"); trimmed != pattern {
		r.dirOnly, pattern = true, trimmed
	}
	if strings.Contains(pattern, "/") {
		r.anchored = true
		if strings.HasSuffix(pattern, "/**") {
			pattern += "/*" // the folder's contents, not the folder itself
		}
		pattern = strings.TrimPrefix(pattern, "/")
	}
	const meta = `*?[]{}\`
	switch {
	case !strings.ContainsAny(pattern, meta):
		r.literal = pattern
	case !r.anchored && pattern[0] == '*' && !strings.ContainsAny(pattern[1:], meta):
		r.suffix = pattern[1:]
	default:
		r.glob = pattern
	}
	return r
}

// match reports whether the rule matches a file or folder; path is relative to the rule's folder and ends in name.
func (r *rule) match(path, name string, isDir bool) bool {
	if r.dirOnly && !isDir {
		return false
	}
	if !r.anchored {
		path = name
	}
	switch {
	case r.literal != "":
		return path == r.literal
	case r.glob != "":
		return doublestar.MatchUnvalidated(r.glob, path)
	}
	return strings.HasSuffix(path, r.suffix)
}

// filter selects entries according to the arguments of fs.find and fs.grep.
type filter struct {
	exclude []rule
	include *rule // the rule for files, which folders need not match; nil: all files
	hidden  bool
	ignored bool
}

func newFilter(exclude []string, hidden, ignored bool) (*filter, error) {
	f := &filter{hidden: hidden, ignored: ignored}
	for i, pattern := range exclude {
		r, err := argumentRule("excludePatterns", pattern)
		if err != nil {
			e, _ := fault.As(err)
			e.At = fault.Index(e.At, i)
			return nil, e
		}
		f.exclude = append(f.exclude, r)
	}
	return f, nil
}

// excluded reports whether excludePatterns match an entry; path is relative to the folder of the call.
func (f *filter) excluded(path, name string, isDir bool) bool {
	for i := range f.exclude {
		if f.exclude[i].match(path, name, isDir) {
			return true
		}
	}
	return false
}
