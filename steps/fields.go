package steps

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// partialKey marks a context whose call asks for only some members of its result.
type partialKey struct{}

// WithPartialResult returns a context for a call whose result lacks members that it did not ask for: nothing is learned from its shape.
func WithPartialResult(ctx context.Context) context.Context {
	return context.WithValue(ctx, partialKey{}, true)
}

// IsPartialResult reports whether ctx comes from WithPartialResult.
func IsPartialResult(ctx context.Context) bool { return ctx.Value(partialKey{}) != nil }

// FieldList returns the value of the argument Spec.Fields that asks for these members of the result; nil: the function has no such
// argument, its result is not what the service lists fields of, or the argument cannot name them.
func (e *Entry) FieldList(members []string) json.RawMessage {
	s := e.spec
	var value json.RawMessage
	switch form := fieldsType(s.Input, s.Fields); {
	case s.Fields == "" || !s.resultIsBody():
		return nil
	case form == "array":
		value, _ = json.Marshal(members)
	case form == "string" && !slices.ContainsFunc(members, func(m string) bool { return m == "" || strings.Contains(m, ",") }):
		value = rawjson.AppendQuote(nil, strings.Join(members, ","))
	default:
		return nil
	}
	at := fault.Key("", s.Fields)
	w := &rawjson.Writer{B: []byte{'{'}}
	w.B = append(append(rawjson.AppendQuote(w.B, s.Fields), ':'), value...)
	w.Close('}')
	if slices.ContainsFunc(e.Check(w.B, nil), func(f *fault.Error) bool { return f.At == at || strings.HasPrefix(f.At, at+"/") }) {
		return nil // it takes certain names only
	}
	return value
}

// resultIsBody reports whether the result is what the service answered, not an object or a text made of it.
func (s *Spec) resultIsBody() bool {
	form := s.Result
	if form == "" && len(s.Results) > 0 {
		form = s.Results[0]
	}
	return form == "" || form == ResultBody || form == ResultStructured
}

// fieldsType returns how an argument takes a list of names: "array", "string" (with commas), or "" if it is not declared, or takes none.
func fieldsType(input json.RawMessage, name string) string {
	if name == "" || !slices.Contains(schema.Properties(input), name) {
		return ""
	}
	var paths schema.Paths
	types, f := paths.TypesAt("", input, []schema.Element{{Key: name}})
	if f == nil && slices.Contains(types, "array") {
		elements, f := paths.TypesAt("", input, []schema.Element{{Key: name}, {Key: "*", Index: true}})
		if f == nil && (elements == nil || slices.Contains(elements, "string")) {
			return "array"
		}
	}
	if f == nil && slices.Contains(types, "string") {
		return "string"
	}
	return ""
}

// ResultMembers returns the members of the function's result, or of its elements if it is an array, as the function declares them, or else
// as its results so far had them; nil: nothing is known.
func (e *Entry) ResultMembers() []string {
	if len(e.spec.Output) > 0 {
		return schema.Members(e.spec.Output)
	}
	if shape := e.ResultShape(); shape != nil {
		return schema.Members(shape.Schema)
	}
	return nil
}

// fieldsUse is what became of a setting's Fields.
type fieldsUse struct {
	has      bool     // some function has the argument
	declared []string // the arguments of those that have not
}

// setFields names the argument that lists fields, if the function has it.
func (s *Settings) setFields(spec *Spec, setting *rankedSetting) {
	input := spec.Input
	if !json.Valid(input) {
		input = nil
	}
	has := fieldsType(input, *setting.Fields) != ""
	if has {
		spec.Fields = *setting.Fields
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	use := s.fields[setting]
	if use == nil {
		use = &fieldsUse{}
		s.fields[setting] = use
	}
	if use.has = use.has || has; !use.has && len(use.declared) < maxDeclared {
		use.declared = append(use.declared, schema.Properties(input)...)
	}
}

// maxDeclared bounds the names that a wrong name is compared with.
const maxDeclared = 1000

// fault returns what is wrong with a setting's Fields; nil: nothing.
func (u *fieldsUse) fault(setting *rankedSetting) *fault.Error {
	if u == nil || u.has {
		return nil
	}
	name := *setting.Fields
	f := fault.New(fault.BadRequest, "no function that %s matches has an argument %s that takes a list of fields, as an array of strings or "+
		"a string: this has no effect", fault.Quote(setting.Pattern), fault.Quote(name))
	f.Nearest = fault.Nearest(name, slices.DeleteFunc(u.declared, func(n string) bool { return n == name }), 3)
	return f
}
