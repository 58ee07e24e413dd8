package transport

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
)

// DirectCall answers one tool call without the SDK. result is the JSON that the client reads; err is a *jsonrpc.Error.
type DirectCall func(ctx context.Context, r *sdk.CallToolRequest) (result json.RawMessage, err error)

// direct answers tool calls without the SDK, whose per-message session, queues and decoding cost more than a chain does. It takes
// only calls that have the standard members and no others, from clients that receive no notifications or questions meanwhile. The
// SDK handles all other messages, malformed ones included.
func (s *Server) direct(next http.Handler, m *message) http.Handler {
	if m.method != methodCall || m.id == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := s.byID(r.Header.Get(sessionHeader))
		call := plainCall(r, m, n != nil)
		if call == nil || n != nil && !n.opened.Load() {
			next.ServeHTTP(w, r)
			return
		}
		answer := s.handler.Direct(m.from.Caller, m.from.target, n, call.Params.Name)
		if answer == nil {
			next.ServeHTTP(w, r)
			return
		}
		ctx := r.Context()
		if n != nil {
			callCtx, end, ok := n.beginDirectCall(ctx, m.id)
			if !ok {
				refuseDuplicate(w, m.id)
				return
			}
			defer end()
			ctx, call.Session = callCtx, n.SDK
		}
		result, err := answer(ctx, call)
		respond(w, m.id, result, err)
	})
}

const methodCall = "tools/call"

// respond sends the response to a request.
func respond(w http.ResponseWriter, id string, result json.RawMessage, failed error) {
	opening := `{"jsonrpc":"2.0","id":` + id + `,"result":`
	if failed != nil {
		rpcError := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: failed.Error()}
		errors.As(failed, &rpcError)
		text, err := json.Marshal(rpcError)
		if err != nil {
			text = []byte(`{"code":-32603,"message":"internal error"}`)
		}
		opening, result = `{"jsonrpc":"2.0","id":`+id+`,"error":`, text
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	w.Header().Set("Content-Length", strconv.Itoa(len(opening)+len(result)+len("}")))
	for _, piece := range [][]byte{[]byte(opening), result, []byte("}")} {
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
}

// refuseDuplicate refuses a call whose id belongs to a call that still runs: the client may be repeating it.
func refuseDuplicate(w http.ResponseWriter, id string) {
	wrong := &badMessage{id: id, code: codeRequest, message: "a request with this id is under way: wait for its answer, " +
		"or send this one with another id"}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(wrong.answer()) // an error means that the client has left
}

// acceptHeader is the Accept header of a conforming client (MCP 2025-11-25, "Sending Messages to the Server").
const acceptHeader = "application/json, text/event-stream"

// plainCall returns the tool call in a message; nil: only the SDK can handle it. inSession: the client has a session.
func plainCall(r *http.Request, m *message, inSession bool) *sdk.CallToolRequest {
	version := r.Header.Get("Mcp-Protocol-Version")
	if r.Header.Get("Accept") != acceptHeader || r.Header.Get("Last-Event-Id") != "" || protocol.HasSessions(version) != inSession {
		return nil
	}
	var name, args, meta gjson.Result
	plain := true
	gjson.GetBytes(m.body, "params").ForEach(func(key, value gjson.Result) bool {
		var into *gjson.Result
		switch key.Str {
		case "name":
			into = &name
		case "arguments":
			into = &args
		case "_meta":
			into = &meta
		}
		if plain = into != nil && !into.Exists(); plain { // false for another member, and for one that is there twice
			*into = value
		}
		return plain
	})
	fields, ok := plainMeta(meta, version, inSession)
	switch {
	case !plain, !ok, name.Type != gjson.String:
		return nil
	case inSession && !knowsSessions(r):
		return nil
	case !inSession && !(r.Header.Get("Mcp-Method") == methodCall && r.Header.Get("Mcp-Name") == name.Str && noParams(r.Header)):
		return nil
	}
	return &sdk.CallToolRequest{
		Params: &sdk.CallToolParamsRaw{Meta: fields, Name: name.Str, Arguments: json.RawMessage(args.Raw)},
		Extra:  &sdk.RequestExtra{Header: r.Header},
	}
}

// noParams reports whether the headers carry no tool arguments (MCP 2026-07-28, "Custom Headers from Tool Parameters").
func noParams(header http.Header) bool {
	for key := range header {
		if strings.HasPrefix(key, "Mcp-Param-") {
			return false
		}
	}
	return true
}

// plainMeta returns the entries of _meta that onecall uses. It returns false if the client asks for notifications, or if _meta
// does not match the protocol version.
func plainMeta(meta gjson.Result, version string, inSession bool) (fields sdk.Meta, ok bool) {
	if meta.Exists() && !meta.IsObject() {
		return nil, false
	}
	ok = true
	var isVersion, isClient bool
	meta.ForEach(func(key, value gjson.Result) bool {
		switch {
		case key.Str == "progressToken":
			ok = false
		case key.Str == "traceparent" || key.Str == "tracestate":
			if fields == nil {
				fields = sdk.Meta{}
			}
			fields[key.Str] = value.Value()
		case !strings.HasPrefix(key.Str, "io.modelcontextprotocol/"): // not MCP's: ignored
		case inSession:
			ok = false
		case key.Str == sdk.MetaKeyProtocolVersion:
			isVersion = value.Str == version
		case key.Str == sdk.MetaKeyClientInfo:
			ok = value.IsObject() && value.Get("name").Type == gjson.String
		case key.Str == sdk.MetaKeyClientCapabilities:
			isClient = value.IsObject() && !value.Get("elicitation").Exists() && // the client cannot ask its user
				!value.Get(`extensions.io\.modelcontextprotocol/tasks`).Exists() // and does not accept tasks
		default:
			ok = false
		}
		return ok
	})
	return fields, ok && (inSession || isVersion && isClient && version == protocol.Stateless)
}

// beginDirectCall returns a context that the client can cancel by the call's id. It returns false if a call with this id is
// running. The context does not end with the HTTP request: in a session the client may still wait for the answer.
func (n *Session) beginDirectCall(ctx context.Context, id string) (_ context.Context, end func(), ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.directCalls == nil {
		n.directCalls = map[string]context.CancelFunc{}
	}
	if n.directCalls[id] != nil {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.directCalls[id] = cancel
	return ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.directCalls, id)
		cancel()
	}, true
}

// cancelDirectCall cancels the direct call that a cancelled notification names, if there is one.
func (n *Session) cancelDirectCall(m *message) {
	id := gjson.GetBytes(m.body, "params.requestId").Raw
	n.mu.Lock()
	defer n.mu.Unlock()
	if cancel := n.directCalls[id]; cancel != nil {
		cancel()
	}
}
