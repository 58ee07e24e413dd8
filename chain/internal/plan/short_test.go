package plan

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestShortStepsAreTheSameChain: however the steps, and their undos, of a chain are written, its canonical text is the same.
func TestShortStepsAreTheSameChain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		short, long := drawSteps(t, 0)
		q := &RequestRules{MaxBytes: DefaultMaxBytes, MaxSteps: DefaultMaxSteps, TopFields: requestTable.Names}
		e := ReadEnvelope([]byte(`{"steps":`+short+`}`), 0, q)
		r := e.DecodeChain(e.Chain)
		if len(e.Faults.List) > 0 {
			t.Fatalf("%s: %v", short, e.Faults.List)
		}
		if want := `{"steps":` + long + `}`; r.Text != want || r.stepsRaw != long {
			t.Fatalf("%s is\n%s, want\n%s", short, r.Text, want)
		}
		if again := string(Canonical([]byte(r.Text))); again != r.Text {
			t.Fatalf("%s is not the canonical form of itself: %s", r.Text, again)
		}
	})
}

// drawSteps draws steps in any form, and the same in the canonical one.
func drawSteps(t *rapid.T, depth int) (short, long string) {
	var shorts, longs []string
	for range rapid.IntRange(1, 3).Draw(t, "steps") {
		s, l := drawStep(t, depth)
		shorts, longs = append(shorts, "{"+s+"}"), append(longs, "{"+l+"}")
	}
	return "[" + strings.Join(shorts, ",") + "]", "[" + strings.Join(longs, ",") + "]"
}

func drawStep(t *rapid.T, depth int) (short, long string) {
	fields := rapid.SampledFrom([]string{"", `"id":"a",`, `"retry":{"max":1},`, `"when":true,"orElse":{"x.y":{}},`}).Draw(t, "fields")
	if depth < 2 && rapid.Bool().Draw(t, "inline") {
		s, l := drawSteps(t, depth+1)
		return fields + `"chain":{"steps":` + s + `}`, fields + `"chain":{"steps":` + l + `}`
	}
	short, long = drawCall(t)
	short, long = fields+short, fields+long
	if rapid.Bool().Draw(t, "undo") {
		s, l := drawCall(t)
		short, long = short+`,"undo":{`+s+`}`, long+`,"undo":{`+l+`}`
	}
	return short, long
}

func drawCall(t *rapid.T) (short, long string) {
	name := rapid.SampledFrom([]string{"a.b", "a/b~c", `q\"uote`, "steps", "x"}).Draw(t, "name")
	args := rapid.SampledFrom([]string{"{}", `{"fn":"x","args":{}}`, `{"a.b":{"c":"$0"}}`}).Draw(t, "args")
	long = `"fn":"` + name + `","args":` + args
	if rapid.Bool().Draw(t, "short") {
		return `"` + name + `":` + args, long
	}
	return long, long
}

// TestChainFieldInStep: a field of the chain that stands in a step is told where it belongs, however the step is written.
func TestChainFieldInStep(t *testing.T) {
	t.Parallel()
	for _, step := range []string{`{"fn":"x.y","onError":"continue"}`, `{"x.y":{},"onError":"continue"}`, `{"x.y":{},"return":"$0"}`} {
		q := &RequestRules{MaxBytes: DefaultMaxBytes, MaxSteps: DefaultMaxSteps, TopFields: requestTable.Names}
		e := ReadEnvelope([]byte(`{"steps":[`+step+`]}`), 0, q)
		e.DecodeChain(e.Chain)
		if list := e.Faults.List; len(list) != 1 || !strings.Contains(list[0].Message, "is a field of the chain, not of a step: put it beside steps") {
			t.Errorf("%s: %v", step, list)
		}
	}
}
