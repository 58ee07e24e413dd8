package mcp

import (
	"context"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
)

// downstream connects a tap with the client of an UpstreamSession.
type downstream struct {
	upstream *UpstreamSession
	conn     *connection
	streams  bool // requests during a call arrive in the stream of its answer
}

// notified handles a notification for the client, and reports whether it was one.
func (k *downstream) notified(m *message, owner *pendingRequest) bool {
	method := m.method.Str
	inCall := false // belongs to a call, even if nothing says which
	switch method {
	case "notifications/message", "notifications/elicitation/complete":
		inCall = true
	case "notifications/resources/updated", "notifications/resources/list_changed", "notifications/prompts/list_changed":
	case "notifications/tools/list_changed":
		signal(k.conn.source.relist)
	case "notifications/cancelled":
		return k.conn.tap.requests.cancel(m)
	default:
		return false
	}
	if k.upstream.downstream.Notify == nil {
		return true
	}
	n := notification{method: method, data: []byte(m.params.Raw)}
	t := k.conn.tap
	t.mu.Lock()
	defer t.mu.Unlock()
	x := owner
	if x == nil && inCall {
		x = k.guess()
	}
	switch {
	case method == "notifications/message" && !k.upstream.hasSessions() && !x.wantsLog(m.params.Get("level").String()):
		return true
	case x != nil && x.queue(n):
		return true
	case inCall && k.upstream.downstream.Shared: // its client is unknown
		return true
	}
	select {
	case k.upstream.notifications <- n:
	default: // the client is too slow
	}
	return true
}

// guess returns the pending call that the server most likely means if nothing says which; nil: none, or calls of several clients
// could be meant. The caller holds tap.mu.
func (k *downstream) guess() *pendingRequest {
	if k.streams || k.upstream.downstream.Shared {
		return nil
	}
	return k.conn.tap.latest()
}

// askContext returns the context for asking the client: that of the call during which the server asks. If the call is guessed,
// the context does not end with it, because another call may be meant. Without a call it is the session's.
func (k *downstream) askContext(method string, owner *pendingRequest) (ctx context.Context, guessed bool) {
	if method == methodRoots {
		return k.upstream.ctx, false
	}
	t := k.conn.tap
	t.mu.Lock()
	defer t.mu.Unlock()
	if owner != nil && owner.ctx != nil {
		return owner.ctx, false
	}
	if x := k.guess(); x != nil {
		return context.WithoutCancel(x.ctx), true
	}
	return k.upstream.ctx, false
}

// wantsLog reports whether the client asked in this request for log messages of a level (MCP 2026-07-28). x may be nil.
func (x *pendingRequest) wantsLog(level string) bool {
	return x != nil && x.logLevel != "" && protocol.LogLevels[levelOf(level)] >= protocol.LogLevels[levelOf(x.logLevel)]
}

// requestedLogLevel returns the log level in a request's _meta; "": none.
func requestedLogLevel(meta gjson.Result) (level string) {
	meta.ForEach(func(key, value gjson.Result) bool {
		if key.Str == metaLogLevel {
			level = value.String()
		}
		return level == ""
	})
	return level
}
