package openapi

import (
	"net/http"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/httpbody"
	"github.com/onecall-mcp/onecall/steps"
)

// readResponse returns the result of a response: its body, or in the form that the configuration chose. A status of 300 or more is
// function_failed with the status and the body. So is a body of a type that the document does not declare, such as the page of a login, and
// one that claims to be JSON but is not: what it says could be mistaken for a value.
func (c *call) readResponse(request *http.Request, response *http.Response) ([]byte, error) {
	if response.StatusCode >= 300 {
		return nil, c.refusal(request, response)
	}
	body, whole, err := httpbody.Read(request.Context(), response, c.source.options.MaxBodyBytes)
	defer body.Release()
	if err != nil {
		return nil, c.fault(request, err)
	}
	if !whole {
		return nil, c.successFault(request, fault.New(fault.LimitExceeded, "%s answered more than %d bytes: ask for less, by a page or a filter",
			c.name, c.source.options.MaxBodyBytes))
	}
	header, problem := httpbody.Promised(response.Header, body.Data, c.op.declaredTypes(response.StatusCode))
	var result []byte
	if problem == "" {
		if result, problem, err = body.Result(header, true); err != nil {
			return nil, c.fault(request, err)
		}
	}
	if problem != "" {
		f := fault.New(fault.FunctionFailed, "%s (%s) answered %d %s", c.name, c.op.label, response.StatusCode, problem)
		f.Status, f.Body = response.StatusCode, c.source.secrets.json(httpbody.Excerpt(header, body.Data))
		return nil, c.successFault(request, f)
	}
	switch {
	case steps.ResultOf(request.Context()) == steps.ResultResponse:
		result = httpbody.Response(response.StatusCode, response.Header, nil, result)
	case len(body.Data) == 0:
		result = httpbody.Empty(response.StatusCode, response.Header)
	}
	if reportStatus := steps.CallbacksOf(request.Context()).Status; reportStatus != nil {
		reportStatus(response.StatusCode)
	}
	return c.source.secrets.json(result), nil
}

// successFault marks the fault of a success whose body cannot be used: if the request may write, its effect was applied.
func (c *call) successFault(request *http.Request, f *fault.Error) *fault.Error {
	if httpbody.Writes(request) {
		f.Outcome = fault.Applied
	}
	return f
}

// refusal returns the error of a status that is not a success.
func (c *call) refusal(request *http.Request, response *http.Response) *fault.Error {
	f := httpbody.Refusal(request, response, true)
	f.Message = c.name + " (" + c.op.label + ") " + c.source.secrets.text(f.Message)
	f.Body = c.source.secrets.json(f.Body)
	switch {
	case response.StatusCode < 400:
		f.Message += ", a redirect that is not followed"
	case response.StatusCode == http.StatusUnauthorized && len(c.security.unconfigured) > 0:
		f.Message += ": it needs a credential that is not configured, auth." + strings.Join(c.security.unconfigured, " or auth.")
	case response.StatusCode == http.StatusUnauthorized && len(c.security.authenticators) > 0:
		f.Message += ": look at the credential auth." + c.security.authenticators[0].name
	case response.StatusCode == http.StatusUnauthorized:
		f.Message += ": the document names no credential for it; set one in headers"
	}
	return f
}
