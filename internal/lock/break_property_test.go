package lock_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/lock"
	"github.com/onecall-mcp/onecall/steps"
)

// shape is a schema that the test draws, changes and fills.
type shape struct {
	kind     string // string, integer, boolean, words, array, object
	nullable bool
	words    []string
	maximum  int // of integers and of the lengths of texts; 0: none
	element  *shape
	members  map[string]*shape
	required map[string]bool
	closed   bool
	note     string
}

func drawShape(r *rand.Rand, depth int) *shape {
	kinds := []string{"string", "integer", "boolean", "words", "array", "object"}
	if depth == 0 {
		kinds = kinds[:4]
	}
	s := &shape{kind: kinds[r.IntN(len(kinds))], nullable: r.IntN(6) == 0}
	switch s.kind {
	case "words":
		s.words = []string{"red", "green", "blue"}[:1+r.IntN(3)]
	case "array":
		s.element = drawShape(r, depth-1)
	case "object":
		return drawObject(r, depth)
	case "string", "integer":
		s.maximum = r.IntN(2) * 5
	}
	return s
}

func drawObject(r *rand.Rand, depth int) *shape {
	s := &shape{kind: "object", members: map[string]*shape{}, required: map[string]bool{}, closed: r.IntN(3) == 0}
	for _, name := range []string{"a", "b", "c"}[:1+r.IntN(3)] {
		s.members[name], s.required[name] = drawShape(r, depth-1), r.IntN(2) == 0
	}
	return s
}

func (s *shape) schema() map[string]any {
	o := map[string]any{"type": s.kind}
	if s.note != "" {
		o["description"] = s.note
	}
	switch s.kind {
	case "words":
		words := []any{}
		for _, word := range s.words {
			words = append(words, word)
		}
		if s.nullable {
			words = append(words, nil)
		}
		return map[string]any{"enum": words}
	case "string":
		if s.maximum > 0 {
			o["maxLength"] = s.maximum
		}
	case "integer":
		if s.maximum > 0 {
			o["maximum"] = s.maximum
		}
	case "array":
		o["items"] = s.element.schema()
	case "object":
		properties, required := map[string]any{}, []string{}
		for _, name := range slices.Sorted(maps.Keys(s.members)) {
			properties[name] = s.members[name].schema()
			if s.required[name] {
				required = append(required, name)
			}
		}
		o["properties"], o["required"] = properties, required
		if s.closed {
			o["additionalProperties"] = false
		}
	}
	if s.nullable {
		return map[string]any{"anyOf": []any{o, map[string]any{"type": "null"}}}
	}
	return o
}

func (s *shape) text() []byte {
	text, err := json.Marshal(s.schema())
	if err != nil {
		panic(err)
	}
	return text
}

// clone returns a copy, and all shapes in it.
func (s *shape) clone() (_ *shape, all []*shape) {
	c := *s
	c.words, c.members, c.required = slices.Clone(s.words), maps.Clone(s.members), maps.Clone(s.required)
	all = []*shape{&c}
	var inner []*shape
	if c.element != nil {
		c.element, inner = c.element.clone()
		all = append(all, inner...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.members)) {
		c.members[name], inner = c.members[name].clone()
		all = append(all, inner...)
	}
	return &c, all
}

// change changes one thing.
func (s *shape) change(r *rand.Rand) {
	names := slices.Sorted(maps.Keys(s.members))
	switch n := r.IntN(8); {
	case s.kind == "object" && n == 0:
		s.members["d"], s.required["d"] = drawShape(r, 0), r.IntN(2) == 0
	case s.kind == "object" && n == 1 && len(names) > 0:
		delete(s.members, names[0])
		delete(s.required, names[0])
	case s.kind == "object" && n == 2 && len(names) > 0:
		s.required[names[0]] = !s.required[names[0]]
	case s.kind == "object" && n == 3:
		s.closed = !s.closed
	case s.kind == "object" && n == 4 && len(names) > 0:
		s.members["e"], s.required["e"] = s.members[names[0]], s.required[names[0]]
		delete(s.members, names[0])
		delete(s.required, names[0])
	case s.kind == "words" && n < 3:
		s.words = []string{"red", "green", "blue"}[:1+r.IntN(3)]
	case s.kind == "string" && n < 2, s.kind == "integer" && n < 2:
		s.maximum = r.IntN(8)
	case n < 5:
		s.nullable = !s.nullable && s.kind != "object"
	case n < 6 && s.kind != "object":
		*s = *drawShape(r, 1)
	default:
		s.note += "x"
	}
}

