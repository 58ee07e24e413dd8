package steps

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/onecall-mcp/onecall/steps/schema"
)

// The forms of a result: Spec.Results.
const (
	ResultBody     = "body"     // HTTP: the body alone
	ResultResponse = "response" // HTTP: {"status","headers","body"}

	ResultStructured = "structured" // MCP: the structured content, else the content
	ResultText       = "text"       // MCP: the texts of the content, as one string
	ResultContent    = "content"    // MCP: {"structured","content"}, with the blocks of the content
)

type resultKey struct{}

// ResultOf returns the form of the result that the configuration chose for the function that ctx calls; "": the function's own.
func ResultOf(ctx context.Context) string {
	form, _ := ctx.Value(resultKey{}).(string)
	return form
}

// WithResult returns a context whose ResultOf is form.
func WithResult(ctx context.Context, form string) context.Context {
	return context.WithValue(ctx, resultKey{}, form)
}

// setResult chooses a form of the result, if the function has it, and adapts the schema. ignore leaves the schema out.
func (s *Spec) setResult(form *string, ignore bool) {
	if form != nil && slices.Index(s.Results, *form) > 0 {
		s.Result = *form
		s.Output = outputOf(*form, s.Output)
	}
	if ignore {
		s.Output, s.OutputIgnored = nil, true
	}
}

// outputOf returns the schema of a result in a form that is not the function's own, whose schema is output.
func outputOf(form string, output json.RawMessage) json.RawMessage {
	switch form {
	case ResultResponse:
		return schema.ResponseOf(output)
	case ResultText:
		return json.RawMessage(`{"type":"string"}`)
	}
	return nil
}
