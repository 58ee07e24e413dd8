package schema

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestPortable: a schema that strict clients and model APIs refuse is mended at any depth, and then is one by its own draft. Others are
// unchanged.
func TestPortable(t *testing.T) {
	t.Parallel()
	draft := jsonschema.NewCompiler().MustCompile("https://json-schema.org/draft/2020-12/schema")
	for written, want := range map[string]string{
		`{"properties":[]}`:                                          `{}`,
		`{"properties":null,"required":null}`:                        `{}`,
		`{"required":["a","a"],"properties":{"a":{}}}`:               `{"required":["a"],"properties":{"a":{}}}`,
		`{"properties":{"a":{"required":true,"type":"any"}}}`:        `{"properties":{"a":{}}}`,
		`{"properties":{"a":true,"b":false,"c":null,"d":[]}}`:        `{"properties":{"a":{},"b":{"not":{}},"c":{},"d":{}}}`,
		`{"minimum":1,"exclusiveMinimum":true}`:                      `{"exclusiveMinimum":1}`,
		`{"maximum":1.50,"exclusiveMaximum":true}`:                   `{"exclusiveMaximum":1.50}`,
		`{"minimum":1,"exclusiveMinimum":false}`:                     `{"minimum":1}`,
		`{"exclusiveMaximum":true}`:                                  `{}`,
		`{"items":null}`:                                             `{}`,
		`{"type":"array","items":[]}`:                                `{"type":"array","items":{}}`,
		`{"type":"array","items":"x"}`:                               `{"type":"array","items":{}}`,
		`{"additionalProperties":null,"anyOf":[],"enum":[]}`:         `{}`,
		`{"description":5,"title":null,"format":{},"examples":"x"}`:  `{}`,
		`{"minLength":-1,"maxItems":"5","multipleOf":0}`:             `{}`,
		`{"$ref":"#/$defs/Gone"}`:                                    `{}`,
		`{"$ref":5}`:                                                 `{}`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"type":"null"}}}`:         `{"$ref":"#/$defs/a","$defs":{"a":{"type":"null"}}}`,
		`{"$ref":"#a","$defs":{"a":{"$anchor":"a"}}}`:                `{"$ref":"#a","$defs":{"a":{"$anchor":"a"}}}`,
		`{"id":"x","default":{"required":null},"const":{"type":1}}`:  `{"default":{"required":null},"const":{"type":1}}`,
		`{"dependentRequired":{"a":5},"dependentSchemas":{"a":[]}}`:  `{"dependentSchemas":{"a":{}}}`,
		`{"properties":{"required":{"type":"string"}},"x-own":null}`: `{"properties":{"required":{"type":"string"}},"x-own":null}`,
	} {
		for _, within := range []string{
			`%`, `{"properties":{"p":%}}`, `{"anyOf":[%,{"type":"string"}]}`, `{"type":"array","items":%}`, `{"additionalProperties":%}`,
			`{"prefixItems":[%]}`, `{"if":%}`, `{"patternProperties":{"^a":%}}`,
		} {
			if within != "%" && strings.Contains(written, "$defs") {
				continue // its references are relative to the root
			}
			got := Portable([]byte(strings.Replace(within, "%", written, 1)))
			if want := strings.Replace(within, "%", want, 1); string(got) != want {
				t.Errorf("%s in %s\ngot  %s\nwant %s", written, within, got, want)
			}
			value, f := decode(got)
			if f != nil {
				t.Fatal(f)
			}
			if err := draft.Validate(value); err != nil {
				t.Errorf("%s is no schema: %v", got, err)
			}
		}
	}
}

// TestPortableOutput: an output schema that clients cannot compile has a problem; a detail is mended.
func TestPortableOutput(t *testing.T) {
	t.Parallel()
	object := func(property string) string { return `{"type":"object","properties":{"a":` + property + `}}` }
	for written, want := range map[string]string{
		`true`:                        "",
		`{"type":"array","items":{}}`: "",
		`{"type":["object","null"]}`:  "",
		`{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}`: "",
		object(`{"$ref":"#/$defs/Gone"}`):                      "",
		object(`{"$ref":"https://example.com/a"}`):             "",
		object(`{"type":"money"}`):                             "",
		object(`{"nullable":true}`):                            "",
		object(`{"$id":"x","type":"object"}`):                  "",
		object(`{"patternProperties":{"\\@":{}}}`):             "",
		`{"$id":"x","type":"object"}`:                          `{"type":"object"}`,
		`{"type":"object","properties":[],"required":null}`:    `{"type":"object"}`,
		object(`{"type":"string","nullable":true}`):            object(`{"type":"string","nullable":true}`),
		object(`{"type":"null","nullable":false}`):             object(`{"type":"null"}`),
		object(`{"pattern":"^[\\w-.]+$"}`):                     object(`{}`),
		object(`{"pattern":"\\@"}`):                            object(`{}`),
		object(`{"pattern":"(?i)a"}`):                          object(`{}`),
		object(`{"pattern":"^(?!x)[a-z_-]{1,3}\\.\\d$"}`):      object(`{"pattern":"^(?!x)[a-z_-]{1,3}\\.\\d$"}`),
	} {
		if got, problem := PortableOutput([]byte(written)); string(got) != want || (problem == "") != (want != "") {
			t.Errorf("%s: got %q, problem %q, want %q", written, got, problem, want)
		}
	}
}
