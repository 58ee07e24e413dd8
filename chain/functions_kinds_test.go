package chain_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/tidwall/gjson"
)

// functionsOf are the functions of the transcripts, by what `NAME/functions` says.
var functionsOf = map[string]func(*world) []steps.Function{
	"test":    (*world).functions,
	"do":      func(*world) []steps.Function { return writingFunctions() },
	"symbols": func(*world) []steps.Function { return symbols() },
	"spelled": func(*world) []steps.Function { return spelled() },
	"wide":    func(*world) []steps.Function { return []steps.Function{wideArguments()} },
}

// symbols are functions as a server for source code offers them, in one repository only.
func symbols() []steps.Function {
	read := func(name, properties, required, result string) steps.Function {
		return steps.Function{
			Spec: steps.Spec{Name: name, Effect: steps.Read, EffectDeclared: true, Input: schema(`"repoId":{"type":"string"},`+properties, "repoId", required)},
			Call: func(_ context.Context, args []byte) ([]byte, error) {
				if gjson.GetBytes(args, "repoId").Str != "my-repo" {
					return nil, fault.New(fault.FunctionFailed, "no such repository: %s", args)
				}
				return []byte(strings.ReplaceAll(result, "ID", gjson.GetBytes(args, "symbolId").Str)), nil
			},
		}
	}
	return []steps.Function{
		read("symbol.search", `"query":{"type":"string"},"limit":{"type":"integer"}`, "query",
			`{"symbols":[{"symbolId":"s-7","name":"handleAuth"}],"total":1}`),
		read("symbol.getCard", `"symbolId":{"type":"string"}`, "symbolId", `{"card":{"symbolId":"ID","kind":"function"}}`),
		read("code.skeleton", `"symbolId":{"type":"string"}`, "symbolId", `{"symbolId":"ID","skeleton":"func handleAuth(w, r) { … }"}`),
	}
}

// spelled are functions that answer their arguments, of which repo_id may be spelled in several ways.
func spelled() []steps.Function {
	echo := func(name, input string, aliases map[string]string) steps.Function {
		return steps.Function{
			Spec: steps.Spec{Name: name, Effect: steps.Read, EffectDeclared: true, Input: []byte(input), Aliases: aliases},
			Call: func(_ context.Context, args []byte) ([]byte, error) { return append([]byte(nil), args...), nil },
		}
	}
	const repo = `{"type":"object","properties":{"repo_id":{"type":"string"},"n":{"type":"integer"}}`
	return []steps.Function{
		echo("r.closed", repo+`,"additionalProperties":false}`, nil),
		echo("r.open", repo+`}`, nil),
		echo("r.aliased", repo+`}`, map[string]string{"r": "repo_id"}),
		echo("r.free", repo+`,"additionalProperties":true}`, nil), // repoId is a key of the caller's own
		echo("r.twins", `{"type":"object","properties":{"repo_id":{},"repoId":{}}}`, nil),
	}
}

// wideArguments is a function with a schema of some thousand tokens.
func wideArguments() steps.Function {
	wide := make([]string, 60)
	for i := range wide {
		wide[i] = fmt.Sprintf(`"argument%d":{"type":"string","description":"One of many."}`, i)
	}
	return steps.Function{Spec: steps.Spec{Name: "do.wide", Input: schema(strings.Join(wide, ","), "argument0")},
		Call: func(context.Context, []byte) ([]byte, error) { return []byte("1"), nil }}
}
