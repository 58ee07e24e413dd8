package mcp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// message is a JSON-RPC message (JSON-RPC 2.0, sections 4 and 5) with raw members. err does not exist if it says nothing beside a result.
type message struct{ id, method, params, result, err gjson.Result }

func parseMessage(text string) (m message) {
	gjson.Parse(text).ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "id":
			m.id = value
		case "method":
			m.method = value
		case "params":
			m.params = value
		case "result":
			m.result = value
		case "error":
			if value.Type != gjson.Null {
				m.err = value
			}
		}
		return true
	})
	if m.err.Type == gjson.False || m.err.Type == gjson.String && m.err.Str == "" && m.result.Exists() {
		m.err = gjson.Result{}
	}
	return m
}

// isAnswer reports whether the message answers a request.
func (m *message) isAnswer() bool { return !m.method.Exists() && (m.id.Exists() || m.err.Exists()) }

// requestID returns the id of the request that an answer belongs to, also if the server wrote it as text; 0: it is not one of ours.
func (m *message) requestID() int64 { return idNumber(m.id) }

// idNumber returns a request id of ours, which are positive numbers; 0: the id is not one of ours.
func idNumber(id gjson.Result) int64 {
	var number int64
	switch id.Type {
	case gjson.Number:
		number = id.Int()
	case gjson.String:
		number, _ = strconv.ParseInt(id.Str, 10, 64)
	}
	return max(number, 0)
}

// answerError is an error answer of a server, however it is written. Servers write codes as text or with a fraction, or a text in place of
// the whole object.
type answerError struct {
	code    int64
	word    string // what stands in place of the code; "": none
	message string
	data    string // raw; "": none
}

// readError reads the error of an answer.
func readError(e gjson.Result) *answerError {
	if !e.IsObject() {
		return &answerError{code: jsonrpc.CodeInternalError, message: textOf(e)}
	}
	a := &answerError{
		code: jsonrpc.CodeInternalError, word: textOf(e.Get("code")), message: textOf(e.Get("message")), data: e.Get("data").Raw,
	}
	if number, err := strconv.ParseFloat(strings.TrimSpace(a.word), 64); err == nil && number == float64(int64(number)) {
		a.code, a.word = int64(number), strconv.FormatInt(int64(number), 10)
	}
	if a.message == "" && a.word == "" && a.data == "" && len(e.Map()) > 0 {
		a.message = e.Raw // what it says stands in members that JSON-RPC does not know
	}
	return a
}

// textOf returns a string, or the JSON of another value; "" for null and for none.
func textOf(v gjson.Result) string {
	if v.Type == gjson.String {
		return v.Str
	}
	if v.Type == gjson.Null {
		return ""
	}
	return v.Raw
}

// rpc returns the error as JSON-RPC defines it. A code that is no number is told in the message.
func (a *answerError) rpc() *jsonrpc.Error {
	e := &jsonrpc.Error{Code: a.code, Message: a.message, Data: json.RawMessage(a.data)}
	if a.word != "" && a.word != strconv.FormatInt(a.code, 10) {
		e.Message += " (error " + a.word + ")"
	}
	return e
}

// errorAnswer returns an error answer to the request with this id, for the SDK.
func errorAnswer(id int64, e *jsonrpc.Error) string {
	text, err := json.Marshal(e.Message)
	if err != nil {
		text = []byte(`"unusable answer"`)
	}
	data := ""
	if len(e.Data) > 0 {
		data = `,"data":` + string(e.Data)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":%d,"message":%s%s}}`, id, e.Code, text, data)
}

// errorResponse returns an error response for the SDK in place of an unusable answer.
func errorResponse(id int64, f *fault.Error) string {
	return errorAnswer(id, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: f.Message})
}

// answer handles an answer of the server, and returns what the SDK should read in its place; "": nothing. asked is the id of the request
// to which the text is the response over HTTP: an error is its answer, whatever id it has. asked is 0 for other transports.
func (t *tap) answer(text string, m *message, request *pendingRequest, asked int64) string {
	id := m.requestID()
	if m.err.Exists() && asked != 0 {
		id = asked
	}
	pending := t.find(id)
	switch {
	case id == 0 && m.err.Exists():
		t.warn(fault.New(fault.FunctionFailed, "MCP server %q reports an error of a request that it does not name: %s",
			t.name, t.scrub.excerpt(readError(m.err).message, maxErrorText)))
		return ""
	case id == 0:
		return text
	case pending == nil:
		return t.unseen(id, m)
	}
	pending.setAnswer(m)
	if pending.posted && request != pending {
		pending.cancel() // it would keep waiting for the answer in its own stream
	}
	if m.err.Exists() {
		return errorAnswer(id, readError(m.err).rpc())
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, pending.stub(m.result))
}

// unseen returns an answer that no pending request takes, for the SDK: that to a greeting, or one that came too late.
func (t *tap) unseen(id int64, m *message) string {
	t.mu.Lock()
	delete(t.abandoned, id)
	t.mu.Unlock()
	if m.err.Exists() {
		return errorAnswer(id, readError(m.err).rpc())
	}
	result := cmp.Or(m.result.Raw, "null")
	if !t.greeted.Load() {
		result = withObjects(m.result)
		if f := greetingFault(result); f != nil {
			t.giveUp(f)
			return errorResponse(id, f)
		}
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, result)
}
