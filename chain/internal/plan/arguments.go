package plan

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// checkArguments checks the step's arguments against the input schema of its function: literals completely, references by the output
// schema of the function that they refer to.
func (c *compiler) checkArguments(l *level, p *Step) {
	if p.Literal != nil {
		c.checkValues(p.Callee(), p.ArgsAt(), p.Literal, nil, nil)
		return
	}
	for _, u := range p.Args.Uses() {
		if u.Root == refs.RootResult && len(u.Path) > 0 && !u.Lenient {
			c.fault(fault.BadReference, u.At, "$result is null in the first round: write %s", u.Optional())
		}
	}
	unknown := c.unknownArguments(l, p, p.Args, p.ArgsAt())
	if len(p.Callee().Spec().Input) == 0 {
		return
	}
	c.checkValues(p.Callee(), p.ArgsAt(), WithCommon(p.Args.Value(), p.Common), unknown, func(f *fault.Error) {
		c.hintAtSchema(l, p, f)
	})
}

// hintAtSchema adds to the fault of an argument what to do if the output schema that gave the argument its type is wrong.
func (c *compiler) hintAtSchema(l *level, p *Step, f *fault.Error) {
	uses := p.Args.Uses()
	for i := range uses {
		if uses[i].Whole && uses[i].At == p.ArgsAt()+f.At {
			from := c.originOf(l, p, &uses[i])
			f.Message += blockHint(from, &uses[i], f) + c.schemaHint(from, &uses[i])
		}
	}
}

// blockHint is the remedy for a reference to an object in place of a text, if the object may be a block; else "".
func blockHint(from origin, u *refs.Use, f *fault.Error) string {
	if from.fn == nil || u.Expression || !strings.HasSuffix(f.Message, "got object, want string") {
		return ""
	}
	path, flat := elementsOf(nil, u.Path)
	types, missing := from.at(append(path, schema.Element{Key: "data"})).types()
	if flat || missing != nil || !slices.Contains(types, "string") {
		return ""
	}
	return steps.BlockHint(u.Member("data"))
}

// maxCompared bounds the undeclared arguments of a request whose names are compared with declared ones.
const maxCompared = 100

// checkValues checks the arguments of a call, of which some values may be unknown. If they have no fault, it warns of each name that the
// function accepts but does not declare, if it resembles a declared argument that the call does not give. explain may add to a fault;
// nil: it adds nothing.
func (c *compiler) checkValues(entry *steps.Entry, at string, args []byte, unknown []schema.Unknown, explain func(*fault.Error)) {
	if faults := entry.Check(args, unknown); len(faults) > 0 {
		for _, f := range faults {
			if explain != nil {
				explain(f)
			}
		}
		c.badArguments(entry, at, faults)
		return
	}
	if len(entry.Spec().Input) == 0 {
		return
	}
	gjson.Parse(rawjson.View(args)).ForEach(func(key, _ gjson.Result) bool {
		if entry.Argument(key.String()) != "" {
			return true
		}
		name := strings.Clone(key.String()) // a warning outlives the arguments
		c.compared++
		nearest := slices.DeleteFunc(entry.Resembling(name), func(declared string) bool { return providesArgument(entry, args, declared) })
		if len(nearest) > 0 {
			w := fault.New(fault.UnknownField, "%s does not declare %s: did you mean %s?", entry.Spec().Name, fault.Quote(name),
				fault.Quote(nearest[0]))
			w.At, w.Nearest, w.Err = fault.Key(at, name), nearest, fault.ErrUnknownKey
			c.Warnings.Add(w)
		}
		return c.compared < maxCompared
	})
}

// unknownArguments returns the places in arguments whose values are not known yet. It reports references to values that cannot exist.
func (c *compiler) unknownArguments(l *level, p *Step, args *refs.Template, at string) []schema.Unknown {
	uses := args.Uses()
	unknown := make([]schema.Unknown, 0, len(uses))
	for i := range uses {
		v, f := c.valueOf(l, p, &uses[i])
		if f != nil {
			c.faults.Add(f)
		}
		if !uses[i].Whole {
			v.types = []string{"string"}
		}
		unknown = append(unknown, schema.Unknown{At: strings.TrimPrefix(uses[i].At, at), Types: v.types})
	}
	for _, broken := range args.Broken() {
		unknown = append(unknown, schema.Unknown{At: strings.TrimPrefix(broken, at)})
	}
	return unknown
}

