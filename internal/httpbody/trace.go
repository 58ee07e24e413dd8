package httpbody

import (
	"context"
	"net/http"

	"golang.org/x/net/http/httpguts"

	"github.com/onecall-mcp/onecall/steps"
)

// The headers of W3C Trace Context, sections 3.2 and 3.3.
const parentHeader, stateHeader = "Traceparent", "Tracestate"

// SetTrace sets the headers of ctx's trace. It does nothing if ctx has no trace, or if the headers already contain one.
func SetTrace(ctx context.Context, header http.Header) {
	parent, state := steps.Trace(ctx)
	if parent == "" || !httpguts.ValidHeaderFieldValue(parent) || header[parentHeader] != nil || header[stateHeader] != nil {
		return
	}
	header[parentHeader] = []string{parent}
	if state != "" && httpguts.ValidHeaderFieldValue(state) {
		header[stateHeader] = []string{state}
	}
}

// SetIdempotencyKey sets the header of the call's idempotency key, if the call has one. It replaces a header of that name.
func SetIdempotencyKey(ctx context.Context, header http.Header) {
	if name, key := steps.IdempotencyKey(ctx); key != "" && httpguts.ValidHeaderFieldName(name) {
		header.Set(name, key)
	}
}
