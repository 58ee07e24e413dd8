package chain

import (
	"math"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// Mention is a function that a request names.
type Mention struct {
	Function string // its name as written in the request
	At       string // JSON Pointer of the name
}

// Mentions has the functions that a request names, whether or not they exist.
type Mentions struct {
	Functions []Mention
	// Resumes reports that the request continues an earlier run, which calls functions that the request need not name.
	Resumes bool
}

// FindMentions returns the functions that a request names: in steps, in inline chains, in steps that replace others, and in undo. If there
// are faults, the list may be incomplete.
func FindMentions(text []byte) (*Mentions, []*fault.Error) {
	d := &decoder{requestRules: &requestRules{maxSteps: math.MaxInt}}
	m := &Mentions{}
	compact, f := compactJSON(text, int64(len(text)))
	if f != nil {
		return m, []*fault.Error{f}
	}
	texts := textReader{maxBytes: int64(len(text))} // what a host sends over MCP is read so
	compact = texts.request(compact)
	d.faults.add(texts.faults.list...)
	root := gjson.ParseBytes(compact)
	if !root.IsObject() {
		return m, []*fault.Error{fault.New(fault.BadRequest, "a chain is a JSON object, {\"steps\":[…]}, not %s", describeValue(root))}
	}
	sent := newTable(compact)
	if steps := gjson.Parse(sent.get("steps")); sent.has("steps") {
		m.add(d.decodeSteps(steps, "/steps"), "/steps")
	}
	gjson.Parse(sent.get("replace")).ForEach(func(key, v gjson.Result) bool {
		at := fault.Key("/replace", key.String())
		var one step
		d.decodeStep(v, at, &one)
		m.addStep(&one, at)
		return true
	})
	_, _, fetches := findToken(root)
	isSet := func(name string) bool { return gjson.Parse(sent.get(name)).Type != gjson.Null }
	switch {
	case isSet("resume"), isSet("key") && !sent.has("steps"):
		m.Resumes = true
	case !sent.has("steps") && !fetches:
		d.fault(fault.BadRequest, "", "steps is missing")
	}
	return m, d.faults.list
}

func (m *Mentions) add(list []step, at string) {
	for i := range list {
		m.addStep(&list[i], fault.Index(at, i))
	}
}

func (m *Mentions) addStep(s *step, at string) {
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
