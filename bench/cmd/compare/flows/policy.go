package flows

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
)

// maxPolicyLines bounds a policy.
const maxPolicyLines = 60

// policy returns the policy of a suite, a part of a configuration: the one that is committed, or else what the tools file says in the same
// form.
func (s *suite) policy(b *harness.Bench) []byte {
	text, ok := readPolicy(b.Root, s.name)
	if !ok {
		text = s.makePolicy()
	}
	lines := strings.Count(string(text), "\n")
	harness.FailIf(lines > maxPolicyLines, "the policy has %d lines, more than %d", lines, maxPolicyLines)
	return text
}

// makePolicy returns a policy of what was said of the tools by hand: what outsiders can write has a label, and arguments that say where and
// which have roles.
func (s *suite) makePolicy() []byte {
	var b strings.Builder
	b.WriteString("functions:\n")
	for _, t := range s.tools {
		var gives, takes []string
		for _, text := range t.OutsiderText {
			gives = append(gives, fmt.Sprintf("%q: [outsider]", "$result"+strings.TrimPrefix(text.Path, "$")))
		}
		for _, role := range []string{"where", "which"} {
			for _, argument := range t.Roles[role] {
				takes = append(takes, argument+": "+role)
			}
		}
		var settings []string
		if len(gives) > 0 {
			settings = append(settings, "gives: {"+strings.Join(gives, ", ")+"}")
		}
		if len(takes) > 0 {
			slices.Sort(takes)
			settings = append(settings, "takes: {"+strings.Join(takes, ", ")+"}")
		}
		if len(settings) > 0 {
			fmt.Fprintf(&b, "  %s.%s: {%s}\n", s.name, t.Name, strings.Join(settings, ", "))
		}
	}
	b.WriteString("flows:\n  rules:\n")
	for _, to := range []string{"where", "which"} {
		for _, through := range []string{"chain", "model"} {
			fmt.Fprintf(&b, "    - {from: outsider, to: %s, do: approve, through: %s}\n", to, through)
		}
	}
	return []byte(b.String())
}
