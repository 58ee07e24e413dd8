package steps_test

import (
	"context"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// TestFunctionCheck: Spec.Check is called with arguments that match the schema, learns which values are known, and may panic.
func TestFunctionCheck(t *testing.T) {
	t.Parallel()
	var knownAt []string
	r, err := steps.NewRegistry([]steps.Function{{
		Spec: steps.Spec{Name: "test.check", Input: []byte(`{"type":"object","properties":{"a":{"type":"string"},"b":{}}}`),
			Check: func(args []byte, known func(string) bool) *fault.Error {
				for _, at := range []string{"/a", "/b", "/b/c"} {
					if known(at) {
						knownAt = append(knownAt, at)
					}
				}
				if strings.Contains(string(args), "panic") {
					panic("boom")
				}
				if strings.Contains(string(args), "bad") {
					return &fault.Error{Code: fault.BadArguments, Message: "it is bad", At: "/a"}
				}
				return nil
			}},
		Call: func(context.Context, []byte) ([]byte, error) { return []byte("1"), nil },
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := r.Resolve("test.check")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args     string
		unknowns []schema.Unknown
		known    string
		want     string
	}{
		{`{"a":"bad"}`, nil, "/a /b /b/c", "it is bad"},
		{`{"a":"good","b":null}`, []schema.Unknown{{At: "/b"}}, "/a", ""},
		{`{"a":"good","b":{"c":null}}`, []schema.Unknown{{At: "/b/c"}}, "/a /b", ""},
		{`{"a":"panic"}`, nil, "/a /b /b/c", ""},
		{`{"a":7}`, nil, "", "want string"},
	} {
		knownAt = nil
		faults := e.Check([]byte(test.args), test.unknowns)
		got := ""
		if len(faults) > 0 {
			got = faults[0].Message
		}
		if test.want == "" && got != "" || !strings.Contains(got, test.want) || strings.Join(knownAt, " ") != test.known {
			t.Errorf("%s: %q, known %q; want %q, %q", test.args, got, knownAt, test.want, test.known)
		}
	}
}
