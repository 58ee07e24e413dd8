package mcp_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// TestTraceReachesServers: a call carries the trace of its step in _meta, in place of the trace that a session's client sent.
func TestTraceReachesServers(t *testing.T) {
	t.Parallel()
	const (
		ours    = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		theirs  = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
		message = `{"_meta":{"traceparent":"` + theirs + `","tracestate":"t=1","mine":1}}`
	)
	eachTransport(t, nil, func(t *testing.T, s *mcpsource.Source) {
		l := openSession(t, s, &newClient("ann", "2025-11-25").DownstreamClient)
		traced := steps.WithTrace(t.Context(), ours, "o=1")
		for _, c := range []struct {
			name                string
			ctx                 context.Context
			parent, state, mine string
		}{
			{"no trace", t.Context(), "", "", ""},
			{"a trace", traced, ours, "o=1", ""},
			{"without a state", steps.WithTrace(t.Context(), ours, ""), ours, "", ""},
			{"of the client", l.CallContext(t.Context(), json.RawMessage(message)), theirs, "t=1", "1"},
			{"of both", l.CallContext(traced, json.RawMessage(message)), ours, "o=1", "1"},
			{"of both, without a state", l.CallContext(steps.WithTrace(t.Context(), ours, ""), json.RawMessage(message)), ours, "", "1"},
		} {
			var meta string
			ctx := steps.WithCallbacks(c.ctx, &steps.Callbacks{Verbatim: func(result []byte) {
				meta = gjson.GetBytes(result,
					"content.0.text").Str
			}})
			if _, err := function(t, s, "shelf.meta").Call(ctx, []byte(`{}`)); err != nil {
				t.Fatal(err)
			}
			if p, s, m := gjson.Get(meta, "traceparent").String(), gjson.Get(meta, "tracestate").String(),
				gjson.Get(meta, "mine").Raw; p != c.parent || s != c.state || m != c.mine {
				t.Errorf("%s: got _meta %s, want traceparent %q, tracestate %q, mine %s", c.name, meta, c.parent, c.state, c.mine)
			}
		}
	})
}

// Progress of a tool puts off a limit that can be put off, also if nobody else listens.
func TestProgressIsASignOfLife(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"stdio", "http sessions"} {
		s := openReady(t, transports[transport](t))
		for tool, want := range map[string]bool{"shelf.tell": true, "shelf.echo": false} {
			ctx, cancel := steps.WithPatience(t.Context(), time.Hour)
			if _, err := function(t, s, tool).Call(ctx, []byte(`{}`)); err != nil {
				t.Errorf("%s: %v", tool, err)
			}
			if _, progressed := steps.Progressed(ctx); progressed != want {
				t.Errorf("%s, %s: progress is %t, want %t", transport, tool, progressed, want)
			}
			cancel()
		}
	}
}
