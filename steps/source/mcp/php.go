package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// Servers in PHP write an empty object as [], which MCP has nowhere for these members.
var objectMembers = []string{"_meta", "annotations", "capabilities", "execution", "serverInfo", "inputSchema", "outputSchema"}

// foreignMembers are the members of results whose values are not MCP's.
var foreignMembers = []string{"structuredContent", "inputSchema", "outputSchema", "requestedSchema", "arguments", "_meta", "annotations"}

// isEmptyArray reports whether v is [].
func isEmptyArray(v gjson.Result) bool { return v.IsArray() && v.Get("#").Int() == 0 }

// withObjects returns a result with {} in place of [] where MCP wants an object. Values that are not MCP's stay as they are.
func withObjects(v gjson.Result) string { return mended(v, false) }

// withObjectsIn is withObjects for a raw result, which may be large.
func withObjectsIn(result []byte) []byte {
	for rest := result; ; {
		before, after, found := bytes.Cut(rest, []byte{'['})
		if !found {
			return result
		}
		if after = bytes.TrimLeft(after, blanks); bytes.HasPrefix(after, []byte{']'}) && endsWithObjectMember(before) {
			return []byte(withObjects(gjson.ParseBytes(result)))
		}
		rest = after
	}
}

const blanks = " \t\r\n" // white space in JSON

// endsWithObjectMember reports whether a text ends with the name of a member that must be an object, and a colon.
func endsWithObjectMember(text []byte) bool {
	name, isMember := bytes.CutSuffix(bytes.TrimRight(text, blanks), []byte{':'})
	name = bytes.TrimRight(name, blanks)
	return isMember && slices.ContainsFunc(objectMembers, func(member string) bool {
		return bytes.HasSuffix(name, []byte(`"`+member+`"`))
	})
}

// mended is withObjects; all: each [] below v stands for an object.
func mended(v gjson.Result, all bool) string {
	switch {
	case v.IsObject():
		var o objectBuilder
		v.ForEach(func(key, value gjson.Result) bool {
			name, raw := key.Str, value.Raw
			switch {
			case isEmptyArray(value) && (all || slices.Contains(objectMembers, name)):
				raw = "{}"
			case all || !slices.Contains(foreignMembers, name):
				raw = mended(value, all || name == "capabilities")
			}
			o.raw(key.Raw[1:len(key.Raw)-1], raw)
			return true
		})
		return string(o.end())
	case v.IsArray():
		list := []byte{'['}
		v.ForEach(func(_, value gjson.Result) bool {
			if len(list) > 1 {
				list = append(list, ',')
			}
			list = append(list, mended(value, all)...)
			return true
		})
		return string(append(list, ']'))
	}
	return v.Raw
}

// greeting results of initialize and server/discover, as the SDK decodes them.
type greetingResult struct {
	Meta              map[string]any          `json:"_meta"`
	Capabilities      *sdk.ServerCapabilities `json:"capabilities"`
	Instructions      string                  `json:"instructions"`
	ProtocolVersion   string                  `json:"protocolVersion"`
	ServerInfo        *sdk.Implementation     `json:"serverInfo"`
	SupportedVersions []string                `json:"supportedVersions"`
}

// greetingFault returns what is wrong with the result of a greeting, in the words of JSON; nil: nothing.
func greetingFault(result string) *fault.Error {
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal([]byte(result), &greetingResult{}); !errors.As(err, &wrong) {
		return nil
	}
	what := "it"
	if wrong.Field != "" {
		what = wrong.Field
	}
	return fault.New(fault.Unavailable, "its answer to the greeting is wrong: %s must be %s, not %s. The server is at fault",
		what, jsonKind(wrong.Type), article(wrong.Value))
}

// jsonKind names the kind of JSON value that a Go type is decoded from.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "a boolean"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Pointer:
		return jsonKind(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a number"
}

// article puts an article before the name of a kind of JSON value, as encoding/json spells it.
func article(kind string) string {
	switch kind {
	case "array", "object":
		return "an " + kind
	case "bool":
		return "a boolean"
	}
	return "a " + kind
}
