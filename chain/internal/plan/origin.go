package plan

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// origin says where a value comes from, as far as that is known before anything runs: from a path in the result of a function. The zero
// value means that nothing is known.
type origin struct {
	fn           *steps.Entry // nil: not known
	path         []schema.Element
	arrays       int      // how many leading [*] of path are arrays around the results of fn, made by a forEach or repeat.collect
	alternatives []string // further types that the value may have, since null or orElse may replace it
}

// stepValues has the origins of the values that one step can refer to within itself.
type stepValues struct {
	element origin // the origin of $item
	result  origin // the origin of $result: of the call, then after collect, then after select
}

var (
	eachElement = schema.Element{Each: true}
	anyElement  = schema.Element{Index: true, Key: "*"}
)

// at returns the origin of what path selects from the value. An index into an array that [*] made selects one of its elements.
func (o origin) at(path []schema.Element) origin {
	if len(path) == 0 {
		return o
	}
	full := append(make([]schema.Element, 0, len(o.path)+len(path)), o.path...)
	for i := range full {
		if full[i].Each && len(path) > 0 {
			full[i], path = path[0], path[1:]
		}
	}
	return origin{fn: o.fn, path: append(full, path...), arrays: o.arrays}
}

// array returns the origin of an array of such values.
func (o origin) array() origin {
	if len(o.alternatives) > 0 {
		o = origin{} // nothing is known of the elements
	}
	return origin{fn: o.fn, path: slices.Insert(slices.Clone(o.path), 0, eachElement), arrays: o.arrays + 1}
}

// types returns the JSON Schema types that the value may have, or nil if they are not known. A value that cannot exist is a fault.
func (o origin) types() (types []string, f *fault.Error) {
	mapped := false // a [*] is left in the path: the value is an array of what the rest selects
	for _, element := range o.path[:o.arrays] {
		if mapped = mapped || element.Each; element.Each || element.Index {
			continue
		}
		if _, err := strconv.Atoi(element.Key); err != nil {
			return nil, fault.New(fault.BadReference,
				"no member %q: this is an array of results. Take an element with [0], or all with [*]", fault.ClipRunes(element.Key, 60))
		}
	}
	if o.fn != nil {
		if types, f = o.fn.Produces(o.path[o.arrays:]); f != nil {
			return nil, f
		}
	}
	if mapped {
		types = []string{"array"}
	}
	if types != nil {
		types = append(types, o.alternatives...)
	}
	return types, nil
}

// value has what is known of the value of a text that is a single reference. For any other text it is zero.
type value struct {
	origin
	types []string // the types that the value may have; nil: not known
}

// checkUses reports references to what cannot exist, by the output schemas of the functions. The value is that of a text that is a single
// reference.
func (c *compiler) checkUses(l *level, p *Step, uses []refs.Use) (v value) {
	var last *fault.Error
	for i := range uses {
		known, f := c.valueOf(l, p, &uses[i])
		if f != nil && (last == nil || f.At != last.At || f.Message != last.Message) { // $0.itms and $0.itms[*].id in one expression
			c.faults.Add(f)
			last = f
		}
		if len(uses) == 1 && uses[i].Whole {
			v = known
		}
	}
	return v
}

// valueOf returns what is known of a reference's value, or the fault of a reference that cannot have one. p is the step that it stands
// in; nil for `return`.
func (c *compiler) valueOf(l *level, p *Step, u *refs.Use) (v value, f *fault.Error) {
	if u.Lenient || u.Status {
		return value{}, nil
	}
	from := c.originOf(l, p, u)
	if from.fn == nil && from.arrays == 0 {
		return value{}, nil
	}
	var buf [8]schema.Element
	path, flat := elementsOf(buf[:0], u.Path)
	v.origin = from.at(path)
	if v.types, f = v.origin.types(); f != nil {
		ruledOut := f.Code == fault.ReferenceMissing // by the schema
		f = f.Under("")                              // a copy
		f.Code, f.At = fault.BadReference, u.At
		if remedy := u.Remedy(f.Available); remedy != "" {
			f.Message += ". " + remedy
		} else if ruledOut {
			f.Message += c.schemaHint(v.origin, u)
		}
		return value{}, f
	}
	c.noteRead(v.origin)
	c.warnUnlikely(v.origin, u)
	if flat {
		return value{origin{}.array(), []string{"array"}}, nil
	}
	if u.Expression && v.types != nil { // a missing key is null
		v.alternatives = append(v.alternatives, "null")
		v.types = append(v.types, "null")
	}
	return v, nil
}

