package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
)

const methodCall = "tools/call"

// poster makes tool calls over Streamable HTTP without the SDK: one POST of a mostly prepared request, and one pass over the
// answer (MCP 2025-11-25 and 2026-07-28, "Sending Messages to the Server"). Everything else goes to the SDK: refusals, logins,
// redirects, and streams to resume.
type poster struct {
	transport  *tappedTransport
	login      auth.OAuthHandler // nil: none
	url        *url.URL
	conn       sdk.Connection // knows the session id
	header     http.Header    // the header of every call, without session id and login
	clientMeta sdk.Meta       // client information that every request carries since MCP 2026-07-28; nil for older versions
	meta       []byte         // clientMeta as JSON
}

// newPoster returns the poster of a connection; nil: the SDK must make its calls.
func newPoster(conn *connection) *poster {
	t, ok := conn.transport.Transport.(*sdk.StreamableClientTransport)
	if !ok || t.HTTPClient.Jar != nil || t.HTTPClient.Timeout != 0 {
		return nil
	}
	tapped, ok := t.HTTPClient.Transport.(*tappedTransport)
	address, err := url.Parse(t.Endpoint)
	if !ok || err != nil || address.User != nil {
		return nil
	}
	p := &poster{transport: tapped, login: t.OAuthHandler, url: address, conn: conn.transport.conn, header: http.Header{
		"Content-Type":         {"application/json"},
		"Accept":               {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {conn.protocol},
	}}
	if conn.protocol > protocol.Stateful {
		p.header["Mcp-Method"] = []string{methodCall}
		p.clientMeta = clientMetaOf(conn.protocol, conn.clientInfo, conn.capabilities)
		if p.meta, err = json.Marshal(p.clientMeta); err != nil {
			return nil
		}
	}
	return p
}

// clientMetaOf returns the client information in the _meta of each request (MCP 2026-07-28, "_meta"), as the SDK writes it.
func clientMetaOf(version string, info *sdk.Implementation, capabilities *sdk.ClientCapabilities) sdk.Meta {
	return sdk.Meta{
		sdk.MetaKeyProtocolVersion: version,
		sdk.MetaKeyClientInfo:      info,
		sdk.MetaKeyClientCapabilities: struct {
			sdk.ClientCapabilities
			Roots *sdk.RootCapabilities `json:"roots,omitempty"` // replaces a field that is always present
		}{*capabilities, capabilities.RootsV2}, //nolint:staticcheck // servers still ask for roots
	}
}

// message builds a call. Its params are body[start:len(body)-1]. token is its progress token; 0: none.
func (p *poster) message(id int64, params *sdk.CallToolParams, args []byte, token int64) (body []byte, start int, err error) {
	meta := p.meta
	if len(params.Meta) > 0 {
		merged := maps.Clone(p.clientMeta)
		if merged == nil {
			merged = sdk.Meta{}
		}
		maps.Copy(merged, params.Meta)
		meta, err = json.Marshal(merged)
	}
	var responses []byte
	if err == nil && len(params.InputResponses) > 0 {
		responses, err = json.Marshal(params.InputResponses)
	}
	if err != nil {
		return nil, 0, err
	}
	body = make([]byte, 0, len(args)+len(meta)+len(responses)+len(params.Name)+len(params.RequestState)+256)
	body = append(strconv.AppendInt(append(body, `{"jsonrpc":"2.0","id":`...), id, 10), `,"method":"tools/call","params":`...)
	start = len(body)
	body = append(body, '{')
	switch {
	case len(meta) > 2 && token != 0: // more than {}
		body = append(append(append(body, `"_meta":`...), meta[:len(meta)-1]...), `,"progressToken":`...)
		body = append(strconv.AppendInt(body, token, 10), "},"...)
	case token != 0:
		body = append(strconv.AppendInt(append(body, `"_meta":{"progressToken":`...), token, 10), "},"...)
	case len(meta) > 0:
		body = append(append(append(body, `"_meta":`...), meta...), ',')
	}
	body = gjson.AppendJSONString(append(body, `"name":`...), params.Name)
	body = append(append(body, `,"arguments":`...), args...)
	if len(responses) > 0 {
		body = append(append(body, `,"inputResponses":`...), responses...)
	}
	if params.RequestState != "" {
		body = gjson.AppendJSONString(append(body, `,"requestState":`...), params.RequestState)
	}
	return append(body, "}}"...), start, nil
}

// headers returns the headers of a call; false: the SDK must log in.
func (p *poster) headers(ctx context.Context, tool string) (http.Header, bool) {
	var token string
	if p.login != nil {
		source, err := p.login.TokenSource(ctx)
		if err != nil {
			return nil, false
		}
		if source != nil {
			loginToken, err := source.Token()
			if err != nil {
				return nil, false
			}
			if loginToken != nil { // most servers need no login, so there may be no token
				token = loginToken.AccessToken
			}
		}
	}
	header := maps.Clone(p.header) // a custom round tripper may modify its request's headers
	if id := p.conn.SessionID(); id != "" {
		header[sessionHeader] = []string{id}
	}
	if token != "" {
		header["Authorization"] = []string{"Bearer " + token}
	}
	if len(p.clientMeta) > 0 {
		header["Mcp-Name"] = []string{tool}
	}
	return header, true
}

// post makes one call and reads its answer into pending. handled is false if nothing was sent and the SDK should make the call.
func (c *connection) post(
	ctx context.Context, pending *pendingRequest, params *sdk.CallToolParams, args []byte, token int64,
) (handled bool, err error) {
	p := c.poster
	header, ok := p.headers(ctx, params.Name)
	if !ok {
		return false, nil
	}
	id := firstID + c.tap.seq.Add(1)
	body, start, err := p.message(id, params, args, token)
	if err != nil {
		return true, err
	}
	pending.posted = true
	address := *p.url
	request := (&http.Request{
		Method: http.MethodPost, URL: &address, Host: address.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}).WithContext(ctx)
	response, err := p.transport.RoundTrip(request)
	if err != nil {
		return true, err
	}
	response.Request = request // a custom round tripper may leave it out
	unread, err := c.read(pending, response)
	if unread != nil {
		err = c.continueWithSDK(ctx, pending, unread, id, body[start:len(body)-1])
	}
	if err != nil && ctx.Err() != nil && pending.unanswered() {
		go c.cancelRequest(id)
	}
	return true, err
}

// read reads the answer of a call into pending. unread is the rest for the SDK to continue with; nil: nothing.
func (c *connection) read(pending *pendingRequest, response *http.Response) (unread *http.Response, err error) {
	if pending.finished() { // it was refused
		return nil, response.Body.Close()
	}
	// The SDK must learn of a new session id.
	if id := response.Header.Get(sessionHeader); id != "" && id != c.transport.conn.SessionID() {
		return response, nil
	}
	switch body := response.Body.(type) {
	case *jsonBody:
		_, err = body.load()
		_ = body.Close() // already read to its end
	case *eventBody:
		unread, err = c.readEvents(pending, body)
	default:
		return response, nil
	}
	if unread == nil && err == nil && !pending.finished() {
		err = errors.New("the response has no answer to this request")
	}
	return unread, err
}

// readEvents reads the answer of a call from its stream, and then the stream to its end, so that the next call can reuse the HTTP
// connection.
func (c *connection) readEvents(pending *pendingRequest, b *eventBody) (unread *http.Response, err error) {
	for !pending.finished() && b.err == nil {
		_ = b.advance() // discards what the SDK would read
	}
	switch {
	case !pending.finished() && b.lastID != "":
		unread = b.resumption()
	case !pending.finished():
		err = errors.New("the stream ended before the answer")
	case b.err == nil:
		c.readRest(pending, b)
	}
	return unread, errors.Join(err, b.Close())
}

// readRest reads a stream to its end after the answer. The end usually follows immediately; some servers keep their streams open, so
// the wait is short.
func (c *connection) readRest(pending *pendingRequest, b *eventBody) {
	if !c.awaitsStreamEnd() {
		pending.cancel()
		return
	}
	late := time.AfterFunc(streamEndGrace, pending.cancel)
	for b.err == nil {
		_ = b.advance()
	}
	if late.Stop() {
		c.lateStreams.Store(0)
	} else {
		c.lateStreams.Add(1)
	}
}

// continueWithSDK makes the SDK continue with a response as if it had sent the request.
func (c *connection) continueWithSDK(
	ctx context.Context, pending *pendingRequest, response *http.Response, id int64, params json.RawMessage,
) error {
	number, err := jsonrpc.MakeID(float64(id))
	if err != nil {
		return err
	}
	done := pending.handToSDK(response)
	if err := c.write(ctx, &jsonrpc.Request{ID: number, Method: methodCall, Params: params}); err != nil {
		if !errors.Is(err, &jsonrpc.Error{Code: codeUndelivered}) {
			c.cancel() // the SDK has given up the session, but would report that too late for the next call
		}
		return err
	}
	select {
	case <-done:
	case <-ctx.Done(): // ctx also ends with the session
	}
	return ctx.Err()
}