// argumentsFromLastRound returns the arguments of a repeat that refer to the previous result, are not required and must not be null. The
// first round omits them.
func (c *compiler) argumentsFromLastRound(p *Step) (names []string) {
	uses := p.Args.Uses()
	for _, m := range rawjson.ListMembers(p.Args.Value()) {
		at := fault.Key("", m.Name)
		isPrevious := func(u refs.Use) bool { return u.Root == refs.RootResult && u.Whole && u.At == p.ArgsAt()+at }
		isRefused := func(f *fault.Error) bool { return f.At == at }
		asNull := append(rawjson.AppendQuote([]byte{'{'}, m.Name), ":null}"...)
		if !slices.ContainsFunc(uses, isPrevious) || p.Callee().Requires(m.Name) {
			continue
		}
		if slices.ContainsFunc(p.Callee().Check(asNull, nil), isRefused) {
			names = append(names, m.Name)
		}
	}
	return names
}

// badArguments adds the faults of the arguments at a JSON Pointer. The first fault of each function shows its signature.
func (c *compiler) badArguments(e *steps.Entry, at string, faults []*fault.Error) {
	for _, f := range faults {
		f = f.Under(at)
		c.faults.Add(f)
		if _, shown := c.Signatures[e]; !shown && !c.rules.IsCall {
			if c.Signatures == nil {
				c.Signatures = map[*steps.Entry]*fault.Error{}
			}
			c.Signatures[e] = f
		}
	}
}

// warnText warns of a text that looks like a reference where references are not read.
func (c *compiler) warnText(field, remedy string, raw []byte, env refs.CompileScope) {
	if !bytes.ContainsRune(raw, '$') {
		return
	}
	t, _ := refs.CompileTemplate(raw, env)
	if t == nil {
		return
	}
	for _, u := range t.Uses() {
		if u.Whole {
			c.Warnings.Add(fault.New(fault.BadReference, "%s holds no references, and this stays a text: %s", field, remedy).Under(u.At))
		}
	}
}

// commonFor returns the members of `common` that the function declares and the step does not set, as `"k":v,"k2":v2`. Each argument
// occurs once.
func (c *compiler) commonFor(entry *steps.Entry, args []byte) []byte {
	var common []byte
	for i, m := range c.common {
		declared := entry.Argument(m.Name)
		if declared == "" {
			continue
		}
		c.usedCommon[m.Name] = true
		if providesArgument(entry, args, declared) || c.givenEarlier(entry, declared, i) {
			continue
		}
		if len(common) > 0 {
			common = append(common, ',')
		}
		common = append(rawjson.AppendQuote(common, m.Name), ':')
		common = append(common, m.Raw...)
	}
	return common
}

// givenEarlier reports whether a member of `common` before the one at i is the same argument of a function. Different values are a fault,
// since the intended one is unknown.
func (c *compiler) givenEarlier(entry *steps.Entry, declared string, i int) bool {
	first := slices.IndexFunc(c.common[:i], func(m rawjson.Member) bool { return entry.Argument(m.Name) == declared })
	if first < 0 {
		return false
	}
	if name, at := c.common[i].Name, c.request.commonAt(c.common[i].Name); c.common[first].Raw != c.common[i].Raw && !c.faults.Within(at) {
		c.fault(fault.BadRequest, at, "%s and %s are both %s of %s, and not the same: give it once", c.common[first].Name, name, declared,
			entry.Spec().Name)
	}
	return true
}

// providesArgument reports whether args have the declared argument, in any accepted spelling.
func providesArgument(entry *steps.Entry, args []byte, declared string) bool {
	return rawjson.HasMember(args, func(name string) bool { return name == declared || entry.Argument(name) == declared })
}

// orEmpty returns args; if there are none, {}.
func orEmpty(args []byte) []byte {
	if args == nil {
		return []byte("{}")
	}
	return args
}

// WithCommon returns args with the members of `common` added, in a copy; without such members it returns args itself.
func WithCommon(args, common []byte) []byte {
	if len(common) == 0 {
		return args
	}
	all := append(make([]byte, 0, len(args)+len(common)+1), args[:len(args)-1]...)
	if all[len(all)-1] != '{' {
		all = append(all, ',')
	}
	return append(append(all, common...), '}')
}
