package transport

import (
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// Error codes of JSON-RPC 2.0, section 5.1, for malformed messages.
const (
	codeParse   = jsonrpc.CodeParseError
	codeRequest = jsonrpc.CodeInvalidRequest
)

// maxDepth bounds the nesting of a message. No schema needs more, and deeper values only exhaust the reader's stack.
const maxDepth = 1_100

// envelope is a message without its params.
type envelope struct {
	id     string // raw JSON; "": none
	method string // "": the message is a response
}

// badMessage describes a malformed message, with its id if it has one.
type badMessage struct {
	id      string // raw JSON; "": null
	code    int
	message string
}

// nullIDError stands for an error response with a null id. It answers no request, and is dropped.
var nullIDError = &badMessage{}

// answer returns the error response to the message.
func (m *badMessage) answer() []byte {
	id := m.id
	if id == "" {
		id = "null"
	}
	return []byte(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":` + strconv.Itoa(m.code) + `,"message":` + quoted(m.message) + "}}")
}

// quoted returns text as a JSON string, without HTML escapes.
func quoted(text string) string { return string(gjson.AppendJSONString(nil, text)) }

// parseEnvelope checks that message is exactly one JSON-RPC 2.0 message, and rejects what other readers could take for a
// different one: trailing text, duplicate keys, ids beyond the precision of a float64. It returns what is wrong with the message
// (nullIDError: drop it), or else nil.
func parseEnvelope(message []byte) (envelope, *badMessage) {
	_, deep := rawjson.Outline(message, maxDepth)
	switch {
	case deep >= 0:
		return envelope{}, &badMessage{code: codeRequest, message: "the message is nested more than " + strconv.Itoa(maxDepth) + " deep"}
	case !gjson.ValidBytes(message):
		return envelope{}, &badMessage{code: codeParse, message: "not JSON, or more than one value"}
	}
	root := gjson.ParseBytes(message)
	if root.IsArray() {
		return envelope{}, &badMessage{code: codeRequest, message: "batches are not supported: send each message by itself"}
	}
	if !root.IsObject() {
		return envelope{}, &badMessage{code: codeRequest, message: "a message must be a JSON object"}
	}
	var version, id, method, result, failure, params gjson.Result
	twice := ""
	root.ForEach(func(key, value gjson.Result) bool {
		name := key.String()
		var into *gjson.Result
		switch name {
		case "jsonrpc":
			into = &version
		case "id":
			into = &id
		case "method":
			into = &method
		case "params":
			into = &params
		case "result":
			into = &result
		case "error":
			into = &failure
		default:
			return true
		}
		if into.Exists() {
			twice = name
		}
		*into = value
		return true
	})
	hasID, isRequest, isResult, isError := id.Exists(), method.Exists(), result.Exists(), failure.Exists()
	if twice == "" && version.Str == "2.0" && method.Type == gjson.String && !isResult && !isError && (!hasID || validID(id)) {
		return envelope{id.Raw, method.Str}, nil // a request, or a notification
	}
	m := &badMessage{code: codeRequest}
	if hasID && validID(id) {
		m.id = id.Raw
	}
	switch {
	case twice != "":
		m.id, m.message = "", "the key "+fault.Quote(twice)+" occurs twice"
	case version.Str != "2.0":
		m.message = `jsonrpc must be "2.0"`
	case isRequest && method.Type != gjson.String:
		m.message = "method must be a string"
	case !isRequest && !isResult && !isError:
		m.message = "a message has a method, a result or an error"
	case isError && hasID && id.Type == gjson.Null:
		return envelope{}, nullIDError
	case hasID && m.id == "":
		m.message = "id must be a string, or an integer of at most 2^53-1"
	case !isRequest && !hasID:
		m.message = "a response has the id of its request"
	default: // a response
		return envelope{id: id.Raw}, nil
	}
	return envelope{}, m
}

// validID reports whether an id is a string, or an integer that survives a round trip through a float64.
func validID(id gjson.Result) bool {
	if id.Type == gjson.String {
		return true
	}
	digits := strings.TrimPrefix(id.Raw, "-")
	if id.Type != gjson.Number || strings.Trim(digits, "0123456789") != "" || len(digits) > 16 {
		return false
	}
	const maximum = 1<<53 - 1
	n := id.Int()
	return n <= maximum && n >= -maximum
}
