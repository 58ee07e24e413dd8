package schema

import (
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/tidwall/gjson"
)

// printer formats types, on one line or with one member a line.
type printer struct {
	lines    bool // one member a line, with its description
	defaults bool // show the defaults of members that are not required
}

// union formats the allowed types. If typed is false, it shows only objects and arrays.
func (p printer) union(u union, typed bool, indent string) string {
	return strings.Join(p.alternatives(u, typed, indent), "|")
}

// alternatives formats each type once.
func (p printer) alternatives(u union, typed bool, indent string) []string {
	var texts []string
	for _, a := range u {
		text := ""
		switch {
		case a.object != nil:
			text = p.object(a.object, indent)
		case a.array != nil:
			text = p.array(a.array, typed, indent)
		case typed:
			text = a.text
		}
		if text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

func (p printer) object(o *object, indent string) string {
	if !o.open {
		return "{…}"
	}
	members := p.members(o, indent+"  ")
	if p.lines {
		return "{\n" + strings.Join(members, "\n") + "\n" + indent + "}"
	}
	return "{" + strings.Join(members, ", ") + "}"
}

// members formats the members of an open object.
func (p printer) members(o *object, indent string) []string {
	var members []string
	for _, m := range o.members[:o.shown] {
		member := m.name
		if !m.required && o.typed {
			member += "?"
		}
		if text := p.union(m.union, o.typed, indent); text != "" {
			member += ": " + text
		}
		if p.defaults {
			member += m.defaultText
		}
		if p.lines {
			member = indent + member
			if m.comment != "" {
				member += " // " + m.comment
			}
		}
		members = append(members, member)
	}
	if o.shown < len(o.members) {
		members = append(members, "…")
	}
	return members
}

func (p printer) array(a *array, typed bool, indent string) string {
	if len(a.first) == 0 {
		return brackets(p.alternatives(a.rest, typed, indent))
	}
	var texts []string
	for _, element := range a.first {
		texts = append(texts, p.union(element, true, indent))
	}
	if a.rest != nil {
		texts = append(texts, "..."+brackets(p.alternatives(a.rest, true, indent)))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// brackets returns the type of an array from its element types.
func brackets(union []string) string {
	text := strings.Join(union, "|")
	if len(union) > 1 {
		text = "(" + text + ")"
	}
	return text + "[]"
}

// cost returns the length of a type in bytes, plus an allowance for text that takes many tokens for its length.
func cost(text string) int {
	return len(text) + 6*strings.Count(text, "{…}") + strings.Count(text, `"`)
}

// memberName formats a member's name, quoted if it is not a plain word.
func memberName(name string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-$"
	if name != "" && strings.Trim(name, plain) == "" {
		return name
	}
	return fault.Quote(name)
}

func literal(value gjson.Result) string {
	if value.Type == gjson.String {
		return fault.Quote(value.Str)
	}
	if len(value.Raw) > maxDefault {
		return "…"
	}
	return value.Raw
}
