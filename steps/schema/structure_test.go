package schema

import "testing"

// TestStructure: what a schema accepts its structure accepts, and a structure still refuses other types and members.
func TestStructure(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, schema, accepted, refused string }{
		{"bounds", `{"type":"string","minLength":3,"pattern":"^a"}`, `"x"`, `1`},
		{"members named as keywords", `{"properties":{"pattern":{"type":"string"},"not":{"type":"integer"},
			"const":{"minimum":3,"type":"integer"}},"additionalProperties":false}`, `{"pattern":"x","not":1,"const":2}`, `{"if":1}`},
		{"one of two ranges", `{"oneOf":[{"type":"integer","maximum":0},{"type":"integer","minimum":1}]}`, `5`, `"x"`},
		{"one of two formats beside any of two", `{"oneOf":[{"type":"string","maxLength":3},{"type":"string","minLength":4}],
			"anyOf":[{"type":"string"},{"type":"null"}]}`, `"four"`, `null`},
		{"not of a bound", `{"type":"string","not":{"minLength":3}}`, `"x"`, `1`},
		{"if with a bound", `{"type":"object","properties":{"n":{"type":"integer"}},"if":{"properties":{"n":{"minimum":10}}},
			"then":{"required":["big"]}}`, `{"n":1}`, `{"n":"x"}`},
		{"contains with a bound", `{"type":"array","contains":{"minimum":10},"minContains":0,"maxContains":1}`, `[1,2]`, `{}`},
		{"evaluated by a branch", `{"type":"object","if":{"required":["a"]},"then":{"properties":{"a":true}},"unevaluatedProperties":false}`,
			`{"a":1}`, `[]`},
		{"a value with names of keywords", `{"const":{"minimum":3,"not":4}}`, `{"minimum":3,"not":4}`, `{}`},
		{"a schema in a list", `{"prefixItems":[{"type":"string","minLength":3}],"items":{"type":"integer","maximum":3}}`,
			`["x",5]`, `["x","y"]`},
	} {
		structure := Structure([]byte(tt.schema))
		v, warnings := Compile(structure)
		if warnings != "" {
			t.Errorf("%s: %s", tt.name, warnings)
		}
		if faults := v.Check(t.Context(), []byte(tt.accepted)); len(faults) > 0 {
			t.Errorf("%s: %s refuses %s: %v", tt.name, structure, tt.accepted, faults[0])
		}
		if len(v.Check(t.Context(), []byte(tt.refused))) == 0 {
			t.Errorf("%s: %s accepts %s", tt.name, structure, tt.refused)
		}
	}
}
