package chain

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

// origin says where a value comes from, as far as that is known before anything runs: from a path in what a function gives. The zero
// value is that of a value of which nothing is known.
type origin struct {
	fn     *steps.Entry // nil: not known
	path   []schema.Element
	arrays int      // how many [*] at the start of path stand for arrays around what fn gives: of a forEach, of repeat.collect
	also   []string // types that the value may have instead, as nothing or another value may stand in its place
}

// stepOrigins are those of what stands for values of one step within it.
type stepOrigins struct {
	element origin // of $item
	result  origin // of $result: what the call gives, then what collect joins, at last what references to the step see
}

var (
	eachElement = schema.Element{Each: true}
	anyElement  = schema.Element{Index: true, Key: "*"}
)

// at is the origin of what stands at a path in the value. In what [*] has made, an index chooses one element of those that were
// mapped.
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

// array is the origin of an array of such values.
func (o origin) array() origin {
	if len(o.also) > 0 {
		o = origin{} // what the elements are is not known
	}
	return origin{fn: o.fn, path: slices.Insert(slices.Clone(o.path), 0, eachElement), arrays: o.arrays + 1}
}

// types gives the JSON Schema types that the value may have, nil if they are not known; a fault if there can be no such value.
func (o origin) types() (types []string, f *fault.Error) {
	mapped := false
	for _, element := range o.path[:o.arrays] {
		if mapped = mapped || element.Each; element.Each || element.Index {
			continue
		}
		if _, err := strconv.Atoi(element.Key); err != nil {
			return nil, fault.New(fault.BadReference, "no member %q: this is an array of results. Take an element with [0], or all with [*]", fault.ClipRunes(element.Key, 60))
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
		types = append(types, o.also...)
	}
	return types, nil
}

// value is what is known of the value of a text that is one reference; the zero value of any other.
type value struct {
	origin
	types []string // that it may have; nil: not known
}

// check finds fault with references to what can never be there, by the output schemas of the functions that give it. The value is
// that of a single reference that is the whole text.
func (c *compiler) check(l *level, p *plannedStep, uses []refs.Use) (v value) {
	var last *fault.Error
	for i := range uses {
		one, f := c.produced(l, p, &uses[i])
		if f != nil && (last == nil || f.At != last.At || f.Message != last.Message) { // $0.itms and $0.itms[*].id of one expression
			c.faults.add(f)
			last = f
		}
		if len(uses) == 1 && uses[i].Whole {
			v = one
		}
	}
	return v
}

// produced gives what is known of the value that a reference takes, or the fault of one that can have none. p is the step whose text
// it stands in; nil for `return`.
func (c *compiler) produced(l *level, p *plannedStep, u *refs.Use) (v value, f *fault.Error) {
	if u.Lenient || u.Status {
		return value{}, nil
	}
	from := c.origin(l, p, u)
	if from.fn == nil && from.arrays == 0 {
		return value{}, nil
	}
	var room [8]schema.Element
	path, flat := elementsOf(room[:0], u.Path)
	v.origin = from.at(path)
	if v.types, f = v.origin.types(); f != nil {
		f = f.Under("")
		f.Code, f.At = fault.BadReference, u.At
		if remedy := u.Remedy(f.Available); remedy != "" {
			f.Message += ". " + remedy
		}
		return value{}, f
	}
	c.warnUnlikely(v.origin, u)
	if flat {
		return value{origin{}.array(), []string{"array"}}, nil
	}
	if u.Expression && v.types != nil { // a key that may be missing is null
		v.also = append(v.also, "null")
		v.types = append(v.types, "null")
	}
	return v, nil
}

// warnUnlikely warns, once, of a reference to what no result of a function without an output schema has had so far, and to what a
// schema allows but does not declare, where it declares something like it. A reference with ? says itself that there may be nothing.
func (c *compiler) warnUnlikely(from origin, u *refs.Use) {
	if from.fn == nil || slices.ContainsFunc(u.Path, func(s refs.Segment) bool { return s.Optional }) {
		return
	}
	path, known := from.path[from.arrays:], "as far as results of it were seen"
	f := from.fn.Unseen(path)
	if f == nil {
		f, known = from.fn.Undeclared(path), "though others may be there"
	}
	if f == nil {
		return
	}
	w := fault.New(fault.BadReference, "%s, %s", f.Message, known)
	if w.At, w.Nearest = u.At, f.Nearest; len(f.Nearest) > 0 {
		w.Message += ": did you mean " + strconv.Quote(f.Nearest[0]) + "?"
	}
	for _, before := range c.warnings {
		if before.Message == w.Message && before.At == c.placed(w).At {
			return
		}
	}
	c.warn(w)
}

// origin is that of what a reference starts from.
func (c *compiler) origin(l *level, p *plannedStep, u *refs.Use) origin {
	switch {
	case u.Root == refs.RootStep && u.Step < len(l.planned) && l.planned[u.Step] != nil:
		return l.planned[u.Step].gives
	case u.Root == refs.RootResult:
		return l.own.result
	case u.Root == refs.RootItem && p != nil:
		return l.own.element
	case u.Root == refs.RootItem:
		return l.element
	}
	return origin{}
}

// elementsOf appends a reference's path as steps take it, up to [**], whose elements are not known.
func elementsOf(elements []schema.Element, path []refs.Segment) (all []schema.Element, flat bool) {
	for _, segment := range path {
		switch segment.Kind {
		case refs.Flat:
			return elements, true
		case refs.At:
			elements = append(elements, schema.Element{Key: itoa(segment.Index), Index: true})
		default:
			elements = append(elements, schema.Element{Key: segment.Key, Each: segment.Kind == refs.Each})
		}
	}
	return elements, false
}

// givenTo is the origin of what references to a step see, whose result after select is from somewhere.
func givenTo(s *step, from origin) origin {
	if s.OrElse != nil {
		if kind := scalarType(s.OrElse); kind == "" || s.ForEach != nil {
			from = origin{} // the other value may have members of its own
		} else {
			from.also = append(slices.Clone(from.also), kind)
		}
	}
	if s.ForEach != nil {
		from = from.array()
	}
	if s.When != nil {
		from.also = append(slices.Clone(from.also), "null")
	}
	return from
}

// scalarType is the JSON Schema type of a value that has no members; "" for an object or array.
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

// arrayMembers names the members that are always arrays.
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
