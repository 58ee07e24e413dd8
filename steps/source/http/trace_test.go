package http_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/steps"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
)

// TestTraceReachesServers: a request carries the trace of its step, unless it names another itself. TestRevalidation has a row in which a
// stored answer is revalidated in another trace.
func TestTraceReachesServers(t *testing.T) {
	t.Parallel()
	const ours, theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
	s, server := withEndpoints(t, echoing, httpsource.Endpoint{Name: "plain", URL: "URL/"},
		httpsource.Endpoint{Name: "own", URL: "URL/", Headers: map[string]string{"traceparent": theirs}},
		httpsource.Endpoint{Name: "given", URL: "URL/", Method: "POST", Headers: map[string]string{"tracestate": "$input.state"}})
	open, other := serve(t, httpsource.Options{}, echoing)
	for _, test := range []struct {
		name, fn, args string
		source         *httpsource.Source
		traced         bool
		parent, state  string
	}{
		{"no trace", "http.plain", `{}`, s, false, "", ""},
		{"an endpoint", "http.plain", `{}`, s, true, ours, "o=1"},
		{"a header of the configuration", "http.own", `{}`, s, true, "[redacted]", ""},
		{"a header of the arguments", "http.given", `{"state":"t=1"}`, s, true, "", "t=1"},
		{"a header that is left out", "http.given", `{"state":null}`, s, true, ours, "o=1"},
		{"get", "http.get", `{"url":"URL/"}`, open, true, ours, "o=1"},
		{"a header of get", "http.get", `{"url":"URL/","headers":{"traceparent":"` + theirs + `"}}`, open, true, theirs, ""},
	} {
		ctx := t.Context()
		if test.traced {
			ctx = steps.WithTrace(ctx, ours, "o=1")
		}
		result, err := invoke(ctx, test.source, test.fn, strings.ReplaceAll(test.args, "URL", other.URL))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		header := gjson.GetBytes(result, "header")
		if !header.Exists() {
			header = gjson.GetBytes(result, "body.header")
		}
		if p, s := header.Get("Traceparent.0").Str, header.Get("Tracestate.0").Str; p != test.parent || s != test.state {
			t.Errorf("%s: got traceparent %q, tracestate %q, want %q, %q", test.name, p, s, test.parent, test.state)
		}
	}
	if server.URL == other.URL {
		t.Error("both servers have the same URL")
	}
}

// TestIdempotencyKey: the key of a call is sent in the configured header, whatever the arguments say.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	s, _ := withEndpoints(t, echoing,
		httpsource.Endpoint{Name: "pay", URL: "URL/", Method: "POST", Headers: map[string]string{"idempotency-key": "$input.key"}})
	ctx := steps.WithIdempotencyKey(t.Context(), "Idempotency-Key", "oc-1")
	result, err := invoke(ctx, s, "http.pay", `{"key":"mine"}`)
	if got := gjson.GetBytes(result, "header.Idempotency-Key").Raw; err != nil || got != `["oc-1"]` {
		t.Errorf("got Idempotency-Key %s, %v, want oc-1", got, err)
	}
	result, err = invoke(t.Context(), s, "http.pay", `{"key":"mine"}`)
	if got := gjson.GetBytes(result, "header.Idempotency-Key").Raw; err != nil || got != `["mine"]` {
		t.Errorf("without a key: got %s, %v, want the argument", got, err)
	}
}
