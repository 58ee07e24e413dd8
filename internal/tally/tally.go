// Package tally counts what a chain costs a model, and what the same calls cost one by one. `onecall bench` and the project's comparison
// count by its rules.
package tally

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// Side is the cost of one way to do a task: round trips, the tokens that the model writes to make the calls, and those that it reads in
// their answers.
type Side struct {
	RoundTrips int `json:"roundTrips"`
	Written    int `json:"written"`
	Read       int `json:"read"`
}

// Add adds the cost of another task.
func (s *Side) Add(more Side) {
	s.RoundTrips += more.RoundTrips
	s.Written += more.Written
	s.Read += more.Read
}

// Call is a call that a chain has made.
type Call struct {
	Function     string
	Args, Result []byte // Result of a failed call: its message
}

// Counted reports whether functions of a source count as calls of a model that makes calls one by one. Pure computation does not count:
// such a model has read all results, and needs no call to compute with them.
func Counted(source string) bool { return source != "expr" && source != "text" }

// Calls returns the cost of making the calls one by one.
func Calls(counter budget.Counter, calls []Call) Side {
	s := Side{RoundTrips: len(calls)}
	for i := range calls {
		s.Written += counter.Count(CallText(calls[i].Function, calls[i].Args), -1)
		s.Read += counter.Count(calls[i].Result, -1)
	}
	return s
}

// Chain returns the cost of sending a request to the tool chain and reading its answer.
func Chain(counter budget.Counter, request, answer []byte) Side {
	return Side{RoundTrips: 1, Written: counter.Count(CallText("chain", Request(request)), -1), Read: counter.Count(answer, -1)}
}

// CallText returns a call as a model writes it, without blanks.
func CallText(name string, args []byte) []byte {
	text := append([]byte(`{"name":"`+name+`","arguments":`), rawjson.AppendCompact(nil, args)...)
	return append(text, '}')
}

// Request returns a chain as a model would send it, without $schema and description, which are for readers of a file. If chain is not an
// object, it is returned unchanged.
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

// WithInput returns a request as a model would send it with an input. input is a JSON object that replaces the request's own input; empty:
// it stays. The values of set replace members of the input. If request is not an object, it is returned unchanged.
func WithInput(request, input []byte, set []chain.Setting) []byte {
	var all, members map[string]json.RawMessage
	if json.Unmarshal(request, &all) != nil {
		return request
	}
	if len(input) > 0 {
		all["input"] = input
	}
	_ = json.Unmarshal(all["input"], &members) // without an input, members stays nil
	if members == nil {
		members = map[string]json.RawMessage{}
	}
	for _, s := range set {
		value := json.RawMessage(s.Value)
		if !json.Valid(value) {
			value, _ = rawjson.Marshal(s.Value) // never fails for a text
		}
		members[s.Key] = value
	}
	if len(members) > 0 {
		all["input"], _ = rawjson.Marshal(members)
	}
	text, _ := rawjson.Marshal(all) // what was read can be written
	return text
}

// Waves returns the minimum number of round trips for the calls of a chain if a model makes calls side by side wherever the chain does.
// rounds has the rounds of each repeat, by the path of its step without elements, such as 3 or 3.1; a step that is not in it has one.
func Waves(plan *chain.DryRun, calls []Call, rounds map[string]int) int {
	return min(depth(&plan.DryChain, "", rounds), len(calls))
}

// depth returns the minimum number of calls of a chain that must be made one after another. All elements of a forEach count as one call.
// The rounds of a repeat do not: each needs the result of the one before.
func depth(c *chain.DryChain, prefix string, rounds map[string]int) (n int) {
	for _, wave := range c.Waves {
		deepest := 0
		for _, i := range wave {
			path := prefix + strconv.Itoa(i)
			switch s := &c.Steps[i]; {
			case s.Chain != nil:
				deepest = max(deepest, depth(s.Chain, path+".", rounds))
			case s.Function != "":
				if source, _, _ := strings.Cut(s.Function, "."); Counted(source) {
					deepest = max(deepest, rounds[path], 1)
				}
			}
		}
		n += deepest
	}
	return n
}
