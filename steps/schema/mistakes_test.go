package schema

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// recursive is a schema with a tree of alternatives that grows by four with each level of the arguments.
const recursive = `{"$ref":"#/$defs/n","$defs":{"n":{"anyOf":[
	{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"required":["x"]},{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},
	"required":["y"]},
	{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"required":["z"]},{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},
	"required":["w"]}]}}}`

func nested(depth int) string {
	return strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
}

// The message about alternatives within alternatives stays short.
func TestAlternativesOfAlternatives(t *testing.T) {
	t.Parallel()
	e, _ := entry(recursive, "")
	faults := e.Check([]byte(nested(6)), nil)
	if len(faults) != 1 || len(faults[0].Message) > maxSentence+100 || !strings.Contains(faults[0].Message, "matches none of 4 alternatives") {
		t.Errorf("got %v, want one of at most %d bytes: matches none of 4 alternatives", faults, maxSentence+100)
	}
}

// Many mistakes cost no more than the first of them, and the message counts them.
func TestManyMistakes(t *testing.T) {
	t.Parallel()
	const many = 20_000
	var properties, keys, items strings.Builder
	for i := range 300 {
		fmt.Fprintf(&properties, `"property_%d":{"type":"integer"},`, i)
	}
	for i := range many {
		fmt.Fprintf(&keys, `"unknown_%06d":%d,`, i, i)
		items.WriteString(`"x",`)
	}
	tests := []struct {
		name, schema, args string
		want               int // mistakes that are not reported individually
	}{
		{"unknown keys", `{"properties":{` + strings.TrimSuffix(properties.String(), ",") + `},"additionalProperties":false}`,
			`{` + strings.TrimSuffix(keys.String(), ",") + `}`, many - maxFaults},
		{"misspelt keys", `{"required":["name"],"properties":{` + properties.String() + `"name":{}}}`,
			`{` + strings.TrimSuffix(keys.String(), ",") + `}`, 0},
		{"unfit keys", `{"propertyNames":{"maxLength":3}}`, `{` + strings.TrimSuffix(keys.String(), ",") + `}`, many - maxFaults},
		{"elements", `{"properties":{"a":{"items":{"type":"integer"}}}}`, `{"a":[` + strings.TrimSuffix(items.String(), ",") + `]}`,
			many - maxFaults},
		{"large exponents", `{"properties":{"a":{"items":{"type":"integer"}}}}`,
			`{"a":[` + strings.TrimSuffix(strings.Repeat("1e9999,", many), ",") + `]}`, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e, _ := entry(test.schema, "")
			faults := e.Check([]byte(test.args), nil)
			if len(faults) == 0 || len(faults) > maxFaults {
				t.Fatalf("got %d faults, want 1 to %d", len(faults), maxFaults)
			}
			remainder := ""
			if test.want > 0 {
				remainder = " (and " + strconv.Itoa(test.want) + " more)"
			}
			if last := faults[len(faults)-1].Message; !strings.HasSuffix(last, remainder) || remainder == "" && strings.Contains(last, "more)") {
				t.Errorf("the last fault is %q, want the end %q", last, remainder)
			}
			err := e.Call(t.Context(), []byte(test.args))
			if f, _ := fault.As(err); f == nil || f.Code != fault.BadArguments || len(f.Message) > maxJoinedBytes+100 {
				t.Errorf("call: got %v, want bad_arguments with a bounded message", err)
			}
		})
	}
}

// BenchmarkUnknownKeys has arguments without any known key; time should grow with their number. The baseline decodes them.
func BenchmarkUnknownKeys(b *testing.B) {
	e, _ := entry(grepSchema, "")
	for _, n := range []int{1000, 10_000, 100_000} {
		var keys strings.Builder
		for i := range n {
			fmt.Fprintf(&keys, `"unknown_%06d":%d,`, i, i)
		}
		args := []byte(`{` + strings.TrimSuffix(keys.String(), ",") + `}`)
		b.Run(fmt.Sprintf("check/%d", n), func(b *testing.B) {
			for b.Loop() {
				if faults := e.Check(args, nil); len(faults) != maxFaults {
					b.Fatalf("%d faults, want %d", len(faults), maxFaults)
				}
			}
		})
		b.Run(fmt.Sprintf("baseline/%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, f := decode(args); f != nil {
					b.Fatal(f)
				}
			}
		})
	}
}
