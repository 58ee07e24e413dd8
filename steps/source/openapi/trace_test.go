package openapi

import (
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// TestTraceReachesServices: a call carries the trace of its step, unless its arguments or the configuration give another.
func TestTraceReachesServices(t *testing.T) {
	t.Parallel()
	const ours, theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
	op := securedOperation("GET")
	op.parameters = []parameter{{arg: "traceparent", name: "traceparent", in: "header", style: "simple"}}
	for _, test := range []struct {
		name          string
		parent, args  string // the trace and the arguments of the step; parent "": no trace
		headers       map[string]string
		traced, state string
	}{
		{"no trace", "", `{}`, nil, "", ""},
		{"a trace", ours, `{}`, nil, ours, "o=1"},
		{"the operation's own", ours, `{"traceparent":"` + theirs + `"}`, nil, theirs, ""},
		{"the configuration's own", ours, `{}`, map[string]string{"traceparent": theirs}, theirs, ""},
	} {
		var c capture
		s := sourceOf(t, Options{Client: &c, BaseURL: "https://api.example.com", Headers: test.headers}, &document{operations: []operation{op}})
		ctx := t.Context()
		if test.parent != "" {
			ctx = steps.WithTrace(ctx, test.parent, "o=1")
		}
		if _, err := s.Functions()[0].Call(ctx, []byte(test.args)); err != nil {
			t.Fatal(err)
		}
		if got, state := c.last.header.Get("Traceparent"), c.last.header.Get("Tracestate"); got != test.traced || state != test.state {
			t.Errorf("%s: got traceparent %q, tracestate %q, want %q, %q", test.name, got, state, test.traced, test.state)
		}
	}
}
