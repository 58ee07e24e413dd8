package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/ladder"
	stepschema "github.com/onecall-mcp/onecall/steps/schema"
)

// kind has functions for transcripts, and what else an engine over them needs.
type kind struct {
	functions func(*world) []steps.Function
	registry  func(*steps.Registry) *steps.Registry // nil: unchanged
	rung      func(*steps.Entry) int
}

// kinds are the kinds of functions that transcripts can name.
var kinds = map[string]kind{
	"test":     {functions: (*world).functions},
	"do":       {functions: func(*world) []steps.Function { return writingFunctions() }},
	"excerpts": {functions: func(*world) []steps.Function { return excerpts() }},
	"fields":   {functions: func(*world) []steps.Function { return listingFields() }},
	"mailbox": {functions: func(*world) []steps.Function { return mailboxWithChains() },
		registry: func(r *steps.Registry) *steps.Registry { return r.LinkChains(nil) }},
	"symbols":        {functions: func(*world) []steps.Function { return symbols() }},
	"spelled":        {functions: func(*world) []steps.Function { return spelled() }},
	"wide":           {functions: func(*world) []steps.Function { return []steps.Function{wideArguments()} }},
	"seen":           {functions: func(*world) []steps.Function { return []steps.Function{seenList} }, registry: seenShapes},
	"ladder":         ladderKind(ladder.Enforce),
	"ladder-of-warn": ladderKind(ladder.Warn),
}

