package steps

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/schema"
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

// A validation that would take exponential work is stopped, by its work or at its deadline, and Check then reports nothing.
func TestExponentialValidation(t *testing.T) {
	t.Parallel()
	hostile := map[string]string{
		"alternatives": recursive,
		"patterns": `{"not":{"$ref":"#/$defs/n"},"$defs":{"n":{"type":"object","patternProperties":{"a":{"$ref":"#/$defs/n"},` +
			`"^a":{"$ref":"#/$defs/n"},"a$":{"$ref":"#/$defs/n"}}}}}`,
		"dependent": `{"$ref":"#/$defs/n","$defs":{"m":{"properties":{"a":{"$ref":"#/$defs/n"}}},"n":{"type":"object",` +
			`"dependentSchemas":{"a":{"allOf":[{"$ref":"#/$defs/m"},{"$ref":"#/$defs/m"},{"$ref":"#/$defs/m"}]}}}}}`,
	}
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := calling(t, text, nil, answering(`1`, nil))
			if _, err := e.Call(t.Context(), []byte(nested(40))); fault.CodeOf(err) != fault.LimitExceeded {
				t.Errorf("got %v, want limit_exceeded", err)
			}
			if faults := e.Check([]byte(nested(40)), []schema.Unknown{{At: "/x"}}); faults != nil {
				t.Errorf("Check reports %v, want nothing", faults)
			}
			args := `{"text":"` + strings.Repeat("x", 1<<20) + `","a":` + nested(40) + `}` // its size allows much work
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			if _, err := e.Call(ctx, []byte(args)); fault.CodeOf(err) != fault.Timeout {
				t.Errorf("call with a deadline: got %v, want timeout", err)
			}
			// The stopped validation does not affect the next call.
			if _, err := e.Call(t.Context(), []byte(`{"a":{},"x":1}`)); fault.CodeOf(err) == fault.LimitExceeded {
				t.Errorf("a small call after a stopped validation: %v, want anything but limit_exceeded", err)
			}
		})
	}
}

// Arguments and results may be nested up to their limits, and no deeper.
func TestMaxDepth(t *testing.T) {
	t.Parallel()
	for depth, want := range map[int]fault.Code{schema.MaxArgumentsDepth: "", schema.MaxArgumentsDepth + 1: fault.BadArguments} {
		e := calling(t, `{"type":"object"}`, nil, answering(`1`, nil))
		if _, err := e.Call(t.Context(), []byte(nested(depth))); fault.CodeOf(err) != want {
			t.Errorf("call with arguments %d deep: got %v, want %q", depth, err, want)
		}
		if faults := e.Check([]byte(nested(depth)), nil); (len(faults) > 0) != (want != "") {
			t.Errorf("Check of arguments %d deep: got %v, want faults: %t", depth, faults, want != "")
		}
	}
	for depth, want := range map[int]fault.Code{schema.MaxResultDepth: "", schema.MaxResultDepth + 1: fault.Internal} {
		e := calling(t, "", nil, answering(nested(depth), nil))
		if _, err := e.Call(t.Context(), nil); fault.CodeOf(err) != want {
			t.Errorf("call with a result %d deep: got %v, want %q", depth, err, want)
		}
	}
}
