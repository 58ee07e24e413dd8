package mcp

import (
	"context"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
)

// linked is what a session's tap needs to hand on what the server asks and tells to the client of a link.
type linked struct {
	link    *Link
	session *session
	streams bool // what belongs to a call comes in the stream of its answer
}

// notified takes a notification for the client, and reports whether it was one.
func (k *linked) notified(m *message, owner *exchange) bool {
	method := m.method.Str
	inCall := false // outside of calls where nothing says that it belongs to one
	switch method {
	case "notifications/message", "notifications/elicitation/complete":
		inCall = true
	case "notifications/resources/updated", "notifications/resources/list_changed", "notifications/prompts/list_changed":
	case "notifications/tools/list_changed":
		signal(k.session.source.relist)
	case "notifications/cancelled":
		return k.session.tap.asks.cancelled(m)
	default:
		return false
	}
	if k.link.peer.Notify == nil {
		return true
	}
	n := note{method: method, data: []byte(m.params.Raw)}
	t := k.session.tap
	t.mu.Lock()
	defer t.mu.Unlock()
	x := owner
	if x == nil && inCall {
		x = k.guess()
	}
	switch {
	case method == "notifications/message" && !k.link.sessional() && !x.wantsLog(m.params.Get("level").String()):
		return true
	case x != nil && x.hear(n):
		return true
	case inCall && k.link.peer.Shared: // whose it is nobody knows
		return true
	}
	select {
	case k.link.outside <- n:
	default: // the client is too slow to follow
	}
	return true
}

// guess is the call in flight that the server most likely means where nothing says which; nil: there is none, or others than
// the one who has made it could be meant. The caller holds tap.mu.
func (k *linked) guess() *exchange {
	if k.streams || k.link.peer.Shared {
		return nil
	}
	return k.session.tap.latest()
}

// place is the context that the client is asked in: of the call that the server asks in, which it ends with. Where that is
// guessed, only the way to the client is the call's: it may have ended before the one that is meant. Else it is the link's.
func (k *linked) place(method string, owner *exchange) (ctx context.Context, guessed bool) {
	if method == methodRoots {
		return k.link.ctx, false
	}
	t := k.session.tap
	t.mu.Lock()
	defer t.mu.Unlock()
	if owner != nil && owner.ctx != nil {
		return owner.ctx, false
	}
	if x := k.guess(); x != nil {
		return context.WithoutCancel(x.ctx), true
	}
	return k.link.ctx, false
}

// wantsLog reports whether the client has asked in this call for log messages of a level (MCP 2026-07-28). x may be nil.
func (x *exchange) wantsLog(level string) bool {
	return x != nil && x.logs != "" && protocol.LogLevels[levelOf(level)] >= protocol.LogLevels[levelOf(x.logs)]
}

// asksForLogs is the level of log messages that a client asks for in a call; "": none.
func asksForLogs(meta gjson.Result) (level string) {
	meta.ForEach(func(key, value gjson.Result) bool {
		if key.Str == metaLogLevel {
			level = value.String()
		}
		return level == ""
	})
	return level
}
