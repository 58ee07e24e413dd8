package plan

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// FunctionUse is what a plan uses of a function.
type FunctionUse struct {
	Function string
	Calls    []CallUse
	// Reads are the paths in its result that references read and that must be there: names of members, and "*" for elements. They are known
	// of a function with an output schema, or a known shape of results.
	Reads [][]string
}

// CallUse is one step that calls a function, or one whose undo does.
type CallUse struct {
	Step  string // its JSON Pointer
	Given []Given
}

// Given is an argument that a call gives, or a value in one.
type Given struct {
	Path    []string // names of members, and "*" for elements
	Literal bool     // the value stands in the chain or in the configuration; else references make it
}

// allElements stands for each element in the paths of uses.
const allElements = "*"

// read is a path of a function's result that a reference reads.
type read struct {
	fn   *steps.Entry
	path []string
}

// noteRead notes what a reference reads, if the request is only checked.
func (c *compiler) noteRead(from origin) {
	if !c.rules.Check || from.fn == nil {
		return
	}
	path := make([]string, 0, len(from.path)-from.arrays)
	for _, element := range from.path[from.arrays:] {
		path = append(path, elementName(element))
	}
	c.reads = append(c.reads, read{from.fn, path})
}

func elementName(e schema.Element) string {
	if e.Each || e.Index {
		return allElements
	}
	return e.Key
}

// Uses returns what a checked plan uses of each function that it may call, sorted by name.
func (p *Plan) Uses() []FunctionUse {
	byName := map[string]*FunctionUse{}
	of := func(fn *steps.Entry) *FunctionUse {
		name := fn.Spec().Name
		if byName[name] == nil {
			byName[name] = &FunctionUse{Function: name}
		}
		return byName[name]
	}
	p.addCalls(of)
	for _, r := range p.resultReads {
		use := of(r.fn)
		if !slices.ContainsFunc(use.Reads, func(known []string) bool { return slices.Equal(known, r.path) }) {
			use.Reads = append(use.Reads, r.path)
		}
	}
	list := make([]FunctionUse, 0, len(byName))
	for _, use := range byName {
		list = append(list, *use)
	}
	slices.SortFunc(list, func(a, b FunctionUse) int { return cmp.Compare(a.Function, b.Function) })
	return list
}

// addCalls adds the calls of a plan's steps.
func (p *Plan) addCalls(of func(*steps.Entry) *FunctionUse) {
	for _, s := range p.Steps {
		if s.Inline != nil {
			s.Inline.addCalls(of)
		}
		if s.Fn != nil {
			use := of(s.Fn)
			use.Calls = append(use.Calls, CallUse{s.At, givenBy(s.Fn, s.ArgsAt(), s.Args, s.Literal, s.Common)})
		}
		if s.Undo != nil {
			use := of(s.Undo.Fn)
			use.Calls = append(use.Calls, CallUse{s.At + "/undo", givenBy(s.Undo.Fn, s.Undo.argsAt, s.Undo.Args, nil, nil)})
		}
	}
}

// givenBy returns what a call gives: its arguments as a template or literally, members of `common`, and the defaults of its function.
func givenBy(fn *steps.Entry, at string, args *refs.Template, literal, common []byte) (given []Given) {
	made := map[string]bool{} // the places of references
	if args != nil {
		literal = args.Value()
		for _, use := range args.Uses() {
			made[use.At] = true
		}
	}
	var walk func(value gjson.Result, at string, path []string)
	walk = func(value gjson.Result, at string, path []string) {
		inner := false
		if !made[at] && (value.IsObject() || value.IsArray()) {
			i := -1
			value.ForEach(func(key, member gjson.Result) bool {
				inner = true
				if i++; value.IsArray() {
					walk(member, at+"/"+strconv.Itoa(i), slices.Concat(path, []string{allElements}))
					return true
				}
				name := key.String()
				if len(path) == 0 {
					name = cmp.Or(fn.Argument(name), name)
				}
				walk(member, fault.Key(at, key.String()), slices.Concat(path, []string{name}))
				return true
			})
		}
		if !inner && (len(path) > 0 || made[at]) {
			given = append(given, Given{path, !made[at]})
		}
	}
	walk(gjson.ParseBytes(orEmpty(literal)), at, nil)
	if len(common) > 0 {
		walk(gjson.ParseBytes(WithCommon([]byte("{}"), common)), "\x00common", nil)
	}
	walk(gjson.Parse(cmp.Or(rawjson.View(fn.Spec().Defaults), "{}")), "\x00defaults", nil)
	return given
}
