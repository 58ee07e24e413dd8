// Package raw builds MCP results from the raw JSON of an upstream.
package raw

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
)

// result is a result with the bytes of its upstream.
type result struct {
	sdk.ResultBase // what the SDK adds to _meta
	body           json.RawMessage
}

// MarshalJSON returns the body with the SDK's members of _meta added. They replace members of the same name.
func (r *result) MarshalJSON() ([]byte, error) {
	if len(r.Meta) == 0 {
		return r.body, nil
	}
	var meta []byte
	bodyMeta := gjson.GetBytes(r.body, "_meta")
	bodyMeta.ForEach(func(key, value gjson.Result) bool { // a value that is not an object is visited once, without a key
		if _, replaced := r.Meta[key.Str]; !replaced && bodyMeta.IsObject() {
			meta = member(meta, key.Raw, value.Raw)
		}
		return true
	})
	for key, value := range r.Meta {
		name, err := json.Marshal(key)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		meta = member(meta, string(name), string(text))
	}
	meta = append(meta, '}')
	if bodyMeta.Exists() {
		return With(r.body, "_meta", meta), nil
	}
	return Before(r.body, "_meta", meta), nil
}

// Params are params with raw bytes, for messages to a client.
type Params struct {
	sdk.ParamsBase
	Body json.RawMessage
}

// MarshalJSON returns the raw bytes.
func (p *Params) MarshalJSON() ([]byte, error) { return p.Body, nil }

// Result returns body as the result of method for clients of an MCP version. It adds the members that the version requires.
func Result(version, method string, body json.RawMessage) (sdk.Result, error) {
	if !gjson.ParseBytes(body).IsObject() {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the upstream's result is not an object"}
	}
	if version >= protocol.Stateless {
		has := gjson.GetManyBytes(body, "resultType", "ttlMs", "cacheScope", "contents")
		if !has[0].Exists() {
			body = With(body, "resultType", json.RawMessage(`"complete"`))
		}
		if method == "resources/read" && has[3].Exists() {
			if !has[1].Exists() {
				body = With(body, "ttlMs", json.RawMessage("0"))
			}
			body = With(body, "cacheScope", json.RawMessage(`"private"`)) // results depend on the caller's rights
		}
	}
	return &result{body: body}, nil
}

// Page returns a page of a list for clients of an MCP version: items in the member field, next as its cursor (nil: the last page), and
// the members of the object rest.
func Page(version, field string, rest json.RawMessage, items []json.RawMessage, next json.RawMessage) (sdk.Result, error) {
	size := 2
	for _, item := range items {
		size += len(item) + 1
	}
	list := append(make([]byte, 0, size), '[')
	for i, item := range items {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, item...)
	}
	body := With(rest, field, append(list, ']'))
	if next != nil {
		body = With(body, "nextCursor", next)
	}
	if version >= protocol.Stateless {
		body = With(With(body, "ttlMs", json.RawMessage("0")), "cacheScope", json.RawMessage(`"private"`))
	}
	return Result(version, "", body)
}

// Version returns the MCP version of a request: that in its _meta, else that of the session; "" if neither is known.
func Version(ss *sdk.ServerSession, req sdk.Request) string {
	if params := req.GetParams(); params != nil && !reflect.ValueOf(params).IsNil() {
		if version, ok := params.GetMeta()[sdk.MetaKeyProtocolVersion].(string); ok {
			return version
		}
	}
	if params := ss.InitializeParams(); params != nil {
		return params.ProtocolVersion
	}
	return ""
}

// Before returns object with a member prepended. It copies the rest without parsing it. key must need no escapes in JSON.
func Before(object json.RawMessage, key string, value json.RawMessage) json.RawMessage {
	rest := bytes.TrimLeft(bytes.TrimLeft(object, blanks)[1:], blanks)
	out := member(make([]byte, 0, len(key)+len(value)+len(rest)+len(`{"":,`)), `"`+key+`"`, string(value))
	if rest[0] != '}' {
		out = append(out, ',')
	}
	return append(out, rest...)
}

const blanks = " \t\r\n"

// member appends a member to an object that lacks its closing brace. If object is empty, it writes the opening brace first. key and value
// are JSON.
func member(object []byte, key, value string) []byte {
	if len(object) == 0 {
		object = append(object, '{')
	} else {
		object = append(object, ',')
	}
	return append(append(append(object, key...), ':'), value...)
}

// With returns object with one member added or, if it is there, replaced and moved to the end; value nil: removed. object may be empty.
// key must need no escapes in JSON.
func With(object json.RawMessage, key string, value json.RawMessage) json.RawMessage {
	var out []byte
	gjson.ParseBytes(object).ForEach(func(k, v gjson.Result) bool {
		if k.Str != key {
			out = member(out, k.Raw, v.Raw)
		}
		return true
	})
	if value != nil {
		out = member(out, `"`+key+`"`, string(value))
	}
	if len(out) == 0 {
		return json.RawMessage("{}")
	}
	return append(out, '}')
}
