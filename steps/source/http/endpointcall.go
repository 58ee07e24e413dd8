package http

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/internal/httpbody"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// callEndpoint makes one call of an endpoint. The result shows no secret of the configuration, even if the server repeats it.
func (s *Source) callEndpoint(ctx context.Context, e *endpoint, args []byte) ([]byte, error) {
	if err := s.checkOpen(); err != nil {
		return nil, err
	}
	if !json.Valid(args) || !gjson.ParseBytes(args).IsObject() {
		return nil, fault.MarkUnsent(fault.New(fault.BadArguments, "the arguments must be a JSON object"))
	}
	ctx, cancel := s.withTimeout(ctx, e.timeout)
	defer cancel()
	effect := steps.EffectOf(ctx, e.spec.Effect)
	ctx = steps.WithEffect(ctx, effect) // the request's method may say something else
	if e.idempotent || effect == steps.Read {
		ctx = withIdempotent(ctx)
	}
	request, hidden, err := e.request(ctx, args)
	if err != nil {
		return nil, fault.MarkUnsent(err)
	}
	scrubber := e.scrubber
	if len(hidden) > 0 {
		scrubber = scrubber.With(secret.UnusualComponents(hidden...))
	}
	reply, err := s.send(s.endpointClient, request)
	whole := e.wholeResponse
	if form := steps.ResultOf(ctx); form != "" {
		whole = form == steps.ResultResponse
	}
	if err == nil && e.structured && reply.body[0] == '"' {
		err = e.notStructured(reply, effect)
	}
	if err != nil {
		if f, ok := fault.As(err); ok && scrubber != nil {
			return nil, steps.ScrubFault(scrubber, f)
		}
		return nil, err
	}
	switch {
	case whole:
		return scrubber.JSON(httpbody.Response(reply.status, reply.header, nil, reply.body)), nil
	case reply.empty:
		return scrubber.JSON(httpbody.Empty(reply.status, reply.header)), nil
	}
	return scrubber.JSON(reply.body), nil
}

// notStructured returns the fault of a text, such as the page of a login, where Output declares an object or an array.
func (e *endpoint) notStructured(r *reply, effect steps.Effect) error {
	f := fault.New(fault.FunctionFailed, "%s answered %d with a text (%s), where output declares an object or an array",
		e.url.host, r.status, cmp.Or(r.header.Get("Content-Type"), "no Content-Type"))
	f.Status, f.Body = r.status, r.body
	if effect != steps.Read {
		f.Outcome = fault.Applied
	}
	return f
}

// request builds the request. hidden are the secrets in it that come from arguments.
func (e *endpoint) request(ctx context.Context, args []byte) (request *http.Request, hidden []string, err error) {
	u, err := e.url.expand(gjson.ParseBytes(args))
	if err != nil {
		return nil, nil, err
	}
	scope := &refs.Scope{Input: args}
	header, hidden, err := e.header(ctx, scope)
	if err != nil {
		return nil, nil, err
	}
	if e.query != nil {
		query, err := resolve(ctx, e.query, scope)
		if err != nil {
			return nil, nil, err
		}
		values, err := formValues("query", members(query))
		if err != nil {
			return nil, nil, atConfiguration(err)
		}
		u.RawQuery = joinQuery(u.RawQuery, values)
	}
	var body json.RawMessage
	if e.body != nil {
		if body, err = resolve(ctx, e.body, scope); err != nil {
			return nil, nil, err
		}
	}
	request, err = newRequest(ctx, e.method, u, header, body)
	if err != nil {
		return nil, nil, atConfiguration(err)
	}
	return request, hidden, nil
}

// header resolves the templates of the headers.
func (e *endpoint) header(ctx context.Context, scope *refs.Scope) (header http.Header, hidden []string, err error) {
	values := make(map[string]string, len(e.headers))
	for i := range e.headers {
		h := &e.headers[i]
		if h.template == nil {
			values[h.name] = h.text
			continue
		}
		raw, err := resolve(ctx, h.template, scope)
		if err != nil {
			return nil, nil, err
		}
		value := gjson.ParseBytes(raw)
		switch value.Type {
		case gjson.Null:
			continue
		case gjson.JSON:
			return nil, nil, fault.New(fault.BadArguments, "the header %s takes a text, a number or a boolean, not an object or array", h.name)
		}
		values[h.name] = scalarText(value)
		if problem := headerProblem(h.name, values[h.name]); problem != "" {
			return nil, nil, fault.New(fault.BadArguments, "the header %s cannot be made of these arguments: %s", h.name, problem)
		}
		if h.secret() {
			hidden = append(hidden, values[h.name])
		}
	}
	if header, err = requestHeader(values); err == nil && e.carries {
		err = e.carry(ctx, header)
	}
	return header, hidden, err
}

// carry adds the headers of Endpoint.Carries to those of a request.
func (e *endpoint) carry(ctx context.Context, header http.Header) error {
	own := steps.CredentialOf(ctx)
	if own == nil || own.Name != e.spec.Name {
		return fault.New(fault.Denied, "%s is called with its caller's own credential, and this call has none", e.spec.Name)
	}
	headers, err := own.Headers(ctx)
	for name, value := range headers {
		header.Set(name, value)
	}
	return err
}

// secret reports whether the header's value must not be shown.
func (h *headerTemplate) secret() bool { return !egress.SafeHeader(h.name) }

// resolve resolves a template. A reference to a value that is missing fails with bad_arguments, because an argument is missing.
func resolve(ctx context.Context, t *refs.Template, scope *refs.Scope) ([]byte, error) {
	raw, err := t.Resolve(ctx, nil, scope)
	if err == nil {
		return raw, nil
	}
	f, ok := fault.As(err)
	if !ok {
		return nil, err
	}
	copied := *f
	copied.At = "" // f.At is a position in the configuration, which the caller does not know
	if copied.Code == fault.ReferenceMissing {
		copied.Code = fault.BadArguments
	}
	return nil, &copied
}

// atConfiguration moves a fault's position, a part of the endpoint's configuration such as query.units, to its message: the caller knows
// only positions of arguments.
func atConfiguration(err error) error {
	f, ok := fault.As(err)
	if !ok || f.Code != fault.BadArguments {
		return err
	}
	copied := *f
	copied.Message = strings.ReplaceAll(strings.TrimPrefix(f.At, "/"), "/", ".") + " cannot be made of these arguments: " + f.Message
	copied.At = ""
	return &copied
}
