package steps

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// Label is a label that a value carries. Flow rules say where values with it may go.
type Label struct {
	Name string
	// Model: the value has the label because a model wrote it that had been shown values with the label. Else it is made of such values, by
	// references and expressions.
	Model bool
}

// Given is a label that a function gives to its result.
type Given struct {
	Label string
	Path  []schema.Element // what of the result has it, with all that is within; empty: the whole result
}

// Taken is a role of an argument of a function. Flow rules name roles as the places that values may not reach.
type Taken struct {
	Role string
	Path []schema.Element // the argument, and perhaps a path in it; empty: all arguments that the function's other roles do not cover
}

// EffectRoles are the roles that all arguments of a function have that writes, or destroys.
var EffectRoles = []string{"write", "destroy"}

// resultRoot and otherArguments begin and are the texts of paths that have a meaning of their own.
const resultRoot, otherArguments = "$result", "*"

// ParseGives reads labels as configurations and recordings have them: a list of labels of the whole result, or an object of lists by path,
// as in {"$result.messages[*].body": ["untrusted"]}. The faults are bad_request, At below the value.
func ParseGives(value []byte) (list []Given, faults []*fault.Error) {
	list = []Given{} // none is not the same as not set
	labels := func(at string, path []schema.Element, value gjson.Result) {
		if !value.IsArray() {
			faults = append(faults, fault.New(fault.BadRequest, "must be a list of labels, as in [untrusted]").Under(at))
			return
		}
		for i, label := range value.Array() {
			if f := checkWord("label", label); f != nil {
				faults = append(faults, f.Under(fault.Index(at, i)))
				continue
			}
			list = append(list, Given{Label: strings.Clone(label.Str), Path: path})
		}
	}
	root := gjson.ParseBytes(value)
	if !root.IsObject() {
		labels("", nil, root)
		return list, faults
	}
	root.ForEach(func(key, value gjson.Result) bool {
		at := fault.Key("", key.Str)
		rest, ok := strings.CutPrefix(key.Str, resultRoot)
		path, f := parseFlowPath(rest)
		if !ok || f != nil {
			faults = append(faults, fault.New(fault.BadRequest,
				"%s is no path of a result: write $result, or as $result.items[*].body or $result[\"a key\"]", fault.Quote(key.Str)).Under(at))
			return true
		}
		labels(at, path, value)
		return true
	})
	return list, faults
}

// ParseTakes reads roles as configurations and recordings have them: an object of roles by argument or by path in one, with "*" for all
// others, as in {"to": "recipient", "cc[*].address": "recipient", "*": "content"}. The faults are bad_request, At below the value.
func ParseTakes(value []byte) (list []Taken, faults []*fault.Error) {
	list = []Taken{}
	root := gjson.ParseBytes(value)
	if !root.IsObject() {
		return list, []*fault.Error{fault.New(fault.BadRequest, "must be an object of roles by argument, as in {to: recipient}")}
	}
	root.ForEach(func(key, value gjson.Result) bool {
		at, path := fault.Key("", key.Str), []schema.Element(nil)
		f := checkWord("role", value)
		if f == nil && slices.Contains(EffectRoles, value.Str) {
			f = fault.New(fault.BadRequest, "%s is no role of an argument: all arguments of what %ss have it", value.Str, value.Str)
		}
		if f == nil && key.Str != otherArguments {
			if path, f = parseFlowPath("." + key.Str); f != nil || path[0].Each {
				f = fault.New(fault.BadRequest, "%s is no path of an argument: write its name, or as to.address, to[*].address or *",
					fault.Quote(key.Str))
			}
		}
		if f != nil {
			faults = append(faults, f.Under(at))
			return true
		}
		list = append(list, Taken{Role: strings.Clone(value.Str), Path: path})
		return true
	})
	return list, faults
}

// checkWord returns what is wrong with a label or a role.
func checkWord(what string, value gjson.Result) *fault.Error {
	if value.Type == gjson.String && value.Str != "" && !strings.ContainsFunc(value.Str, func(c rune) bool {
		return c != '_' && c != '-' && c != '.' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9')
	}) {
		return nil
	}
	return fault.New(fault.BadRequest, "%s is no %s: letters, digits, _, - and . make one", fault.Quote(fault.ClipRunes(value.String(), 60)), what)
}

// parseFlowPath reads a path of the form .name["a key"][*].
func parseFlowPath(text string) (path []schema.Element, f *fault.Error) {
	malformed := fault.New(fault.BadRequest, "not a path")
	for text != "" {
		switch {
		case strings.HasPrefix(text, "[*]"):
			path, text = append(path, schema.Element{Each: true}), text[3:]
		case strings.HasPrefix(text, `["`):
			end := strings.Index(text, `"]`)
			if end < 2 {
				return nil, malformed
			}
			path, text = append(path, schema.Element{Key: text[2:end]}), text[end+2:]
		case text[0] == '.':
			end := strings.IndexAny(text[1:], ".[") + 1
			if end == 0 {
				end = len(text)
			}
			name := text[1:end]
			if name == "" || strings.ContainsAny(name, "]*\"$ ") {
				return nil, malformed
			}
			path, text = append(path, schema.Element{Key: strings.Clone(name)}), text[end:]
		default:
			return nil, malformed
		}
	}
	return path, nil
}

// FlowPath formats a path as ParseGives and ParseTakes read it.
func FlowPath(path []schema.Element) string {
	text := ""
	for _, element := range path {
		if element.Each || element.Key != "" && !strings.ContainsAny(element.Key, ".[]*\"$ ") {
			text += element.String()
			continue
		}
		text += `["` + element.Key + `"]`
	}
	return text
}

// GivesJSON is what ParseGives reads; nil: there are no labels.
func GivesJSON(list []Given) json.RawMessage {
	if len(list) == 0 {
		return nil
	}
	var paths []rawjson.Member
	for _, g := range list {
		name, label := resultRoot+FlowPath(g.Path), string(rawjson.AppendQuote(nil, g.Label))
		if i := slices.IndexFunc(paths, func(m rawjson.Member) bool { return m.Name == name }); i >= 0 {
			paths[i].Raw = strings.TrimSuffix(paths[i].Raw, "]") + "," + label + "]"
			continue
		}
		paths = append(paths, rawjson.Member{Name: name, Raw: "[" + label + "]"})
	}
	if len(paths) == 1 && paths[0].Name == resultRoot {
		return json.RawMessage(paths[0].Raw)
	}
	return rawjson.AppendObject(nil, paths)
}

// Argument is the path of the arguments that have the role, as ParseTakes reads it.
func (t *Taken) Argument() string {
	if len(t.Path) == 0 {
		return otherArguments
	}
	return strings.TrimPrefix(FlowPath(t.Path), ".")
}

// TakesJSON is what ParseTakes reads; nil: there are no roles.
func TakesJSON(list []Taken) json.RawMessage {
	if len(list) == 0 {
		return nil
	}
	roles := make([]rawjson.Member, len(list))
	for i := range list {
		roles[i] = rawjson.Member{Name: list[i].Argument(), Raw: string(rawjson.AppendQuote(nil, list[i].Role))}
	}
	return rawjson.AppendObject(nil, roles)
}
