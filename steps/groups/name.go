package groups

import (
	"cmp"
	"regexp"
	"strings"
	"unicode"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// pathOf returns a function's path for groups and help.
func pathOf(e *steps.Entry) string { return cmp.Or(e.Spec().SessionPath, e.Spec().Path, e.Spec().Name) }

// name is a function's path, split.
type name struct {
	prefix string // everything before the action; "" if the name has no dot
	action string
}

func parseName(full string) name {
	dot := strings.LastIndexByte(full, '.')
	return name{full[:max(dot, 0)], full[dot+1:]}
}

func (n name) source() string {
	source, _, _ := strings.Cut(n.prefix, ".")
	return source
}

// short returns the resource without the source, or the source if there is no other resource.
func (n name) short() string { return n.prefix[strings.IndexByte(n.prefix, '.')+1:] }

// isComplete reports whether no part of a name is empty. A call cannot name a function with an empty part.
func isComplete(full string) bool {
	return full != "" && full[0] != '.' && full[len(full)-1] != '.' && !strings.Contains(full, "..")
}

// dotted joins a resource and an action, either of which may be "".
func dotted(resource, action string) string {
	if resource == "" || action == "" {
		return resource + action
	}
	return resource + "." + action
}

// foldPath returns the form in which dotted names are compared: without regard to case and the separators _ - /. Parts stay
// separate: device.type is not device_type.
func foldPath(path string) string {
	return strings.Map(func(c rune) rune {
		if c == '_' || c == '-' || c == '/' {
			return -1
		}
		return unicode.ToLower(c)
	}, path)
}

// isAtOrBelow reports whether path is resource or is below it.
func isAtOrBelow(path, resource string) bool {
	return strings.HasPrefix(path, resource) && (len(path) == len(resource) || path[len(resource)] == '.')
}

// containsSegments reports whether a resource, with a dot on each side, is a sequence of whole parts of path.
func containsSegments(path, dotted string) bool {
	return len(path)+2 >= len(dotted) && strings.Contains(dots(path), dotted)
}

func dots(path string) string { return "." + path + "." }

// entry is one of a group's Resources, compiled.
type entry struct {
	text           string
	pattern        *regexp.Regexp // matches the beginning of a name, to the end of a part; nil: text is not a pattern
	literals       int            // number of literal characters
	longestLiteral string         // the longest run of literals: every match contains it
	group, number  int            // the index of the group, and that of the entry in the group's Resources
}

func newEntry(text string) (entry, *fault.Error) {
	switch {
	case strings.TrimSpace(text) == "":
		return entry{}, fault.New(fault.BadRequest, "the name of a resource is empty")
	case strings.ContainsFunc(text, func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }), !isComplete(text):
		return entry{}, fault.New(fault.BadRequest,
			"%s is not the name of a resource: write parts with dots between them, as in device.interface",
			fault.Quote(text))
	}
	e := entry{text: text, literals: len(text) - strings.Count(text, "*") - strings.Count(text, "?")}
	if e.literals < len(text) {
		for _, run := range strings.FieldsFunc(text, func(c rune) bool { return c == '*' || c == '?' }) {
			if len(run) > len(e.longestLiteral) {
				e.longestLiteral = run
			}
		}
		// Lazy wildcards end as early as possible, so that repo.* covers as much as repo.issue.
		quoted := strings.NewReplacer(`\*`, `.*?`, `\?`, `.`).Replace(regexp.QuoteMeta(text))
		e.pattern = regexp.MustCompile(`^(?s:` + quoted + `)(?:\.|$)`)
	}
	return e, nil
}

// coverage returns how many bytes of a function's name, or of its path, the entry covers; 0 if it matches neither.
func (e *entry) coverage(function *steps.Entry) int {
	return max(e.coverageOf(function.Spec().Name), e.coverageOf(pathOf(function)))
}

// coverageOf returns how many bytes of a name the entry covers, from the beginning of the name to the end of the match; 0 if there is none.
// The match starts at the beginning of the name or after its source. Of two matches, the one that ends first counts.
func (e *entry) coverageOf(full string) int {
	reached := e.prefixEnd(full)
	if dot := strings.IndexByte(full, '.'); dot >= 0 {
		if n := e.prefixEnd(full[dot+1:]); n > 0 && (reached == 0 || dot+1+n < reached) {
			reached = dot + 1 + n
		}
	}
	return reached
}

// prefixEnd returns where a match at the beginning of full ends; 0 if there is none.
func (e *entry) prefixEnd(full string) int {
	switch {
	case e.pattern == nil && isAtOrBelow(full, e.text):
		return len(e.text)
	case e.pattern == nil, !strings.Contains(full, e.longestLiteral):
		return 0
	}
	match := e.pattern.FindStringIndex(full)
	switch {
	case match == nil:
		return 0
	case match[1] == len(full) && full[match[1]-1] != '.':
		return len(full)
	}
	return match[1] - 1 // without the dot that ends the match
}

// moreExact reports whether e, which covers n bytes of a name, is more exact than other, which covers m; false if they are equal.
func (e *entry) moreExact(n int, other *entry, m int) bool {
	switch {
	case n != m:
		return n > m
	case (e.pattern == nil) != (other.pattern == nil):
		return e.pattern == nil
	}
	return e.literals > other.literals
}

// maxNearest and maxListed bound the suggestions and the names that a fault lists.
const maxNearest, maxListed = 3, 20
