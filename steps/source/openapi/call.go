package openapi

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/internal/httpbody"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
)

// callTimeout bounds a call, including retries, if its context has no deadline.
const callTimeout = 2 * time.Minute

// call is an operation that is ready to be called: everything that does not depend on the arguments is prepared.
type call struct {
	source   *Source
	op       *operation
	name     string // the name of the function
	base     *url.URL
	path     []pathPiece // the path that follows that of the base URL
	query    string      // the query in the path template, escaped
	targets  map[string]target
	security callSecurity
	required []int // required parameters, by index in op.parameters
}

// target is the destination of an argument: a parameter, a member of the body, or the whole body.
type target struct {
	parameter int    // the index in op.parameters; -1: the body
	member    string // the name of the member on the wire; "": the target is not a member
	whole     bool   // the target is the whole body
}

// newCall prepares a call, or says why the operation cannot be called. base is the service's URL.
func newCall(s *Source, op *operation, base *url.URL, security callSecurity) (c *call, reason string) {
	c = &call{source: s, op: op, name: s.options.Name + "." + op.name, base: base, security: security, targets: map[string]target{}}
	add := func(arg string, t target) {
		if _, taken := c.targets[arg]; taken {
			reason = "two of its arguments have the name " + arg
		}
		c.targets[arg] = t
	}
	for i, parameter := range op.parameters {
		add(parameter.arg, target{parameter: i})
		if parameter.required && parameter.in != "path" {
			c.required = append(c.required, i)
		}
	}
	if op.body != nil {
		if op.body.arg != "" {
			add(op.body.arg, target{parameter: -1, whole: true})
		}
		for _, m := range op.body.members {
			add(m.arg, target{parameter: -1, member: m.name})
		}
	}
	template, _, _ := strings.Cut(op.path, "#")
	template, query, _ := strings.Cut(template, "?")
	c.query = escapeLiteral(query, true)
	if reason == "" {
		c.path, reason = pathPieces(template, op.parameters)
	}
	return c, reason
}

// requestBuilder holds the parts of a request.
type requestBuilder struct {
	path    string
	query   []string // escaped pairs
	cookies []string
	header  http.Header
	body    []byte // nil: none
}

