package plan

import (
	"math"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
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
	d := &decoder{RequestRules: &RequestRules{MaxSteps: math.MaxInt}}
	m := &Mentions{}
	compact, f := CompactJSON(text, int64(len(text)))
	if f != nil {
		return m, []*fault.Error{f}
	}
	texts := textReader{maxBytes: int64(len(text))} // what a host sends over MCP is read so
	compact = texts.request(compact)
	d.Faults.Add(texts.faults.List...)
	root := gjson.ParseBytes(compact)
	if !root.IsObject() {
		return m, []*fault.Error{notAChain(root)}
	}
	sent := rawjson.NewTable(compact)
	if steps := gjson.Parse(sent.Get("steps")); sent.Has("steps") {
		m.add(d.decodeSteps(steps, "/steps"), "/steps")
	}
	gjson.Parse(sent.Get("replace")).ForEach(func(key, v gjson.Result) bool {
		at := fault.Key("/replace", key.String())
		var one StepRequest
		d.decodeStep(v, at, &one)
		m.addStep(&one, at)
		return true
	})
	_, _, fetches := findToken(root)
	isSet := func(name string) bool { return gjson.Parse(sent.Get(name)).Type != gjson.Null }
	switch {
	case isSet("resume"), isSet("key") && !sent.Has("steps"):
		m.Resumes = true
	case !sent.Has("steps") && !fetches:
		d.Faults.Add(withoutSteps(root))
	}
	return m, d.Faults.List
}

func (m *Mentions) add(list []StepRequest, at string) {
	for i := range list {
		m.addStep(&list[i], fault.Index(at, i))
	}
}

func (m *Mentions) addStep(s *StepRequest, at string) {
	if s.Fn != "" {
		fnAt := at + "/fn"
		if s.short != "" {
			fnAt = fault.Key(at, s.short)
		}
		m.Functions = append(m.Functions, Mention{s.Fn, fnAt})
	}
	if s.Undo != nil {
		fnAt, _ := s.Undo.at(at + "/undo")
		m.Functions = append(m.Functions, Mention{s.Undo.Fn, fnAt})
	}
	if s.Chain != nil {
		m.add(s.Chain.Steps, at+"/chain/steps")
	}
}
