package mcp

import (
	"context"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
)

// downstream connects a tap with the client of an UpstreamSession.
type downstream struct {
	session *UpstreamSession
	conn    *connection
	streams bool // the server's requests during a call arrive in the stream of the call's answer
}

// handleNotification handles a notification for the client. It returns false if the notification is not for the client.
func (d *downstream) handleNotification(m *message, request *pendingRequest) bool {
	method := m.method.Str
	inCall := false // it belongs to a call, even if nothing says which
	switch method {
	case "notifications/message", "notifications/elicitation/complete":
		inCall = true
	case "notifications/resources/updated", "notifications/resources/list_changed", "notifications/prompts/list_changed":
	case "notifications/tools/list_changed":
		d.conn.source.announceList()
	case "notifications/cancelled":
		return d.conn.tap.requests.cancel(m)
	default:
		return false
	}
	if d.session.downstream.Notify == nil {
		return true
	}
	n := notification{method: method, data: []byte(m.params.Raw)}
	tap := d.conn.tap
	tap.mu.Lock()
	defer tap.mu.Unlock()
	pending := request
	if pending == nil && inCall {
		pending = d.guess()
	}
	switch {
	case method == "notifications/message" && !d.session.hasSessions() && !pending.wantsLog(m.params.Get("level").String()):
		return true
	case pending != nil && pending.queue(n):
		return true
	case inCall && d.session.downstream.Shared: // which client it is for is unknown, so it is dropped
		return true
	}
	select {
	case d.session.notifications <- n:
	default: // the client is too slow
	}
	return true
}

// guess returns the pending call that the server most likely means if it does not say which; nil: none, or calls of several clients
// are possible. The caller holds tap.mu.
func (d *downstream) guess() *pendingRequest {
	if d.streams || d.session.downstream.Shared {
		return nil
	}
	return d.conn.tap.latest()
}

// askContext returns the context for asking the client: the context of the call during which the server asks. If the call is
// guessed, the context does not end with it, because another call may be meant. Without a call it returns the session's context.
func (d *downstream) askContext(method string, request *pendingRequest) (ctx context.Context, guessed *pendingRequest) {
	if method == methodRoots && d.session.hasSessions() {
		return d.session.ctx, nil
	}
	t := d.conn.tap
	t.mu.Lock()
	defer t.mu.Unlock()
	if request != nil && request.ctx != nil {
		return request.ctx, nil
	}
	pending := d.guess()
	if pending == nil && !d.streams {
		pending = t.only()
	}
	if pending != nil {
		return context.WithoutCancel(pending.ctx), pending
	}
	return d.session.ctx, nil
}

// wantsLog reports whether the client asked in this request for log messages of a level (MCP 2026-07-28). r may be nil.
func (r *pendingRequest) wantsLog(level string) bool {
	return r != nil && r.logLevel != "" && protocol.LogLevels[levelOf(level)] >= protocol.LogLevels[levelOf(r.logLevel)]
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
