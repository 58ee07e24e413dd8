package mcp_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/steps"
)

// freeForm are members whose own members onecall does not name.
var freeForm = []string{"args", "input", "params", "common", "return", "orElse", "arguments", "replace", "assume"}

// addMembers adds the paths of all members in a value, such as "steps[].fn". Members of inline chains count as those of the outer chain.
func addMembers(value gjson.Result, at string, into map[string]bool) {
	switch {
	case value.IsObject():
		value.ForEach(func(key, v gjson.Result) bool {
			pointer := strings.TrimPrefix(at+"."+key.String(), ".")
			into[pointer] = true
			if !slices.Contains(freeForm, key.String()) {
				addMembers(v, strings.ReplaceAll(pointer, "steps[].chain", ""), into)
			}
			return true
		})
	case value.IsArray():
		value.ForEach(func(_, v gjson.Result) bool {
			addMembers(v, at+"[]", into)
			return true
		})
	}
}

// addDeclared adds the paths of all members that a schema declares, in the same form.
func addDeclared(root, schema gjson.Result, at string, into map[string]bool) {
	if ref := schema.Get("$ref").Str; ref != "" {
		schema = root.Get(strings.ReplaceAll(strings.TrimPrefix(ref, "#/"), "/", "."))
	}
	schema.Get("properties").ForEach(func(key, property gjson.Result) bool {
		pointer := strings.TrimPrefix(at+"."+key.String(), ".")
		if into[pointer] {
			return true
		}
		into[pointer] = true
		if !slices.Contains(freeForm, key.String()) {
			addDeclared(root, property, strings.ReplaceAll(pointer, "steps[].chain", ""), into)
		}
		return true
	})
	if items := schema.Get("items"); items.Exists() {
		addDeclared(root, items, at+"[]", into)
	}
}

// testedMembers returns the paths of all members in the matrix paths of a tool.
func testedMembers(t *testing.T, tool string) map[string]bool {
	t.Helper()
	tried := map[string]bool{}
	some := newMarked(1, "a.b", false, kindOfFunction{effect: steps.Read})
	for _, p := range slices.Concat(chainPaths, knownPaths, lookups, generalPaths, groupPaths, flatPaths) {
		if p.tool != tool {
			continue
		}
		text := p.filled(some, some, "oc1_x", 0).text
		if !json.Valid([]byte(text)) {
			t.Fatalf("a matrix path is not JSON: %s", text)
		}
		addMembers(gjson.Parse(text), "", tried)
	}
	return tried
}

// dataOf returns the last message in an answer.
func dataOf(answer string) (data string) {
	_, body, _ := strings.Cut(answer, "\n\n")
	for line := range strings.Lines(body) {
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			data = text
		}
	}
	if data == "" {
		return body
	}
	return data
}

// TestMatrixHasAllMethods: the matrix has each method that the SDK answers, with each member of its params.
func TestMatrixHasAllMethods(t *testing.T) {
	t.Parallel()
	tried := map[string]map[string]bool{"initialize": {"protocolVersion": true, "capabilities": true, "clientInfo": true},
		"subscriptions/listen": {"notifications": true}}
	for method, list := range protocolPaths() {
		tried[method] = map[string]bool{}
		for _, text := range list {
			addMembers(gjson.Parse(text), "", tried[method])
		}
	}
	methods := sdkMethods(t)
	for _, method := range methods {
		if tried[method] == nil {
			t.Errorf("no path of the matrix has the method %s", method)
		}
	}
	session := reflect.TypeFor[*sdk.ClientSession]()
	hits := 0
	for i := range session.NumMethod() {
		method := session.Method(i)
		if method.Type.NumIn() < 3 || method.Type.In(2).Kind() != reflect.Pointer || method.Type.NumOut() == 0 ||
			method.Type.Out(0).Kind() == reflect.Func {
			continue
		}
		name, known := methodNames[method.Name]
		if !known {
			t.Errorf("unknown method of the SDK's client: %s", method.Name)
			continue
		}
		hits++
		params := method.Type.In(2).Elem()
		for field := range params.Fields() {
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if field.IsExported() && key != "" && key != "_meta" && key != "-" && !tried[name][key] {
				t.Errorf("%s: no path of the matrix has the member %s", name, key)
			}
		}
	}
	if hits != len(methodNames) {
		t.Errorf("%d methods in the SDK, want %d", hits, len(methodNames))
	}
}

// methodNames maps names in the SDK to the methods of the protocol.
var methodNames = map[string]string{
	"CallTool": "tools/call", "Complete": "completion/complete", "GetPrompt": "prompts/get", "ListPrompts": "prompts/list",
	"ListResourceTemplates": "resources/templates/list",
	"ListResources":         "resources/list", "ListTools": "tools/list", "NotifyProgress": "notifications/progress", "Ping": "ping",
	"ReadResource":    "resources/read",
	"SetLoggingLevel": "logging/setLevel", "Subscribe": "resources/subscribe", "Unsubscribe": "resources/unsubscribe",
}

// sdkMethods returns the methods that the SDK's server answers, from the SDK's source.
func sdkMethods(t *testing.T) (methods []string) {
	t.Helper()
	file, _ := runtime.FuncForPC(reflect.ValueOf((*sdk.Server).AddTool).Pointer()).FileLine(reflect.ValueOf((*sdk.Server).AddTool).Pointer())
	folder := filepath.Dir(file)
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("needs the source of the SDK: %v", err)
	}
	constants := map[string]string{}
	var keys []string
	for _, name := range []string{"protocol.go", "server.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			value, ok := n.(*ast.ValueSpec)
			if !ok || len(value.Values) != 1 {
				return true
			}
			switch v := value.Values[0].(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(v.Value); err == nil && v.Kind == token.STRING {
					constants[value.Names[0].Name] = text
				}
			case *ast.CompositeLit:
				if value.Names[0].Name == "serverMethodInfos" {
					for _, element := range v.Elts {
						keys = append(keys, element.(*ast.KeyValueExpr).Key.(*ast.Ident).Name)
					}
				}
			}
			return true
		})
	}
	for _, key := range keys {
		if constants[key] == "" {
			t.Errorf("the name of the SDK's method %s was not found", key)
		}
		methods = append(methods, constants[key])
	}
	if len(methods) < 15 {
		t.Fatalf("%d methods in %s, want at least 15", len(methods), folder)
	}
	return methods
}
