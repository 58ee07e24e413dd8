package refs

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
)

// unexpected is the fault of a reference that goes on with something that is none of its parts.
func (p *referenceParser) unexpected() *fault.Error {
	if what := p.computation(); what != "" {
		return p.malformed(p.pos, "A reference cannot go on with %s. %s", what, computeElsewhere)
	}
	c, _ := utf8.DecodeRuneInString(p.text[p.pos:])
	return p.malformed(p.pos, "A reference cannot go on with %q here. Keys with such characters are quoted: $0[\"a key\"].", c)
}

// computeElsewhere is told where an expression stands in the place of a reference.
const computeElsewhere = "To compute, use select or an expr step: args and return take references only."

// computation names what makes an expression of a text in which a reference has ended; "" where it is none. A parser of
// plain names is for texts that may be expressions, so that there it has nothing to tell.
func (p *referenceParser) computation() string {
	if p.plain {
		return ""
	}
	rest := strings.TrimLeft(p.text[p.pos:], " \t\r\n")
	switch c := rest[:min(1, len(rest))]; c {
	case "+", "*", "%", "<", ">", "=", "&", "^":
		return "the operator " + c
	case "|":
		return "a pipe"
	case "?":
		return "a condition"
	case "!":
		if strings.HasPrefix(rest, "!=") {
			return "the operator !="
		}
	case "-", "/": // not in $HOME/bin and $100-$200
		if p.text[p.pos-1] == ']' || strings.HasPrefix(rest[1:], " ") {
			return "the operator " + c
		}
	case "\"", "'":
		if strings.LastIndexByte(p.text[:p.pos], '(') > strings.LastIndexByte(p.text[:p.pos], ')') {
			return "a call"
		}
		return "a text"
	}
	return ""
}

// Remedy says what to write instead of a use with a key that is not among available; "" if nothing is known.
func (u *Use) Remedy(available []string) string {
	r := Reference{root: u.Root, step: u.Step, segments: u.Path}
	for i := range u.Path {
		if remedy := r.remedy(i, available); remedy != "" {
			return remedy
		}
	}
	return ""
}

// IfThere spells a use whose path is not empty so that it is null if what it starts from is.
func (u *Use) IfThere() string {
	segments := slices.Clone(u.Path)
	segments[0].Optional = true
	return Reference{root: u.Root, step: u.Step, segments: segments}.String()
}

// remedy says what to write instead of a segment whose key is not there, if a part of it looks like a computation or a text.
func (r Reference) remedy(segment int, available []string) string {
	s := &r.segments[segment]
	word, rest, spaced := strings.Cut(s.Key, " ")
	switch {
	case s.Kind != Name:
		return ""
	case computes(s.Key):
		return computeElsewhere
	case spaced && slices.Contains(available, word):
		text, offsets := r.spell()
		return "For a value with a text behind it, write ${" + clip(text[:offsets[segment]]) + "." + clip(word) + "} " + clip(rest) + "."
	}
	return ""
}

// computes reports whether a key that is not there looks like a part of an expression, as names may hold the characters of
// some operators: `count - 1`, `trim()`.
func computes(key string) bool {
	return strings.HasSuffix(key, ")") && strings.Contains(key, "(") || strings.Contains(key, " - ") || strings.Contains(key, " / ")
}