// schemaHint says, after a fault, what to do if the output schema behind it is wrong, once for each function; else "". A value can be read
// past the schema with ?, for this request, or the schema left out for all.
func (c *compiler) schemaHint(from origin, u *refs.Use) string {
	if from.fn == nil || len(from.fn.Spec().Output) == 0 || c.hinted[from.fn] {
		return ""
	}
	if c.hinted == nil {
		c.hinted = map[*steps.Entry]bool{}
	}
	c.hinted[from.fn] = true
	hint := ". " + from.fn.IgnoreOutput()
	if len(u.Path) > 0 {
		hint += ", or write " + u.Optional()
	}
	return hint
}

// warnUnlikely warns, once, of a reference to a member that no result of a function without an output schema has had so far, or that a
// schema allows but does not declare while it declares a similar one. References with ? are not checked: they say that the value may be
// missing.
func (c *compiler) warnUnlikely(from origin, u *refs.Use) {
	if from.fn == nil || slices.ContainsFunc(u.Path, func(s refs.Segment) bool { return s.Optional }) {
		return
	}
	path, known := from.path[from.arrays:], "in the results seen so far"
	f := from.fn.UnseenPath(path)
	if f == nil {
		f, known = from.fn.Undeclared(path), "though it may have others"
	}
	if f == nil {
		return
	}
	w := fault.New(fault.BadReference, "%s, %s", f.Message, known)
	if w.At, w.Nearest = u.At, f.Nearest; len(f.Nearest) > 0 {
		w.Message += ": did you mean " + strconv.Quote(f.Nearest[0]) + "?"
	}
	for _, before := range c.Warnings {
		if before.Message == w.Message && before.At == w.At {
			return
		}
	}
	c.Warnings.Add(w)
}

// originOf returns the origin of the root of a reference.
func (c *compiler) originOf(l *level, p *Step, u *refs.Use) origin {
	switch {
	case u.Root == refs.RootStep && u.Step < len(l.planned) && l.planned[u.Step] != nil:
		return l.planned[u.Step].origin
	case u.Root == refs.RootResult:
		return l.values.result
	case u.Root == refs.RootItem && p != nil:
		return l.values.element
	case u.Root == refs.RootItem:
		return l.element
	}
	return origin{}
}

// elementsOf appends a reference's path in the form of package schema, up to the first [**]: what follows is not known.
func elementsOf(elements []schema.Element, path []refs.Segment) (all []schema.Element, flat bool) {
	for _, segment := range path {
		switch segment.Kind {
		case refs.Flat:
			return elements, true
		case refs.At:
			elements = append(elements, schema.Element{Key: strconv.Itoa(segment.Index), Index: true})
		default:
			elements = append(elements, schema.Element{Key: segment.Key, Each: segment.Kind == refs.Each})
		}
	}
	return elements, false
}

// stepOrigin returns the origin of a step's result for references to it. from is the origin after select.
func stepOrigin(s *StepRequest, from origin) origin {
	if s.OrElse != nil {
		if kind := scalarType(s.OrElse); kind == "" || s.ForEach != nil {
			from = origin{} // orElse may have other members
		} else {
			from.alternatives = append(slices.Clone(from.alternatives), kind)
		}
	}
	if s.ForEach != nil {
		from = from.array()
	}
	if s.When != nil {
		from.alternatives = append(slices.Clone(from.alternatives), "null")
	}
	return from
}

// scalarType returns the JSON Schema type of a scalar, or "" for an object or array.
func scalarType(raw []byte) string {
	switch {
	case strings.IndexByte(`{[`, raw[0]) >= 0:
		return ""
	case raw[0] == '"':
		return "string"
	case raw[0] == 'n':
		return "null"
	case raw[0] == 't', raw[0] == 'f':
		return "boolean"
	}
	return "number"
}

// arrayMembers yields the names of members that are always arrays.
func (v *value) arrayMembers() iter.Seq[string] {
	return func(yield func(string) bool) {
		if v.fn == nil {
			return
		}
		gjson.GetBytes(v.fn.Spec().Output, "properties").ForEach(func(name, _ gjson.Result) bool {
			types, _ := v.at([]schema.Element{{Key: name.String()}}).types()
			return !slices.Equal(types, []string{"array"}) || yield(name.String())
		})
	}
}