// fill draws a value, and what a chain gives for it: the value itself, or a reference to it.
func (s *shape) fill(r *rand.Rand, made map[string]any) (value, given any) {
	switch {
	case s.nullable && r.IntN(4) == 0:
		value = nil
	case s.kind == "object":
		values, givens := map[string]any{}, map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.members)) {
			if s.required[name] || r.IntN(2) == 0 {
				values[name], givens[name] = s.members[name].fill(r, made)
			}
		}
		value, given = values, givens
	case s.kind == "array":
		values, givens := []any{}, []any{}
		for range r.IntN(3) {
			one, oneGiven := s.element.fill(r, made)
			values, givens = append(values, one), append(givens, oneGiven)
		}
		value, given = values, givens
	case s.kind == "words":
		value = s.words[r.IntN(len(s.words))]
	case s.kind == "string":
		value = "12345"[:r.IntN(6)]
	case s.kind == "integer":
		value = r.IntN(6)
	case s.kind == "boolean":
		value = r.IntN(2) == 0
	}
	if given == nil {
		given = value
	}
	if r.IntN(2) == 0 {
		name := fmt.Sprintf("v%d", len(made))
		made[name], given = value, "$0."+name
	}
	return value, given
}

// engineWith returns an engine with the function srv.t and one that returns anything.
func engineWith(t *testing.T, input, output []byte) (*chain.Engine, *steps.Registry) {
	t.Helper()
	functions, err := steps.NewRegistry([]steps.Function{
		{Spec: steps.Spec{Name: "src.v", Effect: steps.Read}, Call: neverCalled},
		{Spec: steps.Spec{Name: "srv.t", Effect: steps.Read, Input: input, Output: output}, Call: neverCalled},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := chain.New(&chain.Options{Functions: functions})
	if err != nil {
		t.Fatal(err)
	}
	return engine, functions
}

// TestHarmlessChanges draws functions, changes of them, and chains that call them. If no change breaks a chain and the chain compiles with
// the function as it is now, the arguments of a run from before are accepted now. A chain whose arguments are all references compiles if
// no change breaks it.
func TestHarmlessChanges(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(17, 5))
	harmless, broken := 0, 0
	for range 2000 {
		was, result := drawObject(r, 2), drawObject(r, 1)
		is, all := was.clone()
		all[r.IntN(len(all))].change(r)
		isResult, _ := result.clone()
		if r.IntN(3) == 0 {
			isResult.change(r)
		}
		made := map[string]any{}
		value, given := was.fill(r, made)
		if _, isObject := given.(map[string]any); !isObject {
			continue // the arguments as a whole are no reference
		}
		args, err := json.Marshal(given)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Appendf(nil, `{"steps":[{"fn":"src.v"},{"fn":"srv.t","args":%s}],"return":["$1.a","$1?.b"]}`, args)
		check := &chain.Caller{Override: chain.Override{Check: true}}
		before, _ := engineWith(t, was.text(), result.text())
		answer := before.Run(t.Context(), text, check)
		if !answer.OK {
			continue // such as $1.a of a result that has none
		}
		after, functions := engineWith(t, is.text(), isResult.text())
		locked := lock.Of(&steps.Spec{Name: "srv.t", Input: was.text(), Output: result.text()})
		now := lock.Of(&steps.Spec{Name: "srv.t", Input: is.text(), Output: isResult.text()})
		var breaks []lock.Break
		for i := range answer.Checked.Uses {
			if use := &answer.Checked.Uses[i]; use.Function == "srv.t" {
				breaks = lock.Breaks(lock.Changes(&locked, &now), use)
			}
		}
		compiled := after.Run(t.Context(), text, check)
		if len(breaks) > 0 || !compiled.OK {
			broken++
			if len(breaks) == 0 && allMade(given) {
				t.Errorf("%s does not compile, and no change breaks it: %s\nbefore %s\nafter  %s\nresult %s, %s", text, compiled.JSON, was.text(),
					is.text(), result.text(), isResult.text())
			}
			continue
		}
		harmless++
		concrete, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		entry, err := functions.Resolve("srv.t")
		if err != nil {
			t.Fatal(err)
		}
		if faults := entry.Check(concrete, nil); len(faults) > 0 {
			t.Errorf("%s was accepted, and is not now: %v\nchain %s\nbefore %s\nafter  %s", concrete, faults[0], text, was.text(), is.text())
		}
	}
	if harmless < 200 || broken < 200 {
		t.Errorf("%d harmless and %d broken: the test draws too little of one", harmless, broken)
	}
}

// allMade reports whether references make every value of arguments.
func allMade(given any) bool {
	switch given := given.(type) {
	case map[string]any:
		for _, member := range given {
			if !allMade(member) {
				return false
			}
		}
		return true
	case string:
		return len(given) > 1 && given[0] == '$'
	}
	return false
}
