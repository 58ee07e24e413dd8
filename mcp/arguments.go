package mcp

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/steps"
)

// argumentReader reads the arguments of onecall's own tools strictly: it reports all faults and ignores nothing.
type argumentReader struct {
	values map[string]gjson.Result
	faults []*fault.Error
}

// readArguments reads an object into a struct, whose json tags name the only fields allowed. A field that is missing or null
// keeps its value. The tag max bounds a list; numbers are at least 1.
func readArguments(raw []byte, into any) *argumentReader {
	a := &argumentReader{values: map[string]gjson.Result{}}
	root := gjson.ParseBytes(raw)
	if !gjson.ValidBytes(raw) || !root.IsObject() {
		a.fault(fault.BadRequest, "", "the arguments must be a JSON object")
		return a
	}
	fields := reflect.ValueOf(into).Elem()
	var known []string
	for field := range fields.Type().Fields() {
		known = append(known, field.Tag.Get("json"))
	}
	root.ForEach(func(key, value gjson.Result) bool {
		name := key.String()
		_, duplicate := a.values[name]
		switch {
		case duplicate:
			a.fault(fault.BadRequest, fault.Key("", name), "%q is given twice", name)
		case !slices.Contains(known, name):
			a.faults = append(a.faults, decode.Unknown("field", name, "", known))
		case value.Type != gjson.Null:
			a.values[name] = value
		}
		return len(a.faults) < maxArgumentFaults
	})
	for i, name := range known {
		value, ok := a.values[name]
		if !ok {
			continue
		}
		switch p := fields.Field(i).Addr().Interface().(type) {
		case *bool:
			a.flag(name, value, p)
		case *string:
			a.text(name, value, p)
		case *[]string:
			limit, _ := strconv.Atoi(fields.Type().Field(i).Tag.Get("max"))
			a.texts(name, value, p, limit)
		case *int:
			a.number(name, value, p)
		}
	}
	return a
}

// maxArgumentFaults bounds the reported faults of one call.
const maxArgumentFaults = 50

func (a *argumentReader) fault(code fault.Code, at, format string, args ...any) {
	f := fault.New(code, format, args...)
	f.At = at
	a.faults = append(a.faults, f)
}

func (a *argumentReader) wrongType(name, want string) {
	a.fault(fault.BadRequest, fault.Key("", name), "%s must be %s", name, want)
}

func (a *argumentReader) flag(name string, v gjson.Result, into *bool) {
	if !v.IsBool() {
		a.wrongType(name, "true or false")
		return
	}
	*into = v.Bool()
}

func (a *argumentReader) text(name string, v gjson.Result, into *string) {
	if v.Type != gjson.String {
		a.wrongType(name, "a string")
		return
	}
	*into = v.Str
}

// texts reads an array of strings, or one string.
func (a *argumentReader) texts(name string, v gjson.Result, into *[]string, limit int) {
	if v.Type == gjson.String {
		*into = []string{v.Str}
		return
	}
	var list []string
	ok := v.IsArray()
	v.ForEach(func(_, element gjson.Result) bool {
		ok = ok && element.Type == gjson.String
		list = append(list, element.Str)
		return ok && len(list) <= limit
	})
	switch {
	case !ok:
		a.wrongType(name, "an array of strings")
	case len(list) > limit:
		a.fault(fault.LimitExceeded, fault.Key("", name), "%s has more than %d elements: ask in several calls", name, limit)
	default:
		*into = list
	}
}

// number reads a positive integer.
func (a *argumentReader) number(name string, v gjson.Result, into *int) {
	if v.Type != gjson.Number || v.Num != math.Trunc(v.Num) || v.Num < 1 || v.Num > math.MaxInt32 {
		a.wrongType(name, "a whole number from 1 to "+itoa(math.MaxInt32))
		return
	}
	*into = int(v.Num)
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
