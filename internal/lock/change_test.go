package lock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/lock"
	"github.com/onecall-mcp/onecall/steps"
)

// function returns a function as a lock remembers it.
func function(input, output string) *lock.Function {
	f := lock.Of(&steps.Spec{Name: "srv.t", Effect: steps.Read, Input: []byte(input), Output: []byte(output)})
	return &f
}

func object(properties, more string) string {
	return `{"type":"object","properties":{` + properties + `}` + more + `}`
}

// found writes changes as rule and place.
func found(changes []lock.Change) string {
	var list []string
	for i := range changes {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s", changes[i].Rule, changes[i].At())))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func TestInputChanges(t *testing.T) {
	t.Parallel()
	text, number := `{"type":"string"}`, `{"type":"number"}`
	for name, test := range map[string]struct{ was, is, want string }{
		"the same in other words": {object(`"a":{"type":"string","description":"x"}`, ""),
			object(`"a":{"description":"y","type":"string"}`, ""),
			"input_other"},
		"another order":        {object(`"a":`+text+`,"b":`+number, ""), object(`"b":`+number+`,"a":`+text, ""), ""},
		"an optional argument": {object(`"a":`+text, ""), object(`"a":`+text+`,"b":`+text, ""), "argument_added /input/b"},
		"a required argument": {object(`"a":`+text, ""), object(`"a":`+text+`,"b":`+text, `,"required":["b"]`),
			"argument_required /input/b"},
		"required, optional before": {object(`"a":`+text, ""), object(`"a":`+text, `,"required":["a"]`), "argument_required /input/a"},
		"optional, required before": {object(`"a":`+text, `,"required":["a"]`), object(`"a":`+text, ""), "input_other"},
		"an argument removed":       {object(`"a":`+text+`,"b":`+text, ""), object(`"a":`+text, ""), "argument_removed /input/b"},
		"an argument renamed": {object(`"a":`+text, ""), object(`"b":`+text, ""),
			"argument_added /input/b, argument_removed /input/a"},
		"another type": {object(`"a":`+text, ""), object(`"a":`+number, ""), "argument_narrowed /input/a"},
		"an integer":   {object(`"a":`+number, ""), object(`"a":{"type":"integer"}`, ""), "argument_narrowed /input/a"},
		"any number":   {object(`"a":{"type":"integer"}`, ""), object(`"a":`+number, ""), "input_other"},
		"no null": {object(`"a":{"type":["string","null"]}`, ""), object(`"a":`+text, ""),
			"argument_narrowed /input/a"},
		"null too, by anyOf": {object(`"a":`+text, ""), object(`"a":{"anyOf":[{"type":"string"},{"type":"null"}]}`, ""),
			"input_other"},
		"anyOf as a list of types": {object(`"a":{"anyOf":[{"type":"string"},{"type":"null"}]}`, ""),
			object(`"a":{"type":["string","null"]}`, ""),
			"input_other"},
		"a list of types as anyOf": {object(`"a":{"type":["string","null"]}`, ""),
			object(`"a":{"oneOf":[{"type":"null"},{"type":"string"}]}`, ""),
			"input_other"},
		"an alternative less": {object(`"a":{"anyOf":[{"type":"string"},{"type":"number"}]}`, ""),
			object(`"a":{"anyOf":[{"type":"string"}]}`, ""),
			"argument_narrowed /input/a"},
		"within an alternative": {object(`"a":{"anyOf":[{"type":"null"},`+object(`"x":`+text, "")+`]}`, ""),
			object(`"a":{"anyOf":[{"type":"null"},`+object(`"x":`+number, "")+`]}`, ""), "argument_narrowed /input/a/x"},
		"a word less": {object(`"a":{"enum":["x","y"]}`, ""), object(`"a":{"enum":["x"]}`, ""),
			"argument_narrowed /input/a"},
		"a word more": {object(`"a":{"enum":["x"]}`, ""), object(`"a":{"enum":["x","y"]}`, ""), "input_other"},
		"words as consts": {object(`"a":{"enum":["x","y"]}`, ""), object(`"a":{"anyOf":[{"const":"y"},{"const":"x"}]}`, ""),
			"input_other"},
		"words now": {object(`"a":`+text, ""), object(`"a":{"type":"string","enum":["x"]}`, ""),
			"argument_narrowed /input/a"},
		"a lower maximum": {object(`"a":{"maximum":9}`, ""), object(`"a":{"maximum":8.5}`, ""),
			"argument_narrowed /input/a"},
		"a higher maximum":  {object(`"a":{"maximum":9}`, ""), object(`"a":{"maximum":90}`, ""), "input_other"},
		"no length below 0": {object(`"a":`+text, ""), object(`"a":{"type":"string","minLength":0}`, ""), "input_other"},
		"a minimum": {object(`"a":`+number, ""), object(`"a":{"type":"number","minimum":0}`, ""),
			"argument_narrowed /input/a"},
		"a pattern": {object(`"a":`+text, ""), object(`"a":{"type":"string","pattern":"^x"}`, ""),
			"argument_narrowed /input/a"},
		"a format, which nobody checks": {object(`"a":`+text, ""), object(`"a":{"type":"string","format":"uri"}`, ""), "input_other"},
		"twice a multiple":              {object(`"a":{"multipleOf":4}`, ""), object(`"a":{"multipleOf":2}`, ""), "input_other"},
		"another multiple": {object(`"a":{"multipleOf":4}`, ""), object(`"a":{"multipleOf":3}`, ""),
			"argument_narrowed /input/a"},
		"closed": {object(`"a":`+text, ""), object(`"a":`+text, `,"additionalProperties":false`),
			"arguments_closed /input"},
		"opened": {object(`"a":`+text, `,"additionalProperties":false`), object(`"a":`+text, ""), "input_other"},
		"a map of numbers": {`{"additionalProperties":` + text + `}`, `{"additionalProperties":` + number + `}`,
			"arguments_closed /input"},
		"elements": {object(`"a":{"type":"array","items":`+text+`}`, ""),
			object(`"a":{"type":"array","items":`+number+`}`, ""), "argument_narrowed /input/a/*"},
		"fewer elements": {object(`"a":{"type":"array"}`, ""), object(`"a":{"type":"array","maxItems":3}`, ""),
			"argument_narrowed /input/a"},
		"a member required": {object(`"a":`+object(`"x":`+text, ""), ""),
			object(`"a":`+object(`"x":`+text, `,"required":["x"]`), ""), "argument_required /input/a/x"},
		"by a reference": {object(`"a":`+text, ""),
			`{"$defs":{"T":{"type":"string"}},"type":"object","properties":{"a":{"$ref":"#/$defs/T"}}}`,
			"input_other"},
		"within a reference": {`{"$defs":{"T":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/T"}}}`,
			`{"$defs":{"T":{"type":"boolean"}},"properties":{"a":{"$ref":"#/$defs/T","description":"x"}}}`, "argument_narrowed /input/a"},
		"allOf of one": {object(`"a":`+text, ""), object(`"a":{"allOf":[{"type":"string"}],"default":"x"}`, ""), "input_other"},
		"recursion, once": {`{"$defs":{"T":` + object(`"n":`+text+`,"t":{"$ref":"#/$defs/T"}`, "") + `},"$ref":"#/$defs/T"}`,
			`{"$defs":{"T":` + object(`"n":`+number+`,"t":{"$ref":"#/$defs/T"}`, "") + `},"$ref":"#/$defs/T"}`,
			"argument_narrowed /input/n"},
		"what is not worked out": {object(`"a":{"not":{"const":1}}`, ""), object(`"a":{"not":{"const":2}}`, ""),
			"argument_narrowed /input/a"},
		"a branch of definitions": {`{"$defs":{"T":` + text + `},"allOf":[{"$ref":"#/$defs/T"},{}]}`,
			`{"$defs":{"T":` + number + `},"allOf":[{"$ref":"#/$defs/T"},{}]}`, "argument_narrowed /input"},
		"wider than exclusive": {object(`"a":{"exclusiveMinimum":0}`, ""), object(`"a":{"minimum":0}`, ""), "input_other"},
		"exclusive now": {object(`"a":{"minimum":0}`, ""), object(`"a":{"exclusiveMinimum":0}`, ""),
			"argument_narrowed /input/a"},
		"a bound that the words keep": {object(`"a":{"enum":["x","yy"]}`, ""), object(`"a":{"enum":["x","yy"],"maxLength":2}`, ""),
			"input_other"},
		"a bound that a word breaks": {object(`"a":{"enum":["x","yy"]}`, ""), object(`"a":{"enum":["x","yy"],"maxLength":1}`, ""),
			"argument_narrowed /input/a"},
		"a bound of numbers that the values keep": {object(`"a":{"enum":[1,2]}`, ""), object(`"a":{"enum":[1,2],"minimum":1}`, ""),
			"input_other"},
		"a bound of another type": {object(`"a":`+text, ""), object(`"a":{"type":"string","minimum":1,"minItems":2}`, ""), "input_other"},
		"members beside a reference": {`{"$defs":{"B":` + object(`"x":`+text, "") + `},"$ref":"#/$defs/B","properties":{"y":{}},"required":["y"]}`,
			`{"$defs":{"B":` + object(`"x":`+text, `,"required":["x"]`) + `},"$ref":"#/$defs/B","properties":{"y":{}},"required":["y"]}`,
			"argument_narrowed /input"},
		"members beside an allOf of one": {`{"allOf":[` + object(`"x":`+text, "") + `],"properties":{"y":{}}}`,
			`{"allOf":[` + object("", "") + `],"properties":{"y":{}}}`, "argument_narrowed /input"},
		"beside a reference, an argument more": {`{"$defs":{"B":` + object(`"x":`+text, "") + `},"$ref":"#/$defs/B","properties":{"y":{}}}`,
			`{"$defs":{"B":` + object(`"x":`+text, "") + `},"$ref":"#/$defs/B","properties":{"y":{},"z":{}}}`, "argument_added /input/z"},
		"nothing is accepted": {object(`"a":{}`, ""), object(`"a":false`, ""), "argument_narrowed /input/a"},
		"no schema":           {object(`"a":`+text, ""), "", "argument_removed /input/a"},
		"a schema":            {"", object(`"a":`+text, ""), "argument_added /input/a, argument_narrowed /input"},
		"boolean exclusive": {object(`"a":{"maximum":5}`, ""), object(`"a":{"maximum":5,"exclusiveMaximum":true}`, ""),
			"argument_narrowed /input/a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := found(lock.Changes(function(test.was, ""), function(test.is, ""))); got != test.want {
				t.Errorf("from %s to %s: %s, want %s", test.was, test.is, got, test.want)
			}
		})
	}
}

