package plan

import (
	"context"
	"slices"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// Undo is the call that undoes a step's call.
type Undo struct {
	Fn          *steps.Entry
	Args        *refs.Template
	ReadsResult bool   // args refer to $result
	Text        []byte // {"fn","args"} as written
	argsAt      string // the JSON Pointer of args
}

// compileUndo compiles how the step's calls are undone: as the step says, or else its function.
func (c *compiler) compileUndo(l *level, s *StepRequest, p *Step) {
	request, at := s.Undo, p.At+"/undo"
	switch {
	case p.Fn == nil && s.Fn != "" && p.Saved == nil: // fn has a fault already
		return
	case request != nil && p.Fn == nil:
		c.fault(fault.BadRequest, at, "undo goes with fn: give it to the steps that call functions")
		return
	case request == nil && (p.Fn == nil || p.Fn.Spec().Undo == nil || p.Effect == steps.Read):
		return
	case request == nil:
		request = &undoRequest{Fn: p.Fn.Spec().Undo.Function, Args: p.Fn.Spec().Undo.Args}
	}
	fnAt, argsAt := request.at(at)
	entry, err := c.view.Resolve(request.Fn)
	if err != nil {
		if s.Undo != nil { // a default that the caller may not use is ignored
			c.faults.Add(notFoundFault(c.rules.Functions, request.Fn, err).Under(fnAt))
		}
		return
	}
	if f := c.unboundFault(entry); f != nil {
		if s.Undo != nil {
			c.faults.Add(f.Under(fnAt))
		}
		return
	}
	if entry.Spec().Saved != nil {
		c.fault(fault.NotSupported, fnAt, "a saved chain cannot be an undo: name a function")
		return
	}
	args := orEmpty(request.Args)
	env := l.env(argsAt, p.Number)
	// The undo of a step may refer to what its args may, and to $result. The default of a function may refer only to $result.
	if env.Item, env.Result = l.item || s.ForEach != nil, true; s.Undo == nil {
		env = refs.CompileScope{At: argsAt, Result: true}
	}
	t, faults := refs.CompileTemplate(args, env)
	c.addFaults(l, faults)
	if t == nil {
		return
	}
	c.addUses(l, p, t.Uses())
	if s.Undo != nil { // a default is not the chain's fault
		c.Warnings.Add(t.Warnings()...)
		c.checkValues(entry, argsAt, t.Value(), c.unknownArguments(l, p, t, argsAt), nil)
	}
	u := newUndo(entry, t, args)
	u.argsAt = argsAt
	p.Undo, p.undoNeedsApproval = u, s.Undo != nil && MustApprove(entry.Spec(), c.rules.Approve)
}

// DefaultUndo returns how a call of a function is undone that no step makes: as the function says; nil: it cannot be. The caller may use
// the functions.
func DefaultUndo(function *steps.Entry, functions *steps.Registry) *Undo {
	u := function.Spec().Undo
	if u == nil {
		return nil
	}
	entry, err := functions.Resolve(u.Function)
	if err != nil || entry.Spec().Saved != nil {
		return nil
	}
	args := orEmpty(u.Args)
	t, faults := refs.CompileTemplate(args, refs.CompileScope{Result: true})
	if len(faults) > 0 {
		return nil
	}
	return newUndo(entry, t, args)
}

func newUndo(entry *steps.Entry, t *refs.Template, args []byte) *Undo {
	readsResult := slices.ContainsFunc(t.Uses(), func(use refs.Use) bool { return use.Root == refs.RootResult })
	return &Undo{Fn: entry, Args: t, ReadsResult: readsResult, Text: UndoText(entry.Spec().Name, args)}
}

// UndoText returns a call as the journal stores it.
func UndoText(function string, args []byte) []byte {
	w := &rawjson.Writer{B: []byte{'{'}}
	w.Text("fn", function)
	w.Raw("args", args)
	w.Close('}')
	return w.B
}

// OnlyReads is the default of Override.WhyReadOnly.
const OnlyReads = "this tool only reads: send the same to the tool chain"

// Call returns the resolved call that undoes an applied call, {"fn","error"} if it cannot be resolved, or nil if there is none
// or if its arguments need the result, which is not known.
func (u *Undo) Call(ctx context.Context, scope *refs.Scope, raw []byte) []byte {
	if u == nil || raw == nil && u.ReadsResult {
		return nil
	}
	undoScope := *scope
	undoScope.Result = raw
	args, err := u.Args.Resolve(ctx, nil, &undoScope)
	if err != nil {
		return u.Impossible(err)
	}
	return UndoText(u.Fn.Spec().Name, args)
}

// Impossible returns what stands for a call that cannot be resolved.
func (u *Undo) Impossible(err error) []byte {
	w := &rawjson.Writer{B: []byte{'{'}}
	w.Text("fn", u.Fn.Spec().Name)
	w.Text("error", fault.From(err, "").Message)
	w.Close('}')
	return w.B
}
