// Package hook judges calls of onecall's tools for hosts whose own rules see a tool's name alone: by the functions that a chain names,
// however deep in it.
package hook

import (
	"cmp"
	"strings"

	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/pattern"
)

// Decision is what a host does with a call. The zero value leaves it to the host's own rules.
type Decision string

// The decisions, the weakest first.
const (
	Allow Decision = "allow"
	Ask   Decision = "ask"
	Deny  Decision = "deny"
)

// stronger reports whether a decision wins over another.
func (d Decision) stronger(than Decision) bool {
	rank := map[Decision]int{Allow: 1, Ask: 2, Deny: 3}
	return rank[d] > rank[than]
}

// Rules are patterns of functions' names. Deny wins over ask, and ask over allow; what no pattern fits is asked about.
type Rules struct {
	Allow, Ask, Deny []string

	// Sources are the names with which whole names of functions begin.
	Sources []string
	// Renamed are further whole names, each with the one that the function had: what is asked about or denied by that stays so.
	Renamed map[string]string
}

// None reports that there are no rules.
func (r *Rules) None() bool { return len(r.Allow)+len(r.Ask)+len(r.Deny) == 0 }

// guards reports whether there is more than what is allowed.
func (r *Rules) guards() bool { return len(r.Ask)+len(r.Deny) > 0 }

// function judges a call of the function that a step names.
func (r *Rules) function(name string) (Decision, string) {
	saved := strings.EqualFold(sourceOf(name), steps.ChainSource)
	guarded := func(patterns []string) string {
		return cmp.Or(first(patterns, name, fits), first(patterns, r.before(name), fits))
	}
	if p := guarded(r.Deny); p != "" {
		return Deny, "the rule " + p + " denies it"
	}
	if r.guards() && !r.whole(name) {
		return Deny, "the rules need its whole name, SOURCE.FUNCTION, as search shows it"
	}
	if p := guarded(r.Ask); p != "" {
		return Ask, "the rule " + p + " asks"
	}
	for _, p := range r.Allow {
		if saved && r.guards() && !strings.HasPrefix(p, steps.ChainSource+".") {
			continue // a pattern that is not meant for saved chains says nothing of what one calls
		}
		if pattern.Fits(p, name) {
			return Allow, "the rule " + p + " allows it"
		}
	}
	return Ask, "no rule allows it"
}

// whole reports whether a name is that of a function with its source: a shorter one may mean any of several.
func (r *Rules) whole(name string) bool {
	source := sourceOf(name)
	for _, one := range r.Sources {
		if source != "" && steps.FoldName(one) == steps.FoldName(source) {
			return true
		}
	}
	_, renamed := r.Renamed[name]
	return renamed
}

// before is the name that a function had which was renamed; "": it has its own.
func (r *Rules) before(name string) string {
	for now, before := range r.Renamed {
		if steps.FoldName(now) == steps.FoldName(name) {
			return before
		}
	}
	return ""
}

// sourceOf is what stands before a name's first dot; "": there is none.
func sourceOf(name string) string {
	source, _, dotted := strings.Cut(name, ".")
	if !dotted {
		return ""
	}
	return source
}

func first(patterns []string, name string, fit func(pattern, name string) bool) string {
	for _, p := range patterns {
		if fit(p, name) {
			return p
		}
	}
	return ""
}

// fits reports whether a name fits a pattern in any spelling by which a function is found.
func fits(p, name string) bool {
	folded := strings.ReplaceAll(steps.FoldName(p), "?", "*") // a ? may stand for a separator, which is gone
	return pattern.Fits(p, name) || pattern.Fits(folded, steps.FoldName(name))
}

// endFits reports whether a name without its source could fit a pattern: by what a pattern says behind one of its separators.
func endFits(p, name string) bool {
	if fits(p, name) {
		return true
	}
	for i, c := range p {
		if tail := p[i+1:]; strings.ContainsRune("._-/", c) && strings.Trim(tail, "*?") != "" && fits(tail, name) {
			return true
		}
	}
	return false
}

// ofAnyName reports whether a pattern is for functions whatever their names behind that of the source.
func ofAnyName(p, _ string) bool {
	_, tail, dotted := strings.Cut(p, ".")
	if !dotted {
		return strings.ContainsAny(p, "*?")
	}
	return strings.Trim(tail, "*?") == ""
}
