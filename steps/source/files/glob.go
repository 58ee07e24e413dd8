package files

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/onecall-mcp/onecall/fault"
)

// maxGlobBytes and maxAlternatives bound a pattern given as an argument: braces multiply, {a,b}{c,d} being four
// patterns that are tried one after the other.
const maxGlobBytes, maxAlternatives = 1000, 1000

// rule is one pattern with the meaning of a .gitignore line, which excludePatterns, pattern and glob share: without "/"
// it is matched with names at any depth, else with the path from the folder that the rule belongs to.
type rule struct {
	glob     string // what literal and suffix do not say
	literal  string // the whole of a pattern without wildcards
	suffix   string // of a pattern that is "*" and plain text
	negated  bool   // "!": what matches is let in again
	dirOnly  bool   // "/" at the end: folders only
	anchored bool   // holds "/" before its end: matched with the path, not with the name
}

// argumentRule reads a pattern given as an argument; braces {a,b} are alternatives there.
func argumentRule(argument, pattern string) (rule, error) {
	switch {
	case strings.Trim(pattern, "/") == "":
		return rule{}, badArgument(argument, "the pattern is empty")
	case pattern[0] == '!':
		return rule{}, badArgument(argument, `"!" does not negate here: excludePatterns leave files out; a name that begins with "!" is written "\\!"`)
	case len(pattern) > maxGlobBytes:
		return rule{}, badArgument(argument, "the pattern has %d bytes: at most %d", len(pattern), maxGlobBytes)
	case !doublestar.ValidatePattern(pattern):
		return rule{}, badArgument(argument, `%q is not a glob pattern: *, **, ?, [a-z] and {a,b} are known, and a backslash makes a character plain`, shorten(pattern))
	case alternatives(pattern) > maxAlternatives:
		return rule{}, badArgument(argument, "the braces of the pattern make more than %d patterns", maxAlternatives)
	}
	return newRule(pattern), nil
}

// alternatives is the number of patterns that braces stand for, braces inside of braces included: the alternatives of a
// group add up, groups that follow each other multiply. A group counts as two at least, for the step that it takes.
func alternatives(pattern string) int {
	type group struct{ ended, product int } // alternatives before the last comma, and of what is read since
	groups := []group{{product: 1}}         // the whole pattern, then the groups that are open
	for i := 0; i < len(pattern); i++ {
		in := &groups[len(groups)-1]
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '[': // what brackets hold is plain
			for i++; i < len(pattern) && pattern[i] != ']'; i++ {
				if pattern[i] == '\\' {
					i++
				}
			}
		case c == '{':
			groups = append(groups, group{product: 1})
		case c == ',' && len(groups) > 1:
			*in = group{ended: in.ended + in.product, product: 1}
		case c == '}' && len(groups) > 1:
			count := max(2, in.ended+in.product)
			groups = groups[:len(groups)-1]
			around := &groups[len(groups)-1]
			around.product = min(around.product*count, maxAlternatives+1)
		}
	}
	return groups[0].product
}

// newRule reads a pattern in doublestar's syntax, without a leading "!".
func newRule(pattern string) rule {
	var r rule
	if trimmed := strings.TrimSuffix(pattern, "/"); trimmed != pattern {
		r.dirOnly, pattern = true, trimmed
	}
	if strings.Contains(pattern, "/") {
		r.anchored = true
		if strings.HasSuffix(pattern, "/**") {
			pattern += "/*" // what lies in the folder, not the folder itself
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

// match reports whether the rule names a file or folder; path is relative to the rule's folder and ends in name.
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

// filter is what the arguments of fs.find and fs.grep let through.
type filter struct {
	exclude []rule
	include *rule // of files only; nil: all
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

// excluded reports whether excludePatterns name an entry; path is relative to the folder of the call.
func (f *filter) excluded(path, name string, isDir bool) bool {
	for i := range f.exclude {
		if f.exclude[i].match(path, name, isDir) {
			return true
		}
	}
	return false
}
