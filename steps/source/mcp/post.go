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
	transport *tappedTransport
	login     auth.OAuthHandler // nil: none
	url       *url.URL
	conn      sdk.Connection // knows the session id
	header    http.Header    // of every call, without session id and login
	sender    sdk.Meta       // client information that every request carries since MCP 2026-07-28; nil before
	meta      []byte         // sender as JSON
}

// newPoster returns the poster of a connection; nil: the SDK has to make its calls.
func newPoster(n *connection) *poster {
	t, ok := n.transport.Transport.(*sdk.StreamableClientTransport)
	if !ok || t.HTTPClient.Jar != nil || t.HTTPClient.Timeout != 0 {
		return nil
	}
	w, ok := t.HTTPClient.Transport.(*tappedTransport)
	address, err := url.Parse(t.Endpoint)
	if !ok || err != nil || address.User != nil {
		return nil
	}
	p := &poster{transport: w, login: t.OAuthHandler, url: address, conn: n.transport.conn, header: http.Header{
		"Content-Type":         {"application/json"},
		"Accept":               {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {n.protocol},
	}}
	if n.protocol > protocol.Stateful {
		p.header["Mcp-Method"] = []string{methodCall}
		p.sender = senderOf(n.protocol, n.clientInfo, n.capabilities)
		if p.meta, err = json.Marshal(p.sender); err != nil {
			return nil
		}
	}
	return p
}

// senderOf returns the client information in the _meta of each request (MCP 2026-07-28, "_meta"), as the SDK writes it.
func senderOf(version string, who *sdk.Implementation, can *sdk.ClientCapabilities) sdk.Meta {
	return sdk.Meta{
		sdk.MetaKeyProtocolVersion: version,
		sdk.MetaKeyClientInfo:      who,
		sdk.MetaKeyClientCapabilities: struct {
			sdk.ClientCapabilities
			Roots *sdk.RootCapabilities `json:"roots,omitempty"` // replaces a field that is always present
		}{*can, can.RootsV2}, //nolint:staticcheck // servers still ask for roots
	}
}

// message builds a call. Its params are body[begin:len(body)-1].
func (p *poster) message(id int64, given *sdk.CallToolParams, args []byte) (body []byte, begin int, err error) {
	meta := p.meta
	if len(given.Meta) > 0 {
		whole := maps.Clone(p.sender)
		if whole == nil {
			whole = sdk.Meta{}
		}
		maps.Copy(whole, given.Meta)
		meta, err = json.Marshal(whole)
	}
	var responses []byte
	if err == nil && len(given.InputResponses) > 0 {
		responses, err = json.Marshal(given.InputResponses)
	}
	if err != nil {
		return nil, 0, err
	}
	body = make([]byte, 0, len(args)+len(meta)+len(responses)+len(given.Name)+len(given.RequestState)+256)
	body = append(strconv.AppendInt(append(body, `{"jsonrpc":"2.0","id":`...), id, 10), `,"method":"tools/call","params":`...)
	begin = len(body)
	body = append(body, '{')
	if len(meta) > 0 {
		body = append(append(append(body, `"_meta":`...), meta...), ',')
	}
	body = gjson.AppendJSONString(append(body, `"name":`...), given.Name)
	body = append(append(body, `,"arguments":`...), args...)
	if len(responses) > 0 {
		body = append(append(body, `,"inputResponses":`...), responses...)
	}
	if given.RequestState != "" {
		body = gjson.AppendJSONString(append(body, `,"requestState":`...), given.RequestState)
	}
	return append(body, "}}"...), begin, nil
}

// headers returns the headers of a call; false: the SDK has to log in.
func (p *poster) headers(ctx context.Context, tool string) (http.Header, bool) {
	var token string
	if p.login != nil {
		source, err := p.login.TokenSource(ctx)
		if err != nil {
			return nil, false
		}
		if source != nil {
			given, err := source.Token()
			if err != nil {
				return nil, false
			}
			if given != nil { // without a login most servers need none
				token = given.AccessToken
			}
		}
	}
	header := maps.Clone(p.header) // a custom round tripper may modify its request's headers
	if id := p.conn.SessionID(); id != "" {
		header["Mcp-Session-Id"] = []string{id}
	}
	if token != "" {
		header["Authorization"] = []string{"Bearer " + token}
	}
	if len(p.sender) > 0 {
		header["Mcp-Name"] = []string{tool}
	}
	return header, true
}

// post makes one call and reads its answer into x. made is false if nothing was sent and the SDK should make the call.
func (n *connection) post(ctx context.Context, x *pendingRequest, given *sdk.CallToolParams, args []byte) (made bool, err error) {
	p := n.poster
	header, ok := p.headers(ctx, given.Name)
	if !ok {
		return false, nil
	}
	id := firstID + n.tap.seq.Add(1)
	body, begin, err := p.message(id, given, args)
	if err != nil {
		return true, err
	}
	x.posted = true
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
	rest, err := n.read(x, response)
	if rest != nil {
		err = n.continueWithSDK(ctx, x, rest, id, body[begin:len(body)-1])
	}
	if err != nil && ctx.Err() != nil && x.unanswered() {
		go n.cancelRequest(id)
	}
	return true, err
}

// read reads the answer of a call into x. rest is what the SDK has to continue with; nil: nothing.
func (n *connection) read(x *pendingRequest, response *http.Response) (rest *http.Response, err error) {
	if x.finished() { // it was refused
		return nil, response.Body.Close()
	}
	if id := response.Header.Get("Mcp-Session-Id"); id != "" && id != n.transport.conn.SessionID() {
		return response, nil
	}
	switch body := response.Body.(type) {
	case *jsonBody:
		_, err = body.load()
		_ = body.Close() // already read to its end
	case *eventBody:
		rest, err = n.readEvents(x, body)
	default:
		return response, nil
	}
	if rest == nil && err == nil && !x.finished() {
		err = errors.New("the answer holds none to this request")
	}
	return rest, err
}

// readEvents reads the answer of a call from its stream, and then the stream to its end, so that the next call can reuse the HTTP
// connection.
func (n *connection) readEvents(x *pendingRequest, b *eventBody) (rest *http.Response, err error) {
	for !x.finished() && b.err == nil {
		_ = b.advance() // what the SDK would read
	}
	switch {
	case !x.finished() && b.lastID != "":
		rest = b.resumption()
	case !x.finished():
		err = errors.New("the stream of the answer ended before it")
	case b.err == nil:
		n.readRest(x, b)
	}
	return rest, errors.Join(err, b.Close())
}

// readRest reads a stream to its end after the answer. The end usually comes at once; some servers keep their streams open, so
// the wait is short.
func (n *connection) readRest(x *pendingRequest, b *eventBody) {
	if !n.awaitsStreamEnd() {
		x.cancel()
		return
	}
	late := time.AfterFunc(streamEndGrace, x.cancel)
	for b.err == nil {
		_ = b.advance()
	}
	if late.Stop() {
		n.lingering.Store(0)
	} else {
		n.lingering.Add(1)
	}
}

// continueWithSDK makes the SDK continue with the answer to a request as if it had sent it.
func (n *connection) continueWithSDK(
	ctx context.Context, x *pendingRequest, response *http.Response, id int64, params json.RawMessage,
) error {
	number, err := jsonrpc.MakeID(float64(id))
	if err != nil {
		return err
	}
	done := x.handToSDK(response)
	if err := n.write(ctx, &jsonrpc.Request{ID: number, Method: methodCall, Params: params}); err != nil {
		if !errors.Is(err, &jsonrpc.Error{Code: codeUndelivered}) {
			n.cancel() // the SDK gives up, but the session would notice too late for the next call
		}
		return err
	}
	select {
	case <-done:
	case <-ctx.Done(): // also ends with the session
	}
	return ctx.Err()
}
