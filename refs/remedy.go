package refs

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
)

// unexpectedFault returns the fault of a reference followed by something that cannot continue it.
func (p *referenceParser) unexpectedFault() *fault.Error {
	if computation := p.computation(); computation != "" {
		return p.malformed(p.pos, "A reference cannot go on with %s. %s", computation, computeRemedy)
	}
	c, _ := utf8.DecodeRuneInString(p.text[p.pos:])
	return p.malformed(p.pos, "A reference cannot go on with %q here. Keys with such characters are quoted: $0[\"a key\"].", c)
}

// computeRemedy is the remedy for an expression in place of a reference.
const computeRemedy = "To compute, use select or an expr step: args and return take references only."

// computation returns what makes a text an expression after its reference has ended; "" if nothing does. A parser with
// plain names is for texts that may be expressions, so there it returns "".
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

// Remedy says what to write instead of a use of a missing key. available are the existing keys. It returns "" if it knows no remedy.
func (u *Use) Remedy(available []string) string {
	r := Reference{root: u.Root, step: u.Step, segments: u.Path}
	for i := range u.Path {
		if remedy := r.remedy(i, available); remedy != "" {
			return remedy
		}
	}
	return ""
}

// Optional returns the use spelled so that it is null if its root, or an element of the arrays that its path begins with, is null or lacks
// the rest. Its path must not be empty.
func (u *Use) Optional() string {
	segments := slices.Clone(u.Path)
	first := slices.IndexFunc(segments, func(s Segment) bool { return s.Kind != Each && s.Kind != Flat })
	segments[max(first, 0)].Optional = true
	return Reference{root: u.Root, step: u.Step, segments: segments}.String()
}

// Member returns the use spelled so that it selects a member of its value.
func (u *Use) Member(name string) string {
	return Reference{root: u.Root, step: u.Step, segments: append(slices.Clone(u.Path), Segment{Kind: Name, Key: name})}.String()
}

// remedy says what to write instead of a segment with a missing key, if part of it looks like a computation or a text; else "".
func (r Reference) remedy(segment int, available []string) string {
	s := &r.segments[segment]
	word, rest, spaced := strings.Cut(s.Key, " ")
	switch {
	case s.Kind != Name:
		return ""
	case looksComputed(s.Key):
		return computeRemedy
	case spaced && slices.Contains(available, word):
		text, offsets := r.spell()
		return "For a value followed by text, write ${" + clip(text[:offsets[segment]]) + "." + clip(word) + "} " + clip(rest) + "."
	}
	return ""
}

// looksComputed reports whether a missing key looks like part of an expression, as names may contain some operators: `count
// - 1`, `trim()`.
func looksComputed(key string) bool {
	return strings.HasSuffix(key, ")") && strings.Contains(key, "(") || strings.Contains(key, " - ") || strings.Contains(key, " / ")
}
