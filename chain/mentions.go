package chain

import (
	"math"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// Mention is a function that a request names.
type Mention struct {
	Function string // as it is written
	At       string // the JSON Pointer of the name
}

// Mentioned is what can be known of a request without its functions.
type Mentioned struct {
	Functions []Mention
	// Resumes: the request goes on with an earlier run, which calls functions that it need not name.
	Resumes bool
}

// Mentions gives the functions that a request names: those of steps, of inline chains, of steps that replace others, and those that take
// calls back. With faults something could not be read as Run reads it, and more may be named than what is given.
func Mentions(text []byte) (*Mentioned, []*fault.Error) {
	d := &decoder{maxSteps: math.MaxInt}
	m := &Mentioned{}
	compact, f := compactJSON(text, int64(len(text)))
	if f != nil {
		return m, []*fault.Error{f}
	}
	root := gjson.ParseBytes(compact)
	if !root.IsObject() {
		return m, []*fault.Error{fault.New(fault.BadRequest, "a chain is a JSON object, {\"steps\":[…]}, not %s", kindOf(root))}
	}
	sent := newTable(compact)
	if steps := gjson.Parse(sent.get("steps")); sent.has("steps") {
		m.add(d.steps(steps, "/steps"), "/steps")
	}
	gjson.Parse(sent.get("replace")).ForEach(func(key, v gjson.Result) bool {
		at := fault.Key("/replace", key.String())
		var one step
		d.step(v, at, &one)
		m.addStep(&one, at)
		return true
	})
	_, _, fetches := findToken(root)
	said := func(name string) bool { return gjson.Parse(sent.get(name)).Type != gjson.Null }
	switch {
	case said("resume"), said("key") && !sent.has("steps"):
		m.Resumes = true
	case !sent.has("steps") && !fetches:
		d.fault(fault.BadRequest, "", "steps is missing")
	}
	return m, d.faults.list
}

func (m *Mentioned) add(list []step, at string) {
	for i := range list {
		m.addStep(&list[i], fault.Index(at, i))
	}
}

func (m *Mentioned) addStep(s *step, at string) {
	if s.Fn != "" {
		m.Functions = append(m.Functions, Mention{s.Fn, at + "/fn"})
	}
	if s.Undo != nil {
		m.Functions = append(m.Functions, Mention{s.Undo.Fn, at + "/undo/fn"})
	}
	if s.Chain != nil {
		m.add(s.Chain.Steps, at+"/chain/steps")
	}
}