// call makes one call.
func (c *call) call(ctx context.Context, args []byte) ([]byte, error) {
	if c.source.ended.Err() != nil {
		return nil, &fault.Error{Code: fault.Unavailable, Outcome: fault.NotSent, Message: c.name + ": the source is closed"}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r, f := c.encode(args, steps.CallbacksOf(ctx).Blocks)
	if f != nil {
		return nil, fault.MarkUnsent(f)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	release, f := c.source.slots.Acquire(ctx)
	if f != nil {
		return nil, f
	}
	defer release()
	result, refused, err := c.attempt(ctx, r)
	if refused { // a token may be revoked early: a 401 had no effect, so try once with a new one
		result, _, err = c.attempt(ctx, r)
	}
	return result, err
}

// attempt signs the request, sends it and reads the answer. refused: the service did not accept a fetched token, and another one
// can be fetched.
func (c *call) attempt(ctx context.Context, r *requestBuilder) (result []byte, refused bool, err error) {
	fetched := make([]string, len(c.security.authenticators))
	for i, a := range c.security.authenticators {
		if a.tokens != nil {
			if fetched[i], err = a.tokens.token(ctx, c.scopes(i)); err != nil {
				return nil, false, err
			}
		}
		a.sign(r, fetched[i])
	}
	own, carried, err := c.carry(ctx, r)
	if err != nil {
		return nil, false, err
	}
	request := c.request(ctx, r)
	response, err := c.source.options.Client.Do(request)
	if err != nil {
		return nil, false, c.fault(request, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusUnauthorized {
		for i, a := range c.security.authenticators {
			if a.tokens != nil {
				a.tokens.forget(c.scopes(i), fetched[i])
				refused = true
			}
		}
		if own != nil && own.Refused != nil {
			refused = own.Refused(carried) || refused
		}
	}
	result, err = c.readResponse(request, response)
	return result, refused, err
}

// carry adds the headers of Options.Carries to a request. own is nil if there are none.
func (c *call) carry(ctx context.Context, r *requestBuilder) (own *steps.Credential, headers map[string]string, err error) {
	o := &c.source.options
	if len(o.Carries) == 0 {
		return nil, nil, nil
	}
	if own = steps.CredentialOf(ctx); own == nil || own.Name != o.Name {
		return nil, nil, fault.MarkUnsent(fault.New(fault.Denied, "%s is called with its caller's own credential, and this call has none", o.Name))
	}
	if headers, err = own.Headers(ctx); err != nil {
		return nil, nil, fault.MarkUnsent(err)
	}
	for name, value := range headers {
		r.header[http.CanonicalHeaderKey(name)] = []string{value}
	}
	return own, headers, nil
}

// scopes returns the scopes to request from authenticator i: the configured ones, else those that the operation requires.
func (c *call) scopes(i int) []string {
	if configured := c.security.authenticators[i].credential.Scopes; configured != nil {
		return configured
	}
	return c.security.scopes[i]
}

// request builds the HTTP request. Its URL is assembled, not parsed: an argument can change only its own part.
func (c *call) request(ctx context.Context, r *requestBuilder) *http.Request {
	u := *c.base
	u.RawPath = strings.TrimSuffix(c.base.EscapedPath(), "/") + r.path
	u.Path, _ = url.PathUnescape(u.RawPath) // escaped above, so it cannot fail
	u.RawQuery = strings.Join(r.query, "&")
	request := (&http.Request{
		Method: c.op.method, URL: &u, Host: u.Host, Header: r.header.Clone(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if len(r.cookies) > 0 {
		cookies := strings.Join(r.cookies, "; ")
		if configured := request.Header.Get("Cookie"); configured != "" {
			cookies = configured + "; " + cookies // the first cookie of a name counts
		}
		request.Header.Set("Cookie", cookies)
	}
	httpbody.SetTrace(ctx, request.Header)
	httpbody.SetIdempotencyKey(ctx, request.Header)
	if len(r.body) > 0 {
		request.ContentLength = int64(len(r.body))
		request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.body)), nil }
		request.Body, _ = request.GetBody()
	} else if r.body != nil {
		request.Body = http.NoBody
	}
	return request
}

// encode puts each argument at its position in the request.
func (c *call) encode(args []byte, blocks *steps.Blocks) (*requestBuilder, *fault.Error) {
	if !gjson.ValidBytes(args) || jsontext.Value(args).Kind() != '{' {
		return nil, fault.New(fault.BadArguments, "the arguments of %s are not a JSON object", c.name)
	}
	values := make([]jsontext.Value, len(c.op.parameters))
	body := bodyArguments{blocks: blocks}
	for _, m := range membersOf(args) {
		switch target, known := c.targets[m.name]; {
		case !known:
			return nil, c.unknownArgument(m.name)
		case target.parameter >= 0 && values[target.parameter] != nil, target.whole && body.whole != nil, slices.Contains(body.args, m.name):
			return nil, badArgument(m.name, "this argument is given twice")
		case target.parameter >= 0:
			values[target.parameter] = m.value
		case target.whole:
			body.whole = m.value
		default:
			body.members, body.args = append(body.members, pair{target.member, m.value}), append(body.args, m.name)
		}
	}
	for _, i := range c.required {
		if values[i] == nil {
			return nil, badArgument(c.op.parameters[i].arg, "%s needs this argument", c.name)
		}
	}
	r := &requestBuilder{header: http.Header{"Accept": {"application/json, */*;q=0.8"}}}
	if c.query != "" {
		r.query = append(r.query, c.query)
	}
	if f := c.addParameters(r, values); f != nil {
		return nil, f
	}
	if f := c.addBody(r, &body); f != nil {
		return nil, f
	}
	for name, value := range c.source.options.Headers { // last, because arguments must not change configured headers
		r.header[http.CanonicalHeaderKey(name)] = []string{value}
	}
	return r, nil
}

func (c *call) unknownArgument(name string) *fault.Error {
	f := badArgument(name, "%s has no such argument", c.name)
	for arg := range c.targets {
		f.Available = append(f.Available, arg)
	}
	slices.Sort(f.Available)
	f.Nearest = fault.Nearest(name, f.Available, 3)
	return f
}

// addParameters encodes the parameters.
func (c *call) addParameters(r *requestBuilder, values []jsontext.Value) *fault.Error {
	var path strings.Builder
	for _, piece := range c.path {
		if piece.parameter < 0 {
			path.WriteString(piece.text)
			continue
		}
		p := &c.op.parameters[piece.parameter]
		if values[piece.parameter] == nil {
			return badArgument(p.arg, "%s needs this argument: it is a part of the path", c.name)
		}
		text, f := p.pathText(values[piece.parameter])
		if f != nil {
			return f
		}
		path.WriteString(text)
	}
	r.path = path.String()
	for i := range c.op.parameters {
		p := &c.op.parameters[i]
		if values[i] == nil {
			continue
		}
		var f *fault.Error
		var text string
		switch p.in {
		case "query":
			if text, f = p.queryText(values[i]); text != "" {
				r.query = append(r.query, strings.Split(text, "&")...)
			}
		case "cookie":
			if text = p.cookieText(values[i]); text != "" {
				r.cookies = append(r.cookies, strings.Split(text, "; ")...)
			}
		case "header":
			f = p.setHeader(r.header, values[i])
		}
		if f != nil {
			return f
		}
	}
	return c.checkPath(r.path)
}

// checkPath rejects a path in which the delimiters of a style, or the text around a parameter, make a dot segment. An example is the style
// label with two empty texts.
func (c *call) checkPath(path string) *fault.Error {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return fault.New(fault.BadArguments, `%s: the arguments together turn a part of the path into "%s", which is not allowed`, c.name, segment)
		}
	}
	return nil
}

// addBody encodes the body.
func (c *call) addBody(r *requestBuilder, arguments *bodyArguments) *fault.Error {
	if c.op.body == nil {
		return nil
	}
	content, contentType, f := c.op.body.encode(arguments)
	if f != nil {
		return f
	}
	if content == nil && c.op.body.required {
		return badArgument(c.op.body.arg, "%s needs this argument: it is the body of the request", c.name)
	}
	r.body = content
	if content != nil && (r.header["Content-Type"] == nil || strings.HasPrefix(contentType, "multipart/")) {
		r.header.Set("Content-Type", contentType)
	}
	return nil
}

// fault gives a transport error a code and hides credentials in its message.
func (c *call) fault(request *http.Request, err error) *fault.Error {
	f := *egress.Failure(request, err)
	f.Message = c.name + ": " + c.source.secrets.text(f.Message)
	if f.Outcome == fault.Applied && !httpbody.Writes(request) {
		f.Outcome = ""
	}
	return &f
}

var resultForms = []string{steps.ResultBody, steps.ResultResponse}

// function returns the call as a steps.Function.
func (c *call) function() steps.Function {
	effect := steps.Write
	switch {
	case c.op.effect.destroys:
		effect = steps.Destroy
	case c.op.effect.reads:
		effect = steps.Read
	}
	description := c.op.description
	if strings.TrimSpace(description) == "" {
		description = c.op.label
	}
	needs, call := "", c.call
	switch o := &c.source.options; {
	case o.Credential != nil:
		call = o.Credential.Carry(c.call)
	case len(o.Carries) > 0:
		needs = o.Name
	}
	return steps.Function{
		Spec: steps.Spec{
			Needs:  needs,
			Redact: secret.Arguments(c.op.input),
			Name:   c.name, Description: description, Keywords: c.keywords(), Input: c.op.input, Output: c.op.output,
			Results: resultForms,
			Effect:  effect, EffectDeclared: true, Idempotent: c.op.effect.idempotent && !c.op.effect.reads,
			Deletes: c.op.effect.destroys,
		},
		Call: call,
	}
}

// keywords returns the document's own names of the operation: its operationId, its method and path.
func (c *call) keywords() []string {
	if c.op.id == "" {
		return []string{c.op.label}
	}
	return []string{c.op.id, c.op.label}
}