// symbols returns functions like those of a server for source code, with a single repository.
func symbols() []steps.Function {
	read := func(name, properties, required, result string) steps.Function {
		return steps.Function{
			Spec: steps.Spec{Name: name, Effect: steps.Read, EffectDeclared: true,
				Input: schema(`"repoId":{"type":"string"},`+properties, "repoId", required)},
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

// spelled returns functions that return their arguments. The argument repo_id may be spelled in several ways.
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
		echo("r.free", repo+`,"additionalProperties":true}`, nil), // repoId is an additional key of the caller
		echo("r.twins", `{"type":"object","properties":{"repo_id":{},"repoId":{}}}`, nil),
	}
}

// wideArguments returns a function with a schema of some thousand tokens.
func wideArguments() steps.Function {
	wide := make([]string, 60)
	for i := range wide {
		wide[i] = fmt.Sprintf(`"argument%d":{"type":"string","description":"One of many."}`, i)
	}
	return steps.Function{Spec: steps.Spec{Name: "do.wide", Input: schema(strings.Join(wide, ","), "argument0")},
		Call: func(context.Context, []byte) ([]byte, error) { return []byte("1"), nil }}
}

// answering returns a function that returns the value of its argument gives, or else the text of its argument answer.
func answering(spec steps.Spec) steps.Function {
	return steps.Function{Spec: spec, Call: func(_ context.Context, args []byte) ([]byte, error) {
		if gives := gjson.GetBytes(args, "gives"); gives.Exists() {
			return []byte(gives.Raw), nil
		}
		return []byte(gjson.GetBytes(args, "answer").Str), nil
	}}
}

// writingFunctions returns functions of each effect, declared and not, that return what their arguments say.
func writingFunctions() []steps.Function {
	create := answering(steps.Spec{Name: "web.create", EffectDeclared: true})
	call := create.Call
	create.Call = func(ctx context.Context, args []byte) ([]byte, error) {
		if report := steps.CallbacksOf(ctx).Status; report != nil {
			report(201)
		}
		return call(ctx, args)
	}
	return []steps.Function{
		create,
		answering(steps.Spec{Name: "do.write", EffectDeclared: true}),
		answering(steps.Spec{Name: "do.destroy", Effect: steps.Destroy, EffectDeclared: true}),
		answering(steps.Spec{Name: "do.edit", Effect: steps.Destroy, EffectDeclared: true}),
		answering(steps.Spec{Name: "do.revoke", Effect: steps.Destroy, EffectDeclared: true, Deletes: true}),
		answering(steps.Spec{Name: "do.deleteItem", Effect: steps.Destroy, EffectDeclared: true,
			Input: []byte(`{"properties":{"sku":{},"why":{},"gives":{}},"required":["sku"]}`)}),
		answering(steps.Spec{Name: "do.deletePart", Effect: steps.Destroy, EffectDeclared: true,
			Input: []byte(`{"properties":{"orderId":{},"partId":{},"name":{},"gives":{}},"required":["orderId","partId","name"]}`)}),
		answering(steps.Spec{Name: "do.deleteFrom", Effect: steps.Destroy, EffectDeclared: true,
			Input: []byte(`{"properties":{"list":{},"name":{},"gives":{}},"required":["list","name"]}`)}),
		answering(steps.Spec{Name: "do.read", Effect: steps.Read, EffectDeclared: true}),
		answering(steps.Spec{Name: "do.unknown"}),
		answering(steps.Spec{Name: "do.heavy", Effect: steps.Read, EffectDeclared: true, Heavy: "always"}),
		answering(steps.Spec{Name: "do.heavyWrite", EffectDeclared: true, Heavy: "always"}),
		answering(steps.Spec{Name: "do.light", Effect: steps.Read, EffectDeclared: true, Heavy: "never"}),
		answering(steps.Spec{Name: "do.lightWrite", EffectDeclared: true, Heavy: "never"}),
	}
}

// excerpts returns functions that answer the value of gives, of which the configuration shows a part.
func excerpts() []steps.Function {
	read := func(name string, e steps.Excerpt) steps.Function {
		return answering(steps.Spec{Name: name, Effect: steps.Read, EffectDeclared: true, Answer: &e})
	}
	heavy, write := read("x.heavy", steps.Excerpt{Top: 1}), read("x.write", steps.Excerpt{Drop: []string{"comments"}})
	heavy.Heavy, write.Effect = "always", steps.Write
	return []steps.Function{
		read("x.top", steps.Excerpt{Top: 2}),
		read("x.keep", steps.Excerpt{Keep: []string{"count", "files.path", "files.lines.n"}}),
		read("x.drop", steps.Excerpt{Drop: []string{"files.lines", "etag"}}),
		read("x.all", steps.Excerpt{Keep: []string{"files"}, Drop: []string{"files.lines.text"}, Top: 1}),
		heavy, write,
		answering(steps.Spec{Name: "x.plain", Effect: steps.Read, EffectDeclared: true}),
	}
}

// listingFields returns functions that answer an item, or two, with the members that their argument fields lists.
func listingFields() []steps.Function {
	item := map[string]string{"id": "7", "name": `"lamp"`, "left": "3.50", "tags": `["a"]`, "truncated": "true"}
	read := func(name, fields, output string, many bool) steps.Function {
		spec := steps.Spec{Name: name, Effect: steps.Read, EffectDeclared: true, Fields: "fields", Output: []byte(output),
			Input: []byte(`{"type":"object","properties":{"sku":{},"fields":` + fields + `}}`)}
		return steps.Function{Spec: spec, Call: func(_ context.Context, args []byte) ([]byte, error) {
			list := gjson.GetBytes(args, "fields")
			names := strings.FieldsFunc(list.String(), func(r rune) bool { return strings.ContainsRune(`[],"`, r) })
			if !list.Exists() {
				names = []string{"id", "name", "left", "tags"}
			}
			var members []string
			for _, name := range names {
				if item[name] == "" {
					return nil, fault.New(fault.FunctionFailed, "no field %s", name)
				}
				members = append(members, `"`+name+`":`+item[name])
			}
			one := "{" + strings.Join(members, ",") + "}"
			if many {
				one = "[" + one + "," + one + "]"
			}
			return []byte(one), nil
		}}
	}
	const text, texts = `{"type":"string"}`, `{"type":"array","items":{"type":"string"}}`
	const shape = `{"type":"object","properties":{"id":{},"name":{},"left":{},"tags":{}},"required":["id","name","left","tags"]}`
	defaults := read("api.defaults", text, "", false)
	defaults.Defaults = []byte(`{"fields":"id,name"}`)
	response := read("api.response", text, "", false)
	response.Results, response.Result = []string{"body", "response"}, "response"
	write := read("api.write", text, "", false)
	write.Effect = steps.Write
	return []steps.Function{
		read("api.get", text, shape, false),
		read("api.list", texts, `{"type":"array","items":`+shape+`}`, true),
		read("api.open", text, "", false),
		read("api.few", `{"type":"array","items":{"enum":["id","name"]}}`, "", false),
		read("api.part", text, `{"type":"object","properties":{"id":{},"name":{},"truncated":{}}}`, false),
		defaults, response, write,
	}
}

// objects returns an array of n objects of usual size.
func objects(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"id":%d,"url":"https://netbox.example/api/dcim/devices/%d/","name":"rack-%02d-switch",`+
			`"status":{"value":"active","label":"Active"},"tags":["core","edge"],`+
			`"description":"The switch of rack %d, ordered by the network team."}`, 1000+i, 1000+i, i, i)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// wide returns an object of more than 100 tokens.
func wide(head string) string {
	return `{` + head + `,"comments":"` + filler + `"}`
}

func stepOf(fn, answer, extra string) string {
	text, _ := json.Marshal(answer)
	return fmt.Sprintf(`{"fn":%q,"args":{"answer":%s}%s}`, fn, text, extra)
}

// seenList is a function without an output schema.
var seenList = steps.Function{Spec: steps.Spec{Name: "s.list", Effect: steps.Read}, Call: func(context.Context, []byte) ([]byte, error) {
	return []byte(`{"items":[{"id":1,"tags":["a"]}],"total":1}`), nil
}}

// seenShapes adds the shape of earlier results to a registry. Some of its members are rare.
func seenShapes(r *steps.Registry) *steps.Registry {
	const item = `{"type":"object","properties":{"id":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}}},` +
		`"additionalProperties":false}`
	seen := &steps.ResultShape{Schema: []byte(`{"type":"object","properties":{"items":{"type":"array","items":` + item +
		`},"total":{"type":"integer"}},"additionalProperties":false}`),
		Rare: func(path []stepschema.Element) bool { return path[0].Key == "rare" }}
	return r.Learn(func(_ *steps.Spec, call steps.Call) (steps.Call, func() *steps.ResultShape) {
		return call, func() *steps.ResultShape { return seen }
	})
}
