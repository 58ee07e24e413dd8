package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// named is a member of a step, or of an undo, that is not a field: its name may be that of a function, and its value the arguments. That is
// the short form of fn and args.
type named struct {
	name  string
	value gjson.Result
}

// collect returns a function that takes such members. A misspelt field stays unknown.
func collect(list *[]named, fields *decode.Table) func(string, gjson.Result) bool {
	return func(name string, v gjson.Result) bool {
		if isMisspelt(name, fields) {
			return false
		}
		*list = append(*list, named{name, v})
		return true
	}
}

// isMisspelt reports whether a name equals that of a field, but for case and separators.
func isMisspelt(name string, fields *decode.Table) bool {
	folded := steps.FoldName(name)
	return slices.ContainsFunc(fields.Names, func(field string) bool { return steps.FoldName(field) == folded })
}

// short returns the member that is the short form; nil: there is none, and told reports whether a fault says what is wrong with it. All
// other members are unknown fields. what is what has them: a step or an undo. calls: a field says already what it calls.
func (d *decoder) short(list []named, at, what string, fields *decode.Table, calls bool) (_ *named, told bool) {
	var short []named
	isCall := func(n named) bool { return n.value.IsObject() && !calls }
	call := slices.IndexFunc(list, isCall)
	for _, n := range list {
		if isCall(n) {
			short = append(short, n)
		} else if f := decode.Unknown("field", n.name, at, fields.Names); len(list) == 1 && !calls && len(f.Nearest) == 0 && !isLikeField(n.name) {
			args := "{…}"
			if n.value.Type == gjson.Null {
				args = "{}"
			}
			d.Fault(fault.BadRequest, fault.Key(at, n.name), "the value of a function's name is its arguments, an object: write %s",
				callText(n.name, args))
			told = true
		} else {
			if calls && n.value.IsObject() && len(f.Nearest) == 0 {
				f.Message = fmt.Sprintf("%s calls one function, and %s is the name of another: drop it, or what it stands beside", what,
					fault.Quote(fault.ClipRunes(n.name, 60)))
			}
			if call >= 0 && len(f.Nearest) == 0 {
				f.Message = fmt.Sprintf("%q is no field of %s. If it is an argument of %s, put it into its object", fault.ClipRunes(n.name, 60), what,
					fault.Quote(fault.ClipRunes(list[call].name, 60)))
			}
			if slices.Contains(requestTable.Names, n.name) {
				f.Nearest = nil
				f.Message = fmt.Sprintf("%q is a field of the chain, not of %s: put it beside steps", n.name, what)
			}
			d.Faults.Add(f)
		}
	}
	near := slices.IndexFunc(short, func(n named) bool {
		return !strings.Contains(n.name, ".") && len(fault.Nearest(n.name, fields.Names, 1)) > 0
	})
	switch {
	case len(short) == 0:
		return nil, told
	case len(short) == 1:
		return &short[0], false
	case len(short) == 2 && near >= 0: // that one is a misspelt field
		d.Faults.Add(decode.Unknown("field", short[near].name, at, fields.Names))
		return &short[1-near], false
	}
	var names []string
	for _, n := range short {
		names = append(names, fault.Quote(fault.ClipRunes(n.name, 60)))
	}
	d.Fault(fault.BadRequest, at, "%s calls one function, and these are %d names: %s", what, len(short), strings.Join(names, ", "))
	return nil, true
}

// callText shows the short form of a call.
func callText(name, args string) string {
	return "{" + string(rawjson.AppendQuote(nil, fault.ClipRunes(name, 60))) + ": " + args + "}"
}

// takeShort gives a step the function and arguments of the short form. It reports whether a fault says why the step calls nothing.
func (d *decoder) takeShort(s *StepRequest, list []named, at string) (told bool) {
	n, told := d.short(list, at, "a step", stepTable, s.Fn != "" || s.Expr != nil || s.Chain != nil)
	if n == nil || !d.withoutArgs(n, s.Args, at) {
		return told || n != nil
	}
	s.Fn, s.Args, s.short = n.name, []byte(n.value.Raw), n.name
	return false
}

// withoutArgs refuses args beside the short form, whose value they are.
func (d *decoder) withoutArgs(n *named, args []byte, at string) bool {
	if args != nil {
		d.Fault(fault.BadRequest, at+"/args", "the arguments of %s are its value: move what args has into it",
			fault.Quote(fault.ClipRunes(n.name, 60)))
		return false
	}
	d.hasShort = true
	return true
}

