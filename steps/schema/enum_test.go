package schema_test

import (
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/steps/schema"
)

// TestFitEnums: values are meant as the type beside them says, in their spelling. An enum with a value that cannot be meant so is left out.
func TestFitEnums(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, want, changes string }{
		{`{"type":"string","enum":[1,2.50,true]}`, `{"type":"string","enum":["1","2.50","true"]}`, "#/enum: its values are taken as type string"},
		{`{"type":"integer","enum":["1","-2"]}`, `{"type":"integer","enum":[1,-2]}`, "taken as type integer"},
		{`{"type":"number","enum":["1.50",2]}`, `{"type":"number","enum":[1.50,2]}`, "taken as type number"},
		{`{"type":"boolean","enum":["true","false"]}`, `{"type":"boolean","enum":[true,false]}`, "taken as type boolean"},
		{`{"type":["string","null"],"enum":[1,null]}`, `{"type":["string","null"],"enum":["1",null]}`, "taken as type string or null"},
		{`{"type":["integer","string"],"enum":[1,"a"]}`, `{"type":["integer","string"],"enum":[1,"a"]}`, ""},
		{`{"type":"string","enum":["a",null]}`, `{"type":"string","enum":["a",null]}`, ""},
		{`{"type":"number","enum":[1,1.0]}`, `{"type":"number","enum":[1,1.0]}`, ""},
		{`{"type":"integer","enum":[1.0]}`, `{"type":"integer","enum":[1.0]}`, ""},
		{`{"enum":[1,"a"]}`, `{"enum":[1,"a"]}`, ""},
		{`{"type":"string","const":7}`, `{"type":"string","const":"7"}`, "#/const: its values are taken as type string"},
		{`{"type":"boolean","enum":["yes","no"]}`, `{"type":"boolean"}`, "#/enum is left open: its values are not of type boolean"},
		{`{"type":"boolean","enum":[0,1]}`, `{"type":"boolean"}`, "left open"},
		{`{"type":"integer","enum":[1.5]}`, `{"type":"integer"}`, "left open"},
		{`{"type":"integer","enum":["01"]}`, `{"type":"integer"}`, "left open"},
		{`{"type":"integer","enum":["1.5"]}`, `{"type":"integer"}`, "left open"},
		{`{"type":"array","items":{"type":"string"},"enum":["a"]}`, `{"type":"array","items":{"type":"string"}}`, "left open"},
		{`{"type":"string","enum":[{"a":1}]}`, `{"type":"string"}`, "left open"},
		{`{"properties":{"type":{"type":"string","enum":[1]},"enum":{"type":"string"}}}`,
			`{"properties":{"type":{"type":"string","enum":["1"]},"enum":{"type":"string"}}}`, "#/properties/type/enum: its"},
		{`{"anyOf":[{"items":{"type":"string","enum":[1]}}],"$defs":{"x":{"type":"integer","enum":["2"]}}}`,
			`{"anyOf":[{"items":{"type":"string","enum":["1"]}}],"$defs":{"x":{"type":"integer","enum":[2]}}}`, "#/anyOf/items/enum: its"},
		{`{"type":"object","default":[{"type":"string","enum":[1]}]}`, `{"type":"object","default":[{"type":"string","enum":[1]}]}`, ""},
		{`true`, `true`, ""}, {``, ``, ""}, {`{"type":"text","enum":[1]}`, `{"type":"text","enum":[1]}`, ""},
	} {
		got, changes := schema.FitEnums([]byte(c.schema))
		if string(got) != c.want || !strings.Contains(changes, c.changes) || (changes == "") != (c.changes == "") {
			t.Errorf("%s:\ngot  %s, %q\nwant %s, %q", c.schema, got, changes, c.want, c.changes)
		}
	}
}

// TestArgumentsOfAnotherType: an argument can be given, and the warning names the place.
func TestArgumentsOfAnotherType(t *testing.T) {
	t.Parallel()
	a, warnings := schema.NewArguments([]byte(`{"type":"object","properties":{"level":{"type":"string","enum":[1,2]}},"required":["level"]}`),
		schema.ArgumentsOptions{})
	if !strings.Contains(warnings, "#/properties/level/enum") {
		t.Errorf("got the warning %q, want one that names the enum", warnings)
	}
	if _, f, err := a.Accept(t.Context(), []byte(`{"level":"2"}`), nil); f != nil || err != nil {
		t.Errorf("got %v, %v, want no fault", f, err)
	}
	if _, f, _ := a.Accept(t.Context(), []byte(`{"level":"3"}`), nil); f == nil {
		t.Error("a value that is not in the enum is accepted")
	}
}
