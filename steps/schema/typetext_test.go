package schema

import (
	"strings"
	"testing"
)

// filesSchema is the schema of a search's result.
const filesSchema = `{"type":"object","required":["count","files"],"properties":{"count":{"type":"integer"},"files":{"type":"array","items":{"type":"object",
	"required":["path"],"properties":{"path":{"type":"string","description":"Where it is.  From the root."},"matches":{"type":"array",
	"items":{"type":"object",
	"properties":{"line":{"type":"integer"},"text":{"type":"string"}}}},"tags":{"type":"array","items":{"type":"string"}}}}}}}`

// TestTypeText: the names of members come before their types, and outer ones before inner ones.
func TestTypeText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		schema string
		limit  int
		want   string
	}{
		{filesSchema, 400, "{count: integer, files: {path: string, matches?: {line?: integer, text?: string}[], tags?: string[]}[]}"},
		{filesSchema, 82, "{count: integer, files: {path, matches: {line, text}[], tags: []}[]}"},
		{filesSchema, 70, "{count: integer, files: {path, matches: {line, text}[], tags: []}[]}"},
		{filesSchema, 63, "{count, files: {path, matches: {line, text}[], tags: []}[]}"},
		{filesSchema, 56, "{count: integer, files: {…}[]}"},
		{filesSchema, 30, "{count, files: {…}[]}"},
		{filesSchema, 12, "{count, …}"},
		{filesSchema, 1, "{…}"},
		{`{"type":"array","items":` + filesSchema + `}`, 70, "{count: integer, files: {path, matches: {line, text}[], tags: []}[]}[]"},
		{`{"anyOf":[` + filesSchema + `,{"type":"null"}]}`, 70, "{count, files: {path, matches: {line, text}[], tags: []}[]}|null"},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"name":{"type":"string"},"inner":{"$ref":"#/$defs/a"}}}}}`, 400,
			"{name?: string, inner?: {…}}"},
		{`{}`, 400, ""}, {``, 400, ""}, {`true`, 400, ""}, {`{"type":"object"}`, 400, "object"}, {`{"type":"string"}`, 1, "string"},
	}
	for _, test := range tests {
		if got := typeText([]byte(test.schema), test.limit); got != test.want {
			t.Errorf("%d bytes of %s\n got %s\nwant %s", test.limit, test.schema, got, test.want)
		}
	}
}

// TestOutline: an outline is complete, with defaults and descriptions, and ends at a recursive schema.
func TestOutline(t *testing.T) {
	t.Parallel()
	const want = `{
  count: integer
  files: {
    path: string // Where it is
    matches?: {
      line?: integer
      text?: string
    }[]
    tags?: string[]
  }[]
}`
	if got := Outline([]byte(filesSchema)); got != want {
		t.Errorf("got outline %s\nwant %s", got, want)
	}
	deep := "{}"
	for range 60 {
		deep = `{"properties":{"a":` + deep + `,"b":{"type":"integer","default":5}}}`
	}
	if got := Outline([]byte(deep)); strings.Count(got, "a?: {") != 59 || !strings.Contains(got, "b?: integer = 5") {
		t.Errorf("got outline %s, want 59 levels of a, and the default of b", got)
	}
	if got := Outline([]byte(`{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"a":{"$ref":"#/$defs/a"}}}}}`)); got != "{\n  a?: {…}\n}" {
		t.Errorf("got outline %s, want {…} for the cycle", got)
	}
	if got := Outline(nil); got != "any" {
		t.Errorf("Outline(nil) = %s, want any", got)
	}
}
