package steps

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// TestFieldsSetting: a setting names the argument that lists fields only of functions that declare it so; one that no function has is a
// fault with the nearest.
func TestFieldsSetting(t *testing.T) {
	t.Parallel()
	s := mustSettings(t, Setting{Pattern: "a.*", Fields: ptr("fields")}, Setting{Pattern: "b.*", Fields: ptr("filds")},
		Setting{Pattern: "c.*", Fields: ptr("limit")}, Setting{Pattern: "a.own", Heavy: ptr("never")})
	const fields = `{"type":"object","properties":{"fields":{"type":"string"},"limit":{"type":"integer"}}}`
	for name, c := range map[string]struct{ input, want string }{
		"a.get": {fields, "fields"}, "a.own": {fields, "fields"}, "a.none": {`{"type":"object"}`, ""}, "a.broken": {`{`, ""},
		"b.get": {fields, ""}, "c.get": {fields, ""},
	} {
		if fn, _ := s.Apply(Function{Spec: Spec{Name: name, Input: json.RawMessage(c.input)}}); fn.Fields != c.want {
			t.Errorf("%s: got %q, want %q", name, fn.Fields, c.want)
		}
	}
	if fn, _ := s.Apply(Function{Spec: Spec{Name: "x", PossiblePaths: []string{"a.get"}, Input: json.RawMessage(fields)}}); fn.Fields != "" {
		t.Errorf("a possible path gives %q", fn.Fields)
	}
	unused := s.Unused(nil)
	if len(unused) != 2 || unused[0].At != "/1/fields" || unused[0].Code != fault.BadRequest || len(unused[0].Nearest) == 0 ||
		unused[0].Nearest[0] != "fields" || unused[1].At != "/2/fields" || strings.Contains(strings.Join(unused[1].Nearest, " "), "limit") {
		t.Errorf("got %+v, want a fault for b.* with the nearest, and one for c.*", unused)
	}
}

// TestFieldList: the schema of the argument says how it takes names, and which.
func TestFieldList(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"type":"string"}`: `"id,a.b"`, `{"type":"array","items":{"type":"string"}}`: `["id","a.b"]`, `{"type":"array"}`: `["id","a.b"]`,
		`{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]}`: `["id","a.b"]`, `{"$ref":"#/$defs/f"}`: `"id,a.b"`,
		`{"type":"string","enum":["id","name"]}`: "", `{"type":"array","items":{"enum":["id"]}}`: "", `{"type":"array","maxItems":1}`: "",
		`{"type":"array","items":{"type":"integer"}}`: "", `{"type":"integer"}`: "", `{}`: "", `true`: "",
	} {
		r, err := NewRegistry([]Function{{Spec: Spec{Name: "a.get", Fields: "fields", Input: json.RawMessage(
			`{"type":"object","properties":{"fields":` + schema + `,"must":{}},"required":["must"],"$defs":{"f":{"type":"string"}}}`)},
			Call: func(context.Context, []byte) ([]byte, error) { return nil, nil }}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		e, _ := r.Resolve("a.get")
		if got := e.FieldList([]string{"id", "a.b"}); string(got) != want {
			t.Errorf("%s: got %s, want %s", schema, got, want)
		}
		if got := e.FieldList([]string{"a,b"}); strings.HasPrefix(want, `"`) && got != nil {
			t.Errorf("%s: got %s for a name with a comma, want none", schema, got)
		}
	}
}
