package httpbody_test

import (
	"context"
	"net/http"
	"reflect"
	"testing"

	"github.com/onecall-mcp/onecall/internal/httpbody"

	"github.com/onecall-mcp/onecall/steps"
)

func TestSetTrace(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	with := func(parent, state string) context.Context { return steps.WithTrace(t.Context(), parent, state) }
	for _, c := range []struct {
		name string
		ctx  context.Context
		set  http.Header
		want http.Header
	}{
		{"none", t.Context(), http.Header{}, http.Header{}},
		{"a trace", with(parent, "o=1"), http.Header{"A": {"b"}}, http.Header{"A": {"b"}, "Traceparent": {parent}, "Tracestate": {"o=1"}}},
		{"without a state", with(parent, ""), http.Header{}, http.Header{"Traceparent": {parent}}},
		{"the request's own", with(parent, "o=1"), http.Header{"Traceparent": {"x"}}, http.Header{"Traceparent": {"x"}}},
		{"a state of its own", with(parent, "o=1"), http.Header{"Tracestate": {"x"}}, http.Header{"Tracestate": {"x"}}},
		{"no header", with("a\r\nb: c", "o=1"), http.Header{}, http.Header{}},
		{"no header for a state", with(parent, "a\nb"), http.Header{}, http.Header{"Traceparent": {parent}}},
	} {
		if httpbody.SetTrace(c.ctx, c.set); !reflect.DeepEqual(c.set, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.set, c.want)
		}
	}
}
