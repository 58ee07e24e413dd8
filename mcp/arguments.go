package mcp

import (
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/steps"
)

// readArguments reads the arguments of one of onecall's own tools into a struct. A field that is missing or null keeps its value.
func readArguments(raw []byte, table *decode.Table, into any) *decode.Reader {
	r := &decode.Reader{}
	compact, f := decode.Compact(raw)
	if f != nil {
		r.Faults.Add(f)
		return r
	}
	r.Object(gjson.ParseBytes(compact), "", table, into, table.Names, nil)
	return r
}

// fetchFields are the fields of a fetch.
var fetchFields = chain.FetchFields()

// fetch answers a call with a continuation token. Fields that a fetch does not have belong to the earlier call and are dropped,
// as is a query with any mode but query.
func (c *call) fetch() *sdk.CallToolResult {
	root := gjson.ParseBytes(c.args)
	fields := root
	if token := root.Get("continuation_token"); !token.Exists() || token.Type == gjson.Null {
		fields = root.Get("params")
	}
	request := []byte{'{'}
	fields.ForEach(func(key, value gjson.Result) bool {
		name := key.String()
		if !slices.Contains(fetchFields, name) || name == "query" && fields.Get("mode").Str != "query" {
			return true
		}
		if len(request) > 1 {
			request = append(request, ',')
		}
		request = append(append(append(request, marshal(name)...), ':'), value.Raw...)
		return true
	})
	request = append(request, '}')
	c.args = request
	return c.run()
}

// misplacedToken returns the fault of a continuation token in an argument that does not take one; nil: there is none. The caller wanted
// a fetch, so the function must not run. Arguments that the function declares may hold anything.
func misplacedToken(entry *steps.Entry, args []byte) *fault.Error {
	var wrong *fault.Error
	gjson.ParseBytes(args).ForEach(func(key, value gjson.Result) bool {
		name := key.String()
		isToken := steps.FoldName(name) == "continuationtoken" && value.Type != gjson.Null && value.Raw != `""`
		if entry.Argument(name) == "" && name == "continuation_token" && value.Type == gjson.String && value.Str != "" {
			wrong = fault.New(fault.TokenExpired, budget.ExpiredMessage)
			wrong.At = "/continuation_token"
			return false
		}
		if entry.Argument(name) == "" && (isToken || strings.Contains(value.Raw, budget.TokenPrefix)) {
			wrong = fault.New(fault.BadRequest, "%s holds a continuation token, and nothing was run: "+
				"a fetch takes it as continuation_token, a string, beside mode", fault.ClipRunes(name, maxName))
			wrong.At = fault.Key("", name)
		}
		return wrong == nil
	})
	return wrong
}

// isFetch reports whether the arguments of a tool fetch an earlier large result: onecall's token is at the top level or in
// params. On onecall's own tools any continuation token counts.
func isFetch(args []byte, builtin bool) bool {
	for _, path := range []string{"continuation_token", "params.continuation_token"} {
		token := gjson.GetBytes(args, path)
		if token.Type == gjson.String && strings.HasPrefix(token.Str, budget.TokenPrefix) {
			return true
		}
		if builtin && token.Exists() && token.Type != gjson.Null {
			return true
		}
	}
	return false
}
