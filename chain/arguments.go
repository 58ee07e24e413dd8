package chain

import (
	"bytes"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// checkArguments checks the step's arguments against its function's input schema as far as they are known: literals
// wholly, references by what the producing function's output schema says of them.
func (c *compiler) checkArguments(l *level, p *plannedStep) {
	if p.literal != nil {
		c.badArguments(p.callee(), p.at+"/args", p.callee().Check(p.literal, nil))
		return
	}
	for _, u := range p.args.Uses() {
		if u.Root == refs.RootResult && len(u.Path) > 0 && !u.Lenient {
			c.fault(fault.BadReference, u.At, "$result is null in the first round: write %s", u.IfThere())
		}
	}
	holes := c.holes(l, p, p.args, p.at+"/args")
	if len(p.callee().Spec().Input) == 0 {
		return
	}
	c.badArguments(p.callee(), p.at+"/args", p.callee().Check(withCommon(p.args.Value(), p.common), holes))
}

// holes are the places of arguments that are not known yet, and finds fault with references there to what can never be.
func (c *compiler) holes(l *level, p *plannedStep, args *refs.Template, at string) []schema.Hole {
	uses := args.Uses()
	holes := make([]schema.Hole, 0, len(uses))
	for i := range uses {
		v, f := c.produced(l, p, &uses[i])
		if f != nil {
			c.faults.add(f)
		}
		if !uses[i].Whole {
			v.types = []string{"string"}
		}
		holes = append(holes, schema.Hole{At: strings.TrimPrefix(uses[i].At, at), Types: v.types})
	}
	for _, broken := range args.Broken() {
		holes = append(holes, schema.Hole{At: strings.TrimPrefix(broken, at)})
	}
	return holes
}

// fromRoundBefore are the arguments that a repeat takes from the round before, and that its function neither requires nor takes
// as null: the first round, which has none before it, leaves them out.
func (c *compiler) fromRoundBefore(p *plannedStep) (names []string) {
	uses := p.args.Uses()
	for _, m := range members(p.args.Value()) {
		at := fault.Key("", m.name)
		isTaken := func(u refs.Use) bool { return u.Root == refs.RootResult && u.Whole && u.At == p.at+"/args"+at }
		isRefused := func(f *fault.Error) bool { return f.At == at }
		asNull := append(appendString([]byte{'{'}, m.name), ":null}"...)
		if slices.ContainsFunc(uses, isTaken) && !p.callee().Requires(m.name) && slices.ContainsFunc(p.callee().Check(asNull, nil), isRefused) {
			names = append(names, m.name)
		}
	}
	return names
}

// badArguments adds what is wrong with the arguments of a function that stand at a place. The first fault of each function teaches
// its signature.
func (c *compiler) badArguments(e *steps.Entry, at string, faults []*fault.Error) {
	for _, f := range faults {
		f = f.Under(at)
		c.faults.add(f)
		if _, taught := c.teaching[e]; !taught && c.single == nil {
			if c.teaching == nil {
				c.teaching = map[*steps.Entry]*fault.Error{}
			}
			c.teaching[e] = f
		}
	}
}

// warnText warns of a text that would be a reference in args, where nothing is one.
func (c *compiler) warnText(field, remedy string, raw []byte, place refs.Place) {
	if !bytes.ContainsRune(raw, '$') {
		return
	}
	t, _ := refs.CompileTemplate(raw, place)
	if t == nil {
		return
	}
	for _, u := range t.Uses() {
		if u.Whole {
			c.warn(fault.New(fault.BadReference, "%s holds no references, and this stays a text: %s", field, remedy).Under(u.At))
		}
	}
}

// commonFor gives the members of `common` that the function declares and the step does not set, as `"k":v,"k2":v2`, each
// argument once.
func (c *compiler) commonFor(entry *steps.Entry, args []byte) []byte {
	var common []byte
	for i, m := range c.common {
		declared := entry.Argument(m.name)
		if declared == "" {
			continue
		}
		c.usedCommon[m.name] = true
		if gives(entry, args, declared) || c.givenBefore(entry, declared, i) {
			continue
		}
		if len(common) > 0 {
			common = append(common, ',')
		}
		common = append(appendString(common, m.name), ':')
		common = append(common, m.raw...)
	}
	return common
}

// givenBefore reports whether a member of `common` before the one at i stands for the same argument of a function; a fault
// where their values differ, as nobody can tell which is meant.
func (c *compiler) givenBefore(entry *steps.Entry, declared string, i int) bool {
	first := slices.IndexFunc(c.common[:i], func(m objectMember) bool { return entry.Argument(m.name) == declared })
	if first < 0 {
		return false
	}
	if name, at := c.common[i].name, c.request.commonAt(c.common[i].name); c.common[first].raw != c.common[i].raw && !c.faults.has(at) {
		c.fault(fault.BadRequest, at, "%s and %s are both %s of %s, and not the same: give it once", c.common[first].name, name, declared, entry.Spec().Name)
	}
	return true
}

// gives reports whether arguments hold what the schema declares by that name, in whatever spelling.
func gives(entry *steps.Entry, args []byte, declared string) bool {
	return hasMember(args, func(name string) bool { return name == declared || entry.Argument(name) == declared })
}

// withCommon is an arguments object with the members of `common`: a copy if there are any.
func withCommon(args, common []byte) []byte {
	if len(common) == 0 {
		return args
	}
	all := append(make([]byte, 0, len(args)+len(common)+1), args[:len(args)-1]...)
	if all[len(all)-1] != '{' {
		all = append(all, ',')
	}
	return append(append(all, common...), '}')
}
