// Package exprs offers expr.eval, which evaluates an expression over variables, and text.match and text.replace, which work with regular
// expressions and their groups.
package exprs

import (
	"context"
	"encoding/json"
	"sync/atomic"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// Source offers expr.eval, text.match and text.replace.
type Source struct{ closed atomic.Bool }

// New creates the source. It holds no resources; Close only makes later calls fail.
func New() *Source { return &Source{} }

// Close makes later calls fail with unavailable.
func (s *Source) Close() error {
	s.closed.Store(true)
	return nil
}

const matchSchema = `{"type":"object","additionalProperties":false,"required":["match","groups","named"],"properties":{` +
	`"match":{"type":"string"},"groups":{"type":"array","items":{"type":["string","null"]}},` +
	`"named":{"type":"object","additionalProperties":{"type":["string","null"]}}}}`

// Functions returns the functions, which only read.
func (s *Source) Functions() []steps.Function {
	return []steps.Function{
		{
			Spec: steps.Spec{
				Name:        "expr.eval",
				Description: "Evaluates an expr-lang expression over vars, e.g. {expression: \"sum(xs) / len(xs)\", vars: {xs: [1, 2]}}.",
				Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["expression"],"properties":{` +
					`"expression":{"type":"string"},"vars":{"type":"object","description":"the names that the expression may use"}}}`),
				Effect: steps.Read, EffectDeclared: true, Local: true, PassesArgs: true,
				Check: checkExpression, Expression: "expression",
			},
			Call: s.guard(eval),
		},
		{
			Spec: steps.Spec{
				Name:        "text.match",
				Description: "The first match of a regular expression (RE2) with its groups, or null; with all, the array of all matches.",
				Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["text","pattern"],"properties":{` +
					`"text":{"type":"string"},"pattern":{"type":"string"},"all":{"type":"boolean","default":false}}}`),
				Output: json.RawMessage(`{"anyOf":[` + matchSchema + `,{"type":"null"},{"type":"array","items":` + matchSchema + `}]}`),
				Effect: steps.Read, EffectDeclared: true, Local: true, PassesArgs: true,
				Check: checkPattern,
			},
			Call: s.guard(match),
		},
		{
			Spec: steps.Spec{
				Name:        "text.replace",
				Description: `Replaces every match of a regular expression (RE2). In with, \1 or \g<name> is a group, \0 the whole match.`,
				Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["text","pattern","with"],"properties":{` +
					`"text":{"type":"string"},"pattern":{"type":"string"},"with":{"type":"string"}}}`),
				Output: json.RawMessage(`{"type":"string"}`),
				Effect: steps.Read, EffectDeclared: true, Local: true, PassesArgs: true,
				Check: checkPattern,
			},
			Call: s.guard(replace),
		},
	}
}

func (s *Source) guard(call steps.Call) steps.Call {
	return func(ctx context.Context, args []byte) ([]byte, error) {
		if s.closed.Load() {
			return nil, fault.New(fault.Unavailable, "the source of expressions is closed")
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return call(ctx, args)
	}
}

func eval(ctx context.Context, args []byte) ([]byte, error) {
	a := struct {
		Expression *string         `json:"expression"`
		Vars       json.RawMessage `json:"vars"`
	}{Vars: json.RawMessage("{}")}
	if err := decode(args, &a); err != nil {
		return nil, err
	}
	if a.Expression == nil {
		return nil, missing("expression")
	}
	if a.Vars[0] != '{' {
		return nil, &fault.Error{Code: fault.BadArguments, Message: "vars must be an object", At: "/vars"}
	}
	return refs.EvalFree(ctx, *a.Expression, a.Vars)
}

// decode decodes arguments strictly. The registry has checked them against the schema; a source that is called without a registry still
// returns coded errors.
func decode(args []byte, into any) error {
	if err := jsonv2.Unmarshal(args, into, jsonv2.RejectUnknownMembers(true)); err != nil {
		return &fault.Error{Code: fault.BadArguments, Message: "the arguments do not fit: " + err.Error(), Err: err}
	}
	return nil
}

func missing(name string) error {
	return fault.New(fault.BadArguments, "the argument %s is missing", name)
}
