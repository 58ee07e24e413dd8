package plan

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
)

// Param turns a literal among the arguments of a step into a param of the saved chain.
type Param struct {
	Path string // the step by number or id, and the path in its args: "0.query", "make.labels.0"
	Name string // the name of the param
}

// notSaved are the fields that belong to a run and not to a chain.
var notSaved = slices.Concat(facts.ResumeFields, []string{"key", "dryRun"})

// SaveAs returns the text of a saved chain, for a file. The chain reads the literals at the places of params from its input; they become
// the defaults of the params. SaveAs returns a bad_request fault for each param that cannot be used; for a place that does not exist, the
// fault lists what exists there.
func SaveAs(text []byte, params []Param) ([]byte, []*fault.Error) {
	compact, f := CompactJSON(text, 256<<20)
	if f != nil {
		return nil, []*fault.Error{f}
	}
	root := rawjson.NewTable(Canonical(compact))
	for _, name := range notSaved {
		root.Remove(name)
	}
	var faults []*fault.Error
	declared, list := rawjson.NewTable([]byte(root.Get("params"))), gjson.Parse(root.Get("steps"))
	input := rawjson.NewTable([]byte(root.Get("input")))
	for _, p := range params {
		value, changed, f := extract(list, p)
		switch {
		case f != nil:
		case !identifier.MatchString(p.Name):
			f = fault.New(fault.BadRequest,
				"%s: %s is not a valid name for a param: a name is a letter or _, then letters, digits and _. A value is set when the chain is "+
					"run: --set NAME=VALUE",
				p.Path, fault.Quote(p.Name))
		case declared.Has(p.Name) || input.Has(p.Name):
			f = fault.New(fault.BadRequest, "%s: the chain reads $input.%s already: choose another name", p.Path, p.Name)
		}
		if f != nil {
			faults = append(faults, f)
			continue
		}
		list = gjson.Parse(changed)
		declared.Set(p.Name, schemaOf(value))
	}
	if len(faults) > 0 {
		return nil, faults
	}
	if len(declared.List) > 0 {
		root.Set("params", string(rawjson.AppendObject(nil, declared.List)))
	}
	root.Set("steps", list.Raw)
	pretty, err := jsontext.AppendFormat(nil, Shortened(rawjson.AppendObject(nil, root.List)), jsontext.PreserveRawStrings(true),
		jsontext.WithIndent("  "))
	if err != nil {
		return nil, []*fault.Error{fault.New(fault.BadJSON, "%v", err)}
	}
	return append(pretty, '\n'), nil
}

// extract returns the literal at a place, and the steps in which a reference to the param replaces it.
func extract(list gjson.Result, p Param) (value, changed string, f *fault.Error) {
	step, path, _ := strings.Cut(p.Path, ".")
	number := -1
	var steps []string
	for i, s := range list.Array() {
		steps = append(steps, strconv.Itoa(i))
		if id := s.Get("id").Str; id != "" {
			steps[i] = id
		}
		if step == strconv.Itoa(i) || step == steps[i] {
			number = i
		}
	}
	if number < 0 {
		return "", "", noValueFault(p.Path, "no step "+fault.Quote(step), steps)
	}
	args := list.Array()[number].Get("args")
	if path == "" || !args.Exists() {
		return "", "", noValueFault(p.Path, "name an argument of the step, as in "+step+".NAME", keysOf(args))
	}
	value, changed, f = replaceAt(args, strings.Split(path, "."), p)
	if f != nil {
		return "", "", f
	}
	all := list.Array()
	rawSteps := make([]string, len(all))
	for i := range all {
		rawSteps[i] = all[i].Raw
	}
	changedStep := rawjson.NewTable([]byte(rawSteps[number]))
	changedStep.Set("args", changed)
	rawSteps[number] = string(rawjson.AppendObject(nil, changedStep.List))
	return value, "[" + strings.Join(rawSteps, ",") + "]", nil
}

// replaceAt replaces the value at a path within a value by the reference.
func replaceAt(within gjson.Result, path []string, p Param) (value, changed string, f *fault.Error) {
	if len(path) == 0 {
		value, f = literalValue(within, p.Path)
		return value, string(rawjson.AppendQuote(nil, "$input."+p.Name)), f
	}
	var members []rawjson.Member
	replaced := false
	i := 0
	within.ForEach(func(key, v gjson.Result) bool {
		name, raw := key.String(), v.Raw
		if within.IsArray() {
			name = strconv.Itoa(i)
			i++
		}
		if name == path[0] && !replaced && (within.IsObject() || within.IsArray()) {
			replaced = true
			value, raw, f = replaceAt(v, path[1:], p)
		}
		members = append(members, rawjson.Member{Name: name, Raw: raw})
		return f == nil
	})
	switch {
	case f != nil:
		return "", "", f
	case !replaced:
		return "", "", noValueFault(p.Path, "there is no "+fault.Quote(path[0]), keysOf(within))
	case within.IsObject():
		return value, string(rawjson.AppendObject(nil, members)), nil
	}
	elements := make([]string, len(members))
	for i, m := range members {
		elements[i] = m.Raw
	}
	return value, "[" + strings.Join(elements, ",") + "]", nil
}

// literalValue returns the value of an argument without references.
func literalValue(v gjson.Result, path string) (string, *fault.Error) {
	t, faults := refs.CompileTemplate([]byte(v.Raw), refs.CompileScope{Steps: DefaultMaxSteps, Step: DefaultMaxSteps})
	if len(faults) > 0 || len(t.Uses()) > 0 {
		return "", fault.New(fault.BadRequest, "%s is not a literal, but refers to other values: %s", path, fault.ClipRunes(v.Raw, 100))
	}
	value, err := t.Resolve(context.Background(), nil, &refs.Scope{})
	if err != nil {
		f, _ := fault.As(err)
		return "", f
	}
	return string(value), nil
}

// schemaOf returns the schema of a param with this default.
func schemaOf(value string) string {
	kind := ""
	switch v := gjson.Parse(value); {
	case v.IsObject():
		kind = "object"
	case v.IsArray():
		kind = "array"
	case v.IsBool():
		kind = "boolean"
	case v.Type == gjson.String:
		kind = "string"
	case v.Type == gjson.Number && !strings.ContainsAny(value, ".eE"):
		kind = "integer"
	case v.Type == gjson.Number:
		kind = "number"
	default:
		return `{"default":null}`
	}
	return fmt.Sprintf(`{"type":%q,"default":%s}`, kind, value)
}

// keysOf returns the names in an object, or the indices of an array; nil for any other value.
func keysOf(v gjson.Result) (keys []string) {
	i := 0
	v.ForEach(func(key, _ gjson.Result) bool {
		name := key.String()
		if v.IsArray() {
			name = strconv.Itoa(i)
			i++
		}
		keys = append(keys, name)
		return v.IsObject() || v.IsArray()
	})
	if !v.IsObject() && !v.IsArray() {
		return nil
	}
	return keys
}

func noValueFault(path, problem string, known []string) *fault.Error {
	f := fault.New(fault.BadRequest, "%s: %s", path, problem)
	f.Available = known
	last := path[strings.LastIndexByte(path, '.')+1:]
	if f.Nearest = fault.Nearest(last, known, 1); len(known) > 0 {
		f.Message += "; there are " + strings.Join(known[:min(len(known), 20)], ", ")
	}
	return f
}
