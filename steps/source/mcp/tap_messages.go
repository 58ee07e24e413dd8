package mcp

import (
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
)

// filter handles a message that is valid JSON, and returns what the SDK should read in its place: the same text, a stub, or "" for nothing.
// request is the request whose answer stream contains the message; nil: none. asked is as in answer.
func (t *tap) filter(text string, request *pendingRequest, asked int64) string {
	m := parseMessage(text)
	switch {
	case m.method.Exists():
		if !m.id.Exists() && t.handleNotification(&m, request) || m.id.Exists() && t.requests != nil && t.requests.handle(&m, request) {
			return ""
		}
	case m.isAnswer():
		return t.answer(text, &m, request, asked)
	}
	return text
}

// handleNotification handles a notification. It returns false if the SDK should handle it.
func (t *tap) handleNotification(m *message, request *pendingRequest) bool {
	switch m.method.Str {
	case "notifications/progress":
		n := notification{
			done: m.params.Get("progress").Float(), total: m.params.Get("total").Float(),
			message: t.scrub.excerpt(m.params.Get("message").String(), maxErrorText),
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if pending := t.progress[m.params.Get("progressToken").Int()]; pending != nil {
			if pending.alive != nil {
				pending.alive()
			}
			pending.queue(n)
		}
		return true
	case "notifications/message":
		if t.downstream != nil {
			return t.downstream.handleNotification(m, request)
		}
		level, data := m.params.Get("level").String(), m.params.Get("data").Raw
		if data == "" {
			data = "null"
		}
		t.mu.Lock()
		pending := request
		if pending == nil && len(t.pending) == 1 {
			for _, pending = range t.pending { // sets pending to the only one
			}
		}
		queued := pending != nil && pending.queue(notification{level: levelOf(level), logger: m.params.Get("logger").String(),
			data: []byte(data)})
		t.mu.Unlock()
		if !queued {
			t.log(levelOf(level), data)
		}
		return true
	case "notifications/tools/list_changed":
		if t.downstream == nil && t.requests != nil {
			t.requests.conn.source.announceList() // in order, and the SDK does not see the streams of posted calls
		}
	}
	return t.downstream != nil && t.downstream.handleNotification(m, request)
}

// queue queues a notification; false: there is no listener. The caller holds tap.mu.
func (r *pendingRequest) queue(n notification) bool {
	if r.notifications == nil {
		return false
	}
	select {
	case r.notifications <- n:
	default: // the callbacks are too slow
	}
	return true
}

// levelOf returns a log level; words that RFC 5424 does not define count as info.
func levelOf(word string) string {
	if _, known := protocol.LogLevels[word]; !known {
		return "info"
	}
	return word
}

// tooLong returns the fault of a call whose answer exceeds MaxMessageBytes. This limit is above the limit for the result in an answer.
func (t *tap) tooLong() *fault.Error {
	return fault.New(fault.LimitExceeded,
		"the answer of MCP server %q is longer than a result may be: ask for less, or raise limits.maxResultBytes",
		t.name)
}

// refuse fails the request with this id and returns the error response for the SDK; "": no request with this id is pending.
func (t *tap) refuse(id int64, f *fault.Error) string {
	pending := t.find(id)
	if pending == nil {
		return ""
	}
	pending.fail(f)
	return errorResponse(id, f)
}
