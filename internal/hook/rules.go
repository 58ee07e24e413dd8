// Package hook decides about calls of onecall's tools for hosts whose own rules see only the name of a tool. It looks at the functions
// that a chain calls, at any depth.
package hook

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/pattern"
)

// Decision is what a host does with a call. The zero value leaves it to the host's own rules.
type Decision string

// The decisions, weakest first.
const (
	Allow Decision = "allow"
	Ask   Decision = "ask"
	Deny  Decision = "deny"
)

// stronger reports whether d wins over another decision.
func (d Decision) stronger(than Decision) bool {
	rank := map[Decision]int{Allow: 1, Ask: 2, Deny: 3}
	return rank[d] > rank[than]
}

// Rules are patterns for the names of functions. Deny wins over Ask, and Ask over Allow. The decision for a function that matches no
// pattern is Ask.
type Rules struct {
	Allow, Ask, Deny []string

	// Sources are the sources of functions, which begin their full names.
	Sources []string
	// Renamed maps new full names of functions to the original ones, to which Ask and Deny still apply.
	Renamed map[string]string
}

// IsEmpty reports whether there are no rules.
func (r *Rules) IsEmpty() bool { return len(r.Allow)+len(r.Ask)+len(r.Deny) == 0 }

// restricts reports whether there are rules other than Allow.
func (r *Rules) restricts() bool { return len(r.Ask)+len(r.Deny) > 0 }

// judgeFunction decides about the function that a step names.
func (r *Rules) judgeFunction(name string) (Decision, string) {
	saved := strings.EqualFold(sourceOf(name), steps.ChainSource)
	match := func(patterns []string) string {
		return cmp.Or(firstMatch(patterns, name, steps.MatchesSpelling), firstMatch(patterns, r.originalName(name), steps.MatchesSpelling))
	}
	if p := match(r.Deny); p != "" {
		return Deny, "the rule " + p + " denies it"
	}
	if r.restricts() && !r.isQualified(name) {
		return Deny, "the rules need its whole name, SOURCE.FUNCTION, as search shows it"
	}
	if p := match(r.Ask); p != "" {
		return Ask, "the rule " + p + " asks"
	}
	for _, p := range r.Allow {
		if saved && r.restricts() && !strings.HasPrefix(p, steps.ChainSource+".") {
			continue // a pattern for other functions does not cover what a saved chain calls
		}
		if pattern.Matches(p, name) {
			return Allow, "the rule " + p + " allows it"
		}
	}
	return Ask, "no rule allows it"
}

// functionName matches the names that functions of servers have. A tool with another name is also found by that name (steps.Spec.OwnName).
var functionName = regexp.MustCompile(`^[A-Za-z0-9_-]+([./][A-Za-z0-9_-]+)*$`)

// isQualified reports whether a name begins with a source and is that of a function. A shorter one may mean several functions; a tool's own
// name, such as docs.ctx:get, means a function whose name, which rules have, is not known here.
func (r *Rules) isQualified(name string) bool {
	if _, renamed := r.Renamed[name]; renamed {
		return true
	}
	source := sourceOf(name)
	if !functionName.MatchString(name) && source != steps.ChainSource {
		return false
	}
	return slices.ContainsFunc(r.Sources, func(one string) bool { return source != "" && steps.FoldName(one) == steps.FoldName(source) })
}

// originalName returns the original name of a renamed function, or "".
func (r *Rules) originalName(name string) string {
	for now, original := range r.Renamed {
		if steps.FoldName(now) == steps.FoldName(name) {
			return original
		}
	}
	return ""
}

// sourceOf returns the part of a name before its first dot, or "".
func sourceOf(name string) string {
	source, _, dotted := strings.Cut(name, ".")
	if !dotted {
		return ""
	}
	return source
}

// firstMatch returns the first pattern that matches a name, or "".
func firstMatch(patterns []string, name string, matches func(pattern, name string) bool) string {
	for _, p := range patterns {
		if matches(p, name) {
			return p
		}
	}
	return ""
}

// matchesTail reports whether a name without its source could match a pattern. It also tries what follows each separator in the pattern.
func matchesTail(p, name string) bool {
	if steps.MatchesSpelling(p, name) {
		return true
	}
	for i, c := range p {
		if tail := p[i+1:]; strings.ContainsRune("._-/", c) && strings.Trim(tail, "*?") != "" && steps.MatchesSpelling(tail, name) {
			return true
		}
	}
	return false
}

// matchesAnyName reports whether a pattern may match every function of some source: git.*, or g*, which has no dot.
func matchesAnyName(p, _ string) bool {
	_, tail, dotted := strings.Cut(p, ".")
	if !dotted {
		return strings.ContainsAny(p, "*?")
	}
	return strings.Trim(tail, "*?") == ""
}
