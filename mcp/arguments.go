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
	"github.com/onecall-mcp/onecall/steps"
)

// arguments reads the arguments of one of onecall's own tools, strictly: every fault is told, and nothing is ignored.
type arguments struct {
	values map[string]gjson.Result
	faults []*fault.Error
}

// readArguments reads an object into a struct whose fields have their names as tags: it may have only those. A field that is
// not given, or null, keeps its value. The bound of a list is the tag most, and a number is at least 1.
func readArguments(raw []byte, into any) *arguments {
	a := &arguments{values: map[string]gjson.Result{}}
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
		_, twice := a.values[name]
		switch {
		case twice:
			a.fault(fault.BadRequest, fault.Key("", name), "%q is given twice", name)
		case !slices.Contains(known, name):
			f := fault.New(fault.UnknownField, "unknown field %q: known are %s", name, strings.Join(known, ", "))
			f.At, f.Available, f.Nearest = fault.Key("", name), known, fault.Nearest(name, known, 1)
			a.faults = append(a.faults, f)
		case value.Type != gjson.Null:
			a.values[name] = value
		}
		return len(a.faults) < maxArgumentFaults
	})
	for i, name := range known {
		value, given := a.values[name]
		if !given {
			continue
		}
		switch p := fields.Field(i).Addr().Interface().(type) {
		case *bool:
			a.flag(name, value, p)
		case *string:
			a.text(name, value, p)
		case *[]string:
			most, _ := strconv.Atoi(fields.Type().Field(i).Tag.Get("most"))
			a.texts(name, value, p, most)
		case *int:
			a.number(name, value, p)
		}
	}
	return a
}

// maxArgumentFaults is how many faults are told of one call.
const maxArgumentFaults = 50

func (a *arguments) fault(code fault.Code, at, format string, args ...any) {
	f := fault.New(code, format, args...)
	f.At = at
	a.faults = append(a.faults, f)
}

func (a *arguments) wrong(name, want string) {
	a.fault(fault.BadRequest, fault.Key("", name), "%s must be %s", name, want)
}

func (a *arguments) flag(name string, v gjson.Result, into *bool) {
	if !v.IsBool() {
		a.wrong(name, "true or false")
		return
	}
	*into = v.Bool()
}

func (a *arguments) text(name string, v gjson.Result, into *string) {
	if v.Type != gjson.String {
		a.wrong(name, "a string")
		return
	}
	*into = v.Str
}

// texts reads an array of strings; one string is an array of one.
func (a *arguments) texts(name string, v gjson.Result, into *[]string, most int) {
	if v.Type == gjson.String {
		*into = []string{v.Str}
		return
	}
	var list []string
	good := v.IsArray()
	v.ForEach(func(_, element gjson.Result) bool {
		good = good && element.Type == gjson.String
		list = append(list, element.Str)
		return good && len(list) <= most
	})
	switch {
	case !good:
		a.wrong(name, "an array of strings")
	case len(list) > most:
		a.fault(fault.LimitExceeded, fault.Key("", name), "%s has more than %d elements: ask in several calls", name, most)
	default:
		*into = list
	}
}

// number reads an integer from 1 on.
func (a *arguments) number(name string, v gjson.Result, into *int) {
	if v.Type != gjson.Number || v.Num != math.Trunc(v.Num) || v.Num < 1 || v.Num > math.MaxInt32 {
		a.wrong(name, "a whole number from 1 to "+itoa(math.MaxInt32))
		return
	}
	*into = int(v.Num)
}

// fetchFields are those of a fetch.
var fetchFields = chain.FetchFields()

// fetch answers a call that holds a continuation token. What stands beside it and is no field of a fetch is what was called
// before, and is left out; so is a query without the mode that takes one.
func (c *call) fetch() *sdk.CallToolResult {
	root := gjson.ParseBytes(c.args)
	holder := root
	if token := root.Get("continuation_token"); !token.Exists() || token.Type == gjson.Null {
		holder = root.Get("params")
	}
	request := []byte{'{'}
	holder.ForEach(func(key, value gjson.Result) bool {
		name := key.String()
		if !slices.Contains(fetchFields, name) || name == "query" && holder.Get("mode").Str != "query" {
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

// misplaced says what is wrong with the arguments of a call that hold a continuation token where none is read: it was
// meant as a fetch, and a function must not run in its place. What the function declares is its own.
func misplaced(entry *steps.Entry, args []byte) *fault.Error {
	var wrong *fault.Error
	gjson.ParseBytes(args).ForEach(func(key, value gjson.Result) bool {
		name := key.String()
		named := steps.FoldName(name) == "continuationtoken" && value.Type != gjson.Null && value.Raw != `""`
		if entry.Argument(name) == "" && name == "continuation_token" && value.Type == gjson.String && value.Str != "" {
			wrong = fault.New(fault.TokenExpired, budget.Expired)
			wrong.At = "/continuation_token"
			return false
		}
		if entry.Argument(name) == "" && (named || strings.Contains(value.Raw, budget.TokenPrefix)) {
			wrong = fault.New(fault.BadRequest, "%s holds a continuation token, and nothing was run: a fetch takes it as continuation_token, a string, beside mode", fault.ClipRunes(name, maxName))
			wrong.At = fault.Key("", name)
		}
		return wrong == nil
	})
	return wrong
}

// isFetch reports whether the arguments of a tool ask for an earlier large result, whatever else they hold: a token of
// onecall stands at the top, or in params. On a tool of onecall's own any continuation token does.
func isFetch(args []byte, own bool) bool {
	for _, path := range []string{"continuation_token", "params.continuation_token"} {
		token := gjson.GetBytes(args, path)
		if token.Type == gjson.String && strings.HasPrefix(token.Str, budget.TokenPrefix) {
			return true
		}
		if own && token.Exists() && token.Type != gjson.Null {
			return true
		}
	}
	return false
}
