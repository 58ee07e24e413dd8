// Package tally counts what a chain, and the same calls made one by one, cost a model. `onecall bench` and the project's comparison
// count by its rules.
package tally

import (
	"encoding/json"
	"strings"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// Side is what one way costs. Tokens are of what the model writes to make the calls, and of what it reads of their answers.
type Side struct {
	RoundTrips int `json:"roundTrips"`
	Written    int `json:"written"`
	Read       int `json:"read"`
}

// Add adds what another task costs.
func (s *Side) Add(more Side) {
	s.RoundTrips += more.RoundTrips
	s.Written += more.Written
	s.Read += more.Read
}

// Call is a call that a chain has made.
type Call struct {
	Function     string
	Args, Result []byte // of a call that failed: what it said
}

// Counted reports whether a function of a source is a call for a model that makes calls one by one. Computing alone is none: it has
// read all results.
func Counted(source string) bool { return source != "expr" && source != "text" }

// Calls is what a model pays that makes the calls one by one.
func Calls(counter budget.Counter, calls []Call) Side {
	s := Side{RoundTrips: len(calls)}
	for i := range calls {
		s.Written += counter.Count(CallText(calls[i].Function, calls[i].Args), -1)
		s.Read += counter.Count(calls[i].Result, -1)
	}
	return s
}

// Chain is what a model pays that sends a request to the tool chain.
func Chain(counter budget.Counter, request, answer []byte) Side {
	return Side{RoundTrips: 1, Written: counter.Count(CallText("chain", Request(request)), -1), Read: counter.Count(answer, -1)}
}

// CallText is a call as a model writes it: without blanks.
func CallText(name string, args []byte) []byte {
	text := append([]byte(`{"name":"`+name+`","arguments":`), rawjson.AppendCompact(nil, args)...)
	return append(text, '}')
}

// Request is a chain as a model would send it: without what is for readers of a file. What is no object stays as it is.
func Request(chain []byte) []byte {
	var all map[string]json.RawMessage
	if json.Unmarshal(chain, &all) != nil {
		return chain
	}
	delete(all, "$schema")
	delete(all, "description")
	text, _ := rawjson.Marshal(all) // what was read can be written
	return text
}

// WithInput is a chain as a model would send it with an input: a JSON object that replaces that of the chain, if there is one, and
// values over it. What is no object stays as it is.
func WithInput(request, input []byte, set []chain.Setting) []byte {
	var all, members map[string]json.RawMessage
	if json.Unmarshal(request, &all) != nil {
		return request
	}
	if len(input) > 0 {
		all["input"] = input
	}
	_ = json.Unmarshal(all["input"], &members) // without one there is nothing to add to
	if members == nil {
		members = map[string]json.RawMessage{}
	}
	for _, s := range set {
		value := json.RawMessage(s.Value)
		if !json.Valid(value) {
			value, _ = rawjson.Marshal(s.Value) // a text always can be
		}
		members[s.Key] = value
	}
	if len(members) > 0 {
		all["input"], _ = rawjson.Marshal(members)
	}
	text, _ := rawjson.Marshal(all) // what was read can be written
	return text
}

// Waves is how many round trips a model needs at least for the calls of a chain, if it makes them side by side wherever the chain does.
func Waves(plan *chain.DryRun, calls []Call) int { return min(depth(&plan.DryChain), len(calls)) }

// depth is how many calls of a chain, at least, have to wait for one another: elements count as one, and so do rounds of repeat.
func depth(c *chain.DryChain) (n int) {
	for _, wave := range c.Waves {
		deepest := 0
		for _, i := range wave {
			switch s := &c.Steps[i]; {
			case s.Chain != nil:
				deepest = max(deepest, depth(s.Chain))
			case s.Function != "":
				if source, _, _ := strings.Cut(s.Function, "."); Counted(source) {
					deepest = max(deepest, 1)
				}
			}
		}
		n += deepest
	}
	return n
}
