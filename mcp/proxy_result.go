package mcp

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
)

// rawResult is a result as an upstream wrote it.
type rawResult struct {
	sdk.ResultBase // what the SDK adds to _meta
	body           json.RawMessage
}

// MarshalJSON gives the upstream's bytes with what the SDK has added.
func (r *rawResult) MarshalJSON() ([]byte, error) {
	if len(r.Meta) == 0 {
		return r.body, nil
	}
	var meta []byte
	own := gjson.GetBytes(r.body, "_meta")
	own.ForEach(func(key, value gjson.Result) bool { // once, without a key, where it is no object
		if _, replaced := r.Meta[key.Str]; !replaced && own.IsObject() {
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
	if own.Exists() {
		return with(r.body, "_meta", meta), nil
	}
	return before(r.body, "_meta", meta), nil
}

// before is an object with a member more, which comes first: what may be long is copied once, and not looked at.
func before(object json.RawMessage, key string, value json.RawMessage) json.RawMessage {
	rest := bytes.TrimLeft(bytes.TrimLeft(object, jsonBlanks)[1:], jsonBlanks)
	out := member(make([]byte, 0, len(key)+len(value)+len(rest)+len(`{"":,`)), `"`+key+`"`, string(value))
	if rest[0] != '}' {
		out = append(out, ',')
	}
	return append(out, rest...)
}

const jsonBlanks = " \t\r\n"

// member adds a member to an object whose end is still to be written; empty: it is to be begun.
func member(object []byte, key, value string) []byte {
	if len(object) == 0 {
		object = append(object, '{')
	} else {
		object = append(object, ',')
	}
	return append(append(append(object, key...), ':'), value...)
}

// with is an object with one member replaced or added.
func with(object json.RawMessage, key string, value json.RawMessage) json.RawMessage {
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

// result is what an upstream answered as this client's version of MCP has it.
func (p *passing) result(body json.RawMessage) (sdk.Result, error) {
	if !gjson.ParseBytes(body).IsObject() {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the upstream answered what is no result"}
	}
	if p.version >= protocol.Stateless {
		has := gjson.GetManyBytes(body, "resultType", "ttlMs", "cacheScope", "contents")
		if !has[0].Exists() {
			body = with(body, "resultType", json.RawMessage(`"complete"`))
		}
		if p.method == "resources/read" && has[3].Exists() {
			if !has[1].Exists() {
				body = with(body, "ttlMs", json.RawMessage("0"))
			}
			body = with(body, "cacheScope", json.RawMessage(`"private"`)) // what one caller may see is no other's business
		}
	}
	return &rawResult{body: body}, nil
}

// handed is what an upstream answered to the call of a tool, without secrets, where it is to be given as it is.
type handed struct {
	result json.RawMessage
	err    *jsonrpc.Error
}

type handedKey struct{}

// handOver puts down what an upstream answered to the call of a tool, and tells whether the client gets it as it is: raw is
// its result, nil where there is none, and err what the call came to. ctx is that of the client's request.
func handOver(ctx context.Context, raw []byte, err error) bool {
	h, ok := ctx.Value(handedKey{}).(*handed)
	if !ok {
		return false
	}
	if len(raw) > 0 {
		h.result = raw
		return true
	}
	h.err = wireErrorOf(err)
	return h.err != nil
}

// callTool gives what an upstream answered in place of what was made of it.
func (p *passing) callTool(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	h := &handed{}
	call, err := p.callOf(ctx, req, next)
	if err != nil {
		return nil, err
	}
	result, err := call(context.WithValue(p.links.within(ctx, logsOnly(req)), handedKey{}, h), p.method, req)
	switch {
	case err != nil:
		return result, err
	case h.err != nil:
		return nil, p.face.server.told(h.err)
	case h.result != nil:
		return p.result(h.result)
	}
	return result, nil
}
