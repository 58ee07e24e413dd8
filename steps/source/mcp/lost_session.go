package mcp

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// sessionHeader carries the id of a session (MCP 2025-11-25, "Session Management").
const sessionHeader = "Mcp-Session-Id"

// sessionUnknown lists what servers say, in lower case, if they answer 400 to a session that they do not know. MCP demands 404 for it.
var sessionUnknown = []string{"no valid session id", "session not found", "not an initialize request"}

// markLostSession makes a response that refuses a request because its session is lost one that the SDK recognizes: 404 without a body.
// A 404 is about the session unless it carries the answer to the request with this id.
func markLostSession(request *http.Request, response *http.Response, id int64) {
	status := response.StatusCode
	if request.Header.Get(sessionHeader) == "" || status != http.StatusNotFound && status != http.StatusBadRequest {
		return
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusalBody)) // what came of a broken body is enough
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	if status == http.StatusNotFound && answers(body, id) || status == http.StatusBadRequest && !saysSessionUnknown(body) {
		return
	}
	response.Status, response.StatusCode = "404 Not Found", http.StatusNotFound
	response.Body, response.ContentLength = http.NoBody, 0
}

// answers reports whether a body is the error answer to the request with this id.
func answers(body []byte, id int64) bool {
	if !gjson.ValidBytes(body) {
		return false
	}
	m := parseMessage(string(body))
	return m.err.Exists() && m.id.Type == gjson.Number && m.id.Int() == id
}

// saysSessionUnknown reports whether the text of a 400 says that the server does not know the session.
func saysSessionUnknown(body []byte) bool {
	text := string(body)
	if message := gjson.GetBytes(body, "error.message"); gjson.ValidBytes(body) && message.Exists() {
		text = message.String()
	}
	text = strings.ToLower(text)
	return slices.ContainsFunc(sessionUnknown, func(words string) bool { return strings.Contains(text, words) })
}

// doubt records that a request of this session was refused with 400. Many servers refuse unknown sessions so, whatever they say, so the
// session is replaced as soon as no call uses it. The caller holds pending.mu.
func (c *connection) doubt(pending *pendingRequest) {
	if pending.status == http.StatusBadRequest && c.transport.conn.SessionID() != "" {
		c.doubted.Store(true)
	}
}

// settle returns whether the session is in doubt, after a request that was sent again if again is set. The new session refused that
// request as well, so the session was not the reason.
func (c *connection) settle(again bool) (doubted bool) {
	if again {
		c.doubted.Store(false)
	}
	return c.doubted.Load()
}

// usable reports whether calls may use the connection. The caller holds the lock that guards c.calls.
func (c *connection) usable() bool {
	return c.ctx.Err() == nil && (c.calls > 0 || !c.doubted.Load())
}
