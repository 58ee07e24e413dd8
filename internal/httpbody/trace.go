package httpbody

import (
	"context"
	"net/http"

	"golang.org/x/net/http/httpguts"

	"github.com/onecall-mcp/onecall/steps"
)

// The headers of W3C Trace Context, sections 3.2 and 3.3.
const parentHeader, stateHeader = "Traceparent", "Tracestate"

// Trace adds the trace of ctx to the headers if there is one and they have none.
func Trace(ctx context.Context, header http.Header) {
	parent, state := steps.Trace(ctx)
	if parent == "" || !httpguts.ValidHeaderFieldValue(parent) || header[parentHeader] != nil || header[stateHeader] != nil {
		return
	}
	header[parentHeader] = []string{parent}
	if state != "" && httpguts.ValidHeaderFieldValue(state) {
		header[stateHeader] = []string{state}
	}
}

// Repeatable adds the idempotency key of the call if it has one; it replaces a header of that name.
func Repeatable(ctx context.Context, header http.Header) {
	if name, key := steps.IdempotencyKey(ctx); key != "" && httpguts.ValidHeaderFieldName(name) {
		header.Set(name, key)
	}
}
