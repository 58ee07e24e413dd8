package groups

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// Dispatcher is one tool that calls the functions of a group. It is immutable, and many goroutines may use it.
type Dispatcher struct {
	Name string // the name of the tool

	about     string
	functions []*function // sorted by name
	hoist     []string
	index     func() *index
}

// function is a function of a dispatcher.
type function struct {
	name
	entry *steps.Entry
	label string // the resource as descriptions and help show it; label and action together are unique
}

func newDispatcher(tool, about string, functions []*function, hoist []string) *Dispatcher {
	d := &Dispatcher{Name: tool, about: strings.Join(strings.Fields(about), " "), functions: functions, hoist: hoist}
	labels := labelsOf(functions)
	for _, f := range functions {
		f.label = labels[f.prefix]
	}
	d.index = sync.OnceValue(func() *index { return newIndex(functions) })
	return d
}

// Entries returns the functions that the dispatcher calls, sorted by name.
func (d *Dispatcher) Entries() []*steps.Entry {
	entries := make([]*steps.Entry, len(d.functions))
	for i, f := range d.functions {
		entries[i] = f.entry
	}
	return entries
}

// labelsOf returns labels for resources. A label is the resource without the first parts that all share, or without the source, or
// in full: the shortest form in which all labels are unique.
func labelsOf(functions []*function) map[string]string {
	shorts := map[string]string{}
	counts := map[string]int{}
	for _, f := range functions {
		if _, seen := shorts[f.prefix]; !seen {
			shorts[f.prefix] = f.short()
			counts[f.short()]++
		}
	}
	common := -1 // how many first parts all resources share; -1: none has been looked at
	var first []string
	for _, short := range shorts {
		segments := strings.Split(short, ".")
		if common < 0 {
			first, common = segments, len(segments)
		}
		for i := range min(common, len(segments)) {
			if segments[i] != first[i] {
				common = i
				break
			}
		}
		common = min(common, len(segments))
	}
	forms := []func(prefix string) string{
		func(prefix string) string {
			segments := strings.Split(shorts[prefix], ".")
			return strings.Join(segments[min(common, len(segments)-1):], ".")
		},
		func(prefix string) string {
			if counts[shorts[prefix]] > 1 {
				return prefix
			}
			return shorts[prefix]
		},
		func(prefix string) string { return prefix },
	}
	for _, form := range forms {
		labels := map[string]string{}
		used := map[string]bool{}
		for prefix := range shorts {
			labels[prefix] = form(prefix)
			used[labels[prefix]] = true
		}
		if len(used) == len(labels) {
			return labels
		}
	}
	return nil // unreachable: the last form is the identity
}

// fieldSchemas are the fields of a call and of a fetch, except for budget, which help describes. Every dispatcher lists them, so they have
// no descriptions.
var fieldSchemas = []struct{ name, schema string }{
	{"resource", `{"type":"string"}`}, {"action", `{"type":"string"}`}, {"params", `{"type":"object"}`}, {"lite", `{"type":"boolean"}`},
	{tokenField, `{"type":"string"}`}, {"mode", `{"type":"string"}`}, {"page", `{"type":"integer"}`}, {"page_size", `{"type":"integer"}`},
	{"filter_keys", `{"type":"array","items":{"type":"string"}}`}, {"query", `{"type":"string"}`},
}

// InputSchema returns the JSON Schema of a call: a plain object that accepts further members. A hoisted name has the type with which a
// function declares it. A field of a fetch that a function declares as an argument is left out, because hosts would check the argument
// against the field's type.
func (d *Dispatcher) InputSchema() json.RawMessage {
	schema := []byte(`{"type":"object","properties":{`)
	add := func(name, declared string) {
		schema = append(append(append(rawjson.AppendQuote(schema, name), ':'), declared...), ',')
	}
	for _, field := range fieldSchemas {
		if slices.Contains(callFields, field.name) || field.name == tokenField || d.declared(field.name) == "" {
			add(field.name, field.schema)
		}
	}
	for _, name := range d.hoist {
		if declared := d.declared(name); declared != "" {
			add(name, declared)
		}
	}
	return append(schema[:len(schema)-1], "}}"...)
}

// declared returns the schema of an argument, reduced to its type, as the first function declares it; "": none does.
func (d *Dispatcher) declared(name string) string {
	for _, f := range d.functions {
		argument := f.entry.Argument(name)
		if argument == "" {
			continue
		}
		of := gjson.GetBytes(f.entry.Spec().Input, "properties."+gjson.Escape(argument)+".type")
		if of.Type != gjson.String || of.Str == "array" {
			return "{}"
		}
		return `{"type":` + of.Raw + `}`
	}
	return ""
}

// Description returns the tool's description: the group's own, how to get help, and the names of its resources, or of its actions
// if there is one resource. Those with most functions come first. limit bounds the tokens, as counted by count, without the group's
// own description. To fit, names are cut to fewer parts, and then the last names are replaced by their number.
func (d *Dispatcher) Description(limit int, count func([]byte) int) string {
	withinLimit := func(text string) bool { // n bytes are at most n tokens
		return len(text) <= limit || count([]byte(text)) <= limit
	}
	text := ""
	for depth := maxSegments; depth > 0; depth-- {
		names, kind := d.names(depth)
		if text = describe(names, len(names), kind); withinLimit(text) {
			break
		}
		for n := len(names) - 1; depth == 1 && n >= 0 && !withinLimit(text); n-- {
			text = describe(names, n, kind)
		}
	}
	if d.about == "" {
		return text
	}
	about := fault.Clip(strings.TrimSuffix(d.about, "."), maxDescription-len(text)-len("…. "))
	return about + ". " + text
}

// maxDescription bounds a description in bytes, because clients cut longer descriptions, and with them the hint about help.
const maxDescription = 2048

// maxSegments bounds the parts of a resource that a description shows.
const maxSegments = 3

// describe lists the first n names and the number of the omitted ones.
func describe(names []string, n int, kind string) string {
	const help = "Omit action for help. "
	switch omitted := len(names) - n; {
	case n == 0:
		return fmt.Sprintf("%s%d %s", help, omitted, strings.ToLower(kind))
	case omitted > 0:
		return fmt.Sprintf("%s%s: %s …and %d more", help, kind, strings.Join(names[:n], ", "), omitted)
	}
	return help + kind + ": " + strings.Join(names, ", ")
}

// names returns the resources, cut to this many parts, or the actions if there is one resource. Those with most functions come
// first.
func (d *Dispatcher) names(depth int) (names []string, kind string) {
	counts := map[string]int{}
	actionsOnly := oneLabel(d.functions)
	if kind = "Resources"; actionsOnly {
		kind = "Actions"
	}
	for _, f := range d.functions {
		name := f.action // the action is also the name of a function without a resource
		if !actionsOnly && f.label != "" {
			all := strings.Split(f.label, ".")
			name = strings.Join(all[:min(depth, len(all))], ".")
		}
		if counts[name]++; counts[name] == 1 {
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return counts[b] - counts[a] })
	return names, kind
}

// oneLabel reports whether all functions have the same resource.
func oneLabel(functions []*function) bool {
	return !slices.ContainsFunc(functions, func(f *function) bool { return f.label != functions[0].label })
}