// decodeUndo decodes a step's undo.
func (d *decoder) decodeUndo(v gjson.Result, at string) *undoRequest {
	u := &undoRequest{}
	var list []named
	d.Object(v, at, undoTable, u, undoTable.Names, collect(&list, undoTable))
	if len(list) == 0 {
		return u
	}
	if n, _ := d.short(list, at, "an undo", undoTable, u.Fn != ""); n != nil && d.withoutArgs(n, u.Args, at) {
		u.Fn, u.Args, u.short = n.name, []byte(n.value.Raw), n.name
	}
	return u
}

// Canonical returns a compact chain in which each step, and each undo, names its function by fn and args.
func Canonical(compact []byte) []byte {
	return longForm.appendChain(make([]byte, 0, len(compact)+len(compact)/8), gjson.ParseBytes(compact))
}

// Shortened returns a compact chain of the form that Canonical gives, with the short form of each call that has one.
func Shortened(compact []byte) []byte { return shortForm.appendChain(nil, gjson.ParseBytes(compact)) }

// form writes a member of a step or an undo in its own way, or leaves it out, if it is a part of the call; done: it has. fields are those
// of the object.
type form func(dst []byte, object, key, v gjson.Result, fields *decode.Table) (out []byte, done bool)

// longForm writes fn and args for a member with an object that is not one of fields.
var longForm form = func(dst []byte, _, key, v gjson.Result, fields *decode.Table) ([]byte, bool) {
	if fields.Field(key.String()) != nil || !v.IsObject() {
		return dst, false
	}
	dst = append(append(dst, `"fn":`...), key.Raw...)
	return append(append(dst, `,"args":`...), v.Raw...), true
}

// shortForm writes the name of the function in place of fn and args, unless it could be taken for a field.
var shortForm form = func(dst []byte, object, key, _ gjson.Result, fields *decode.Table) ([]byte, bool) {
	fn, args, name := object.Get("fn"), object.Get("args"), key.String()
	hasArgs := args.Exists() && args.Type != gjson.Null
	switch {
	case name != "fn" && name != "args", fn.Type != gjson.String, isMisspelt(fn.Str, fields), hasArgs && !args.IsObject():
		return dst, false
	case name == "args":
		return dst, true
	}
	dst = append(append(dst, fn.Raw...), ':')
	if !hasArgs {
		return append(dst, "{}"...), true
	}
	return append(dst, args.Raw...), true
}

func (f form) appendChain(dst []byte, chain gjson.Result) []byte {
	return f.appendMembers(dst, chain, func(dst []byte, key string, v gjson.Result) []byte {
		if key == "steps" {
			return f.appendSteps(dst, v)
		}
		return append(dst, v.Raw...)
	}, nil)
}

// appendMembers appends an object, whose values value appends. Without fields it has no call.
func (f form) appendMembers(dst []byte, object gjson.Result, value func([]byte, string, gjson.Result) []byte,
	fields *decode.Table) []byte {
	if !object.IsObject() {
		return append(dst, object.Raw...)
	}
	dst = append(dst, '{')
	object.ForEach(func(key, v gjson.Result) bool {
		before := len(dst)
		if dst[before-1] != '{' {
			dst = append(dst, ',')
		}
		start := len(dst)
		if fields != nil {
			var done bool
			if dst, done = f(dst, object, key, v, fields); done {
				if len(dst) == start { // the member is left out
					dst = dst[:before]
				}
				return true
			}
		}
		dst = append(append(dst, key.Raw...), ':')
		dst = value(dst, key.String(), v)
		return true
	})
	return append(dst, '}')
}

func (f form) appendSteps(dst []byte, list gjson.Result) []byte {
	if !list.IsArray() {
		return append(dst, list.Raw...)
	}
	dst = append(dst, '[')
	list.ForEach(func(_, step gjson.Result) bool {
		if dst[len(dst)-1] != '[' {
			dst = append(dst, ',')
		}
		dst = f.appendMembers(dst, step, func(dst []byte, key string, v gjson.Result) []byte {
			switch key {
			case "undo":
				return f.appendMembers(dst, v, func(dst []byte, _ string, v gjson.Result) []byte { return append(dst, v.Raw...) }, undoTable)
			case "chain":
				return f.appendChain(dst, v)
			}
			return append(dst, v.Raw...)
		}, stepTable)
		return true
	})
	return append(dst, ']')
}
