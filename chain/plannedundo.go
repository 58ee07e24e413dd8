package chain

import (
	"slices"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// plannedUndo is the call that undoes a step's call.
type plannedUndo struct {
	at          string // its JSON Pointer
	explicit    bool   // the step defines it; else the function does
	fn          *steps.Entry
	args        *refs.Template
	readsResult bool   // args refer to $result
	text        []byte // {"fn","args"} as written
}

// compileUndo compiles how the step's calls are undone: as the step says, or else its function.
func (c *compiler) compileUndo(l *level, s *step, p *plannedStep) {
	request, at := s.Undo, p.at+"/undo"
	switch {
	case p.fn == nil && s.Fn != "" && p.saved == nil: // fn has a fault already
		return
	case request != nil && p.fn == nil:
		c.fault(fault.BadRequest, at, "undo goes with fn: give it to the steps that call functions")
		return
	case request == nil && (p.fn == nil || p.fn.Spec().Undo == nil || p.effect == steps.Read):
		return
	case request == nil:
		request = &undoRequest{Fn: p.fn.Spec().Undo.Function, Args: p.fn.Spec().Undo.Args}
	}
	entry, err := c.view.Resolve(request.Fn)
	if err != nil {
		if s.Undo != nil { // a default that the caller may not use is ignored
			c.faults.add(notFoundFault(c.rules.functions, request.Fn, err).Under(at + "/fn"))
		}
		return
	}
	if entry.Spec().Saved != nil {
		c.fault(fault.NotSupported, at+"/fn", "a saved chain cannot be an undo: name a function")
		return
	}
	args := request.Args
	if args == nil {
		args = []byte("{}")
	}
	env := l.env(at+"/args", p.number)
	// The undo of a step may refer to what its args may, and to $result. The default of a function may refer only to $result.
	if env.Item, env.Result = l.item || s.ForEach != nil, true; s.Undo == nil {
		env = refs.CompileScope{At: at + "/args", Result: true}
	}
	t, faults := refs.CompileTemplate(args, env)
	c.addFaults(l, faults)
	if t == nil {
		return
	}
	c.addUses(l, p, t.Uses())
	if s.Undo != nil { // a default is not the chain's fault
		c.warnings.add(t.Warnings()...)
		c.checkValues(entry, at+"/args", t.Value(), c.unknownArguments(l, p, t, at+"/args"), nil)
	}
	u := &plannedUndo{at: at, explicit: s.Undo != nil, fn: entry, args: t, text: undoText(entry.Spec().Name, args)}
	u.readsResult = slices.ContainsFunc(t.Uses(), func(use refs.Use) bool { return use.Root == refs.RootResult })
	p.undo, p.undoNeedsApproval = u, u.explicit && mustApprove(entry.Spec(), c.rules.approve)
}

// undoText returns a call as the journal stores it.
func undoText(function string, args []byte) []byte {
	w := &rawjson.Writer{B: []byte{'{'}}
	w.Text("fn", function)
	w.Raw("args", args)
	w.Close('}')
	return w.B
}

// onlyReads is the default of Override.WhyReadOnly.
const onlyReads = "this tool only reads: send the same to the tool chain"