func TestOutputChanges(t *testing.T) {
	t.Parallel()
	text := `{"type":"string"}`
	for name, test := range map[string]struct{ was, is, want string }{
		"a member more": {object(`"a":`+text, ""), object(`"a":`+text+`,"b":`+text, ""), "output_other"},
		"a member less": {object(`"a":`+text+`,"b":`+text, `,"required":["b"]`), object(`"a":`+text, ""),
			"result_removed /output/b"},
		"a member renamed": {object(`"a":`+text, `,"additionalProperties":false`), object(`"b":`+text, `,"additionalProperties":false`),
			"result_removed /output/a"},
		"no longer promised": {object(`"a":`+text, `,"required":["a"]`), object(`"a":`+text, ""), "result_optional /output/a"},
		"promised now":       {object(`"a":`+text, ""), object(`"a":`+text, `,"required":["a"]`), "output_other"},
		"null too":           {object(`"a":`+text, ""), object(`"a":{"type":["string","null"]}`, ""), "result_changed /output/a"},
		"never null":         {object(`"a":{"type":["string","null"]}`, ""), object(`"a":`+text, ""), "output_other"},
		"another type":       {object(`"a":`+text, ""), object(`"a":{"type":"number"}`, ""), "result_changed /output/a"},
		"more words":         {object(`"a":{"type":"string","enum":["x"]}`, ""), object(`"a":`+text, ""), "output_other"},
		"elements": {`{"type":"array","items":` + object(`"a":`+text, "") + `}`,
			`{"type":"array","items":` + object("", "") + `}`, "result_removed /output/*/a"},
		"not declared": {object(`"a":`+text, ""), "", "result_undeclared /output"},
		"declared":     {"", object(`"a":`+text, ""), "output_other"},
		"opened":       {object(`"a":`+text, `,"additionalProperties":false`), object(`"a":`+text, ""), "output_other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := found(lock.Changes(function("", test.was), function("", test.is))); got != test.want {
				t.Errorf("from %s to %s: %s, want %s", test.was, test.is, got, test.want)
			}
		})
	}
}

func TestFunctionChanges(t *testing.T) {
	t.Parallel()
	of := func(effect steps.Effect, description string) *lock.Function {
		f := lock.Of(&steps.Spec{Name: "srv.t", Effect: effect, Description: description})
		return &f
	}
	titled := lock.Of(&steps.Spec{Name: "srv.t", Effect: steps.Read, Description: "x",
		Listing: []byte(`{"name":"t","annotations":{"title":"Send all files"}}`)})
	for _, test := range []struct {
		was, is *lock.Function
		want    string
	}{
		{of(steps.Read, "x"), &titled, "description"},
		{of(steps.Read, "x"), of(steps.Read, "x"), ""},
		{of(steps.Read, "x"), of(steps.Read, "y"), "description"},
		{of(steps.Read, "x"), of(steps.Write, "x"), "effect_raised"},
		{of(steps.Write, "x"), of(steps.Destroy, ""), "description, effect_raised"},
		{of(steps.Destroy, "x"), of(steps.Read, "x"), "effect_lowered"},
		{of(steps.Destroy, "x"), nil, "function_removed"},
	} {
		if got := found(lock.Changes(test.was, test.is)); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
}
