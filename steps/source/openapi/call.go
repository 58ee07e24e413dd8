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

// callTimeout is the limit of a call, retries included, whose context has no deadline.
const callTimeout = 2 * time.Minute

// call is an operation made ready to be called: all that does not depend on the arguments is worked out.
type call struct {
	source  *Source
	op      *operation
	name    string // of the function
	base    *url.URL
	path    []piece // after the base's path
	query   string  // that the path template holds, escaped
	targets map[string]target
	plan    plan
	lacks   []int // of op.parameters: those required, without which no request can be made
}

// piece is a part of a path: fixed text, or the place of a parameter.
type piece struct {
	text      string // escaped; with a parameter: ""
	parameter int    // of op.parameters; -1: fixed text
}

// target is where an argument goes: to a parameter, to a member of the body, or to the whole of it.
type target struct {
	parameter int // of op.parameters; -1: the body
	member    string
	whole     bool
}

// newCall works out a call; the reason where the operation cannot be called. base is the service's URL.
func newCall(s *Source, op *operation, base *url.URL, p plan) (c *call, reason string) {
	c = &call{source: s, op: op, name: s.options.Name + "." + op.name, base: base, plan: p, targets: map[string]target{}}
	add := func(arg string, t target) {
		if _, taken := c.targets[arg]; taken {
			reason = "two of its arguments have the name " + arg
		}
		c.targets[arg] = t
	}
	for i, parameter := range op.parameters {
		add(parameter.arg, target{parameter: i})
		if parameter.required && parameter.in != "path" {
			c.lacks = append(c.lacks, i)
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

// pathPieces takes a path template apart (OpenAPI 3.0.4, section 4.8.8.1).
func pathPieces(template string, parameters []parameter) (pieces []piece, reason string) {
	for template != "" {
		fixed, rest, found := strings.Cut(template, "{")
		if fixed != "" {
			pieces = append(pieces, piece{escapeLiteral(fixed, false), -1})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return nil, "its path has a brace that is not closed"
		}
		at := slices.IndexFunc(parameters, func(p parameter) bool { return p.in == "path" && p.name == name })
		if at < 0 {
			return nil, "its path has {" + name + "}, for which there is no parameter"
		}
		pieces = append(pieces, piece{parameter: at})
		template = after
	}
	return pieces, ""
}

// escapeLiteral escapes what cannot stand in a path or in a query, and leaves what is escaped already.
func escapeLiteral(text string, query bool) string {
	kept := "!$&'()*+,;=:@/"
	if query {
		kept += "?"
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2]) {
			out.WriteString(text[i : i+3])
			i += 2
			continue
		}
		out.WriteString(escapeBut(text[i:i+1], kept))
	}
	return out.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// outgoing is a request on its way to be made.
type outgoing struct {
	path    string
	query   []string // escaped pairs
	cookies []string
	header  http.Header
	body    []byte // nil: none
}

// call carries out one call.
func (c *call) call(ctx context.Context, args []byte) ([]byte, error) {
	if c.source.ended.Err() != nil {
		return nil, &fault.Error{Code: fault.Unavailable, Outcome: fault.NotSent, Message: c.name + ": the source is closed"}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r, f := c.encode(args)
	if f != nil {
		return nil, fault.Unsent(f)
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
	if refused { // a token that was taken back before its time: a 401 has done nothing, so that a new one may be tried
		result, _, err = c.attempt(ctx, r)
	}
	return result, err
}

// attempt signs the request, sends it and reads the answer. refused tells that a fetched token was not accepted and
// another one can be had.
func (c *call) attempt(ctx context.Context, r *outgoing) (result []byte, refused bool, err error) {
	fetched := make([]string, len(c.plan.accesses))
	for i, a := range c.plan.accesses {
		if a.tokens != nil {
			if fetched[i], err = a.tokens.token(ctx, c.scopes(i)); err != nil {
				return nil, false, err
			}
		}
		a.sign(r, fetched[i])
	}
	request := c.request(ctx, r)
	response, err := c.source.options.Client.Do(request)
	if err != nil {
		return nil, false, c.failed(request, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusUnauthorized {
		for i, a := range c.plan.accesses {
			if a.tokens != nil {
				a.tokens.forget(c.scopes(i), fetched[i])
				refused = true
			}
		}
	}
	result, err = c.read(request, response)
	return result, refused, err
}

// scopes are those to ask for with the plan's access i.
func (c *call) scopes(i int) []string {
	if asked := c.plan.accesses[i].credential.Scopes; asked != nil {
		return asked
	}
	return c.plan.scopes[i]
}

// request makes the HTTP request. Its URL is put together, not parsed: no argument can change more than its own place.
func (c *call) request(ctx context.Context, r *outgoing) *http.Request {
	u := *c.base
	u.RawPath = strings.TrimSuffix(c.base.EscapedPath(), "/") + r.path
	u.Path, _ = url.PathUnescape(u.RawPath) // what was escaped here can be unescaped
	u.RawQuery = strings.Join(r.query, "&")
	request := (&http.Request{
		Method: c.op.method, URL: &u, Host: u.Host, Header: r.header.Clone(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if len(r.cookies) > 0 {
		if configured := request.Header.Get("Cookie"); configured != "" {
			r.cookies = append([]string{configured}, r.cookies...) // the first of a name counts
		}
		request.Header.Set("Cookie", strings.Join(r.cookies, "; "))
	}
	httpbody.Trace(ctx, request.Header)
	httpbody.Repeatable(ctx, request.Header)
	if len(r.body) > 0 {
		request.ContentLength = int64(len(r.body))
		request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.body)), nil }
		request.Body, _ = request.GetBody()
	} else if r.body != nil {
		request.Body = http.NoBody
	}
	return request
}

// encode puts each argument in its place.
func (c *call) encode(args []byte) (*outgoing, *fault.Error) {
	if !gjson.ValidBytes(args) || jsontext.Value(args).Kind() != '{' {
		return nil, fault.New(fault.BadArguments, "the arguments of %s are not a JSON object", c.name)
	}
	values := make([]jsontext.Value, len(c.op.parameters))
	var body given
	for _, m := range membersOf(args) {
		switch to, known := c.targets[m.name]; {
		case !known:
			return nil, c.unknown(m.name)
		case to.parameter >= 0 && values[to.parameter] != nil, to.whole && body.whole != nil, slices.Contains(body.args, m.name):
			return nil, badArgument(m.name, "this argument is given twice")
		case to.parameter >= 0:
			values[to.parameter] = m.value
		case to.whole:
			body.whole = m.value
		default:
			body.members, body.args = append(body.members, pair{to.member, m.value}), append(body.args, m.name)
		}
	}
	for _, i := range c.lacks {
		if values[i] == nil {
			return nil, badArgument(c.op.parameters[i].arg, "%s needs this argument", c.name)
		}
	}
	r := &outgoing{header: http.Header{"Accept": {"application/json, */*;q=0.8"}}}
	if c.query != "" {
		r.query = append(r.query, c.query)
	}
	if f := c.place(r, values); f != nil {
		return nil, f
	}
	if f := c.fill(r, &body); f != nil {
		return nil, f
	}
	for name, value := range c.source.options.Headers { // after the arguments, which cannot change what is configured
		r.header[http.CanonicalHeaderKey(name)] = []string{value}
	}
	return r, nil
}

func (c *call) unknown(name string) *fault.Error {
	f := badArgument(name, "%s has no such argument", c.name)
	for arg := range c.targets {
		f.Available = append(f.Available, arg)
	}
	slices.Sort(f.Available)
	f.Nearest = fault.Nearest(name, f.Available, 3)
	return f
}

// place writes the parameters.
func (c *call) place(r *outgoing, values []jsontext.Value) *fault.Error {
	var path strings.Builder
	for _, part := range c.path {
		if part.parameter < 0 {
			path.WriteString(part.text)
			continue
		}
		p := &c.op.parameters[part.parameter]
		if values[part.parameter] == nil {
			return badArgument(p.arg, "%s needs this argument: it is a part of the path", c.name)
		}
		text, f := p.pathText(values[part.parameter])
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
	return c.wellPlaced(r.path)
}

// wellPlaced refuses a path in which the delimiters of a style, or the text around a parameter, make a segment that
// climbs, such as the label of two empty texts.
func (c *call) wellPlaced(path string) *fault.Error {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return fault.New(fault.BadArguments, `%s: together the arguments make "%s" of a part of the path, which is refused`, c.name, segment)
		}
	}
	return nil
}

// fill writes the body.
func (c *call) fill(r *outgoing, g *given) *fault.Error {
	if c.op.body == nil {
		return nil
	}
	content, contentType, f := c.op.body.encode(g)
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

// failed gives what went wrong on the way a code, and hides what the message may repeat of the credentials.
func (c *call) failed(request *http.Request, err error) *fault.Error {
	f := *egress.Failure(request, err)
	f.Message = c.name + ": " + c.source.secrets.text(f.Message)
	return &f
}

// function is the call as the registry takes it.
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
		description = c.op.place
	}
	return steps.Function{
		Spec: steps.Spec{
			Redact: secret.Arguments(c.op.input),
			Name:   c.name, Description: description, Keywords: c.keywords(), Input: c.op.input, Output: c.op.output,
			Effect: effect, EffectDeclared: true, Idempotent: c.op.effect.idempotent && !c.op.effect.reads,
			Deletes: c.op.effect.destroys,
		},
		Call: c.call,
	}
}

// keywords are how the document itself names the operation: its operationId, its method and path.
func (c *call) keywords() []string {
	if c.op.id == "" {
		return []string{c.op.place}
	}
	return []string{c.op.id, c.op.place}
}
