package mcp

import (
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/tidwall/gjson"
)

// sessionHeader carries the id of a session (MCP 2025-11-25, "Session Management").
const sessionHeader = "Mcp-Session-Id"

// sessionUnknown lists what servers say, in lower case, if they answer 400 to a session that they do not know. MCP demands 404 for it.
var sessionUnknown = []string{"no valid session id", "session not found", "not an initialize request"}

// readRefusal reads the body of a response that refuses the request with this id. It leaves what the SDK recognizes: 404 without a body if
// the session is lost, and a JSON-RPC error as the answer to the request.
func readRefusal(request *http.Request, response *http.Response, id int64) []byte {
	body := takeBody(response)
	m := message{}
	if gjson.ValidBytes(body) {
		m = parseMessage(string(body))
	}
	switch {
	case request.Header.Get(sessionHeader) != "" && sessionLost(response.StatusCode, body, &m, id):
		response.Status, response.StatusCode = "404 Not Found", http.StatusNotFound
		response.Body, response.ContentLength = http.NoBody, 0
	case m.err.Exists():
		text := errorAnswer(id, readError(m.err).rpc())
		response.Body, response.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	}
	return body
}

// sessionLost reports whether a status and its body, which is m if it is JSON, say that the session of the request with this id is lost. An
// error with that id may be the tool's own, about sessions of its own: then the call was made, and must not be sent again.
func sessionLost(status int, body []byte, m *message, id int64) bool {
	answered := m.err.Exists() && m.requestID() == id
	switch status {
	case http.StatusNotFound:
		return !answered
	case http.StatusBadRequest:
		return saysSessionUnknown(body) && (!answered || ofTransport(readError(m.err).code))
	}
	return false
}

// ofTransport reports whether a server's transport may have made an error with this code: an invalid request, or one of the codes that
// JSON-RPC leaves to servers (JSON-RPC 2.0, section 5.1). SDKs use -32000 and -32001 for sessions.
func ofTransport(code int64) bool {
	return code == jsonrpc.CodeInvalidRequest || code >= -32099 && code <= -32000
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
