package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// recursive has a tree of alternatives that grows by four with each level of the arguments.
const recursive = `{"$ref":"#/$defs/n","$defs":{"n":{"anyOf":[
	{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"required":["x"]},{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},
	"required":["y"]},
	{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"required":["z"]},{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},
	"required":["w"]}]}}}`

func nested(depth int) string {
	return strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
}

// Values of arguments that may be secret are not shown; keys are, since who mistyped one must learn which.
func TestSecretArguments(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	schema := `{"properties":{"user":{"properties":{"id":{"type":"integer"}},"required":["id"],"additionalProperties":false},
		"map":{"additionalProperties":{"type":"integer"}},"names":{"propertyNames":{"maxLength":2}},"mode":{"enum":["a","b"]},
		"list":{"items":{"properties":{"id":{"type":"integer"}}}},
		"one":{"anyOf":[{"additionalProperties":{"type":"integer"}},{"additionalProperties":false}]}}}`
	e := hiding(t, schema)
	for args, want := range map[string][]string{
		`{"user":{"idd":"hunter2","b":2}}`: {`/user/b|/user/b: unknown argument`,
			`/user/idd|/user/idd: unknown argument, did you mean "id"?`},
		`{"user":{"id":"hunter2"}}`:            {`/user/id|/user/id: got string, want integer`},
		`{"map":{"k":"hunter2","1234":"x"}}`:   {`/map/1234|/map/1234: got string, want integer`, `/map/k|/map/k: got string, want integer`},
		`{"names":{"long":"hunter2"}}`:         {`/names|/names: the key "long" is not allowed`},
		`{"list":[{"id":1},{"id":"hunter2"}]}`: {`/list/1/id|/list/1/id: got string, want integer`},
		`{"mode":"hunter2"}`:                   {`/mode|/mode: want "a" or "b"`},
		`{"one":{"k":"hunter2"}}`: {`/one|/one: fits none of 2 alternatives: (1) /k: got string, want integer; (2) ` +
			`unknown argument "k"`},
		`{"map":{"k":"hunter2","k":2}}`: {`/map/k|/map/k: the key "k" occurs twice`},
		`{"map":{"k":1e9999}}`:          {`/map/k|/map/k: the number is too long to be compared`},
	} {
		var got []string
		for _, f := range e.Check([]byte(args), nil) {
			got = append(got, f.At+"|"+f.Message)
			if strings.Contains(fmt.Sprintf("%+v", *f), secret) {
				t.Errorf("%s: shown in %+v", args, *f)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s\n got %q\nwant %q", args, got, want)
		}
		if err := e.Call(t.Context(), []byte(args)); fault.CodeOf(err) != fault.BadArguments || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
