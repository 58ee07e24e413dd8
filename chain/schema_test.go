package chain

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// TestSchemaKnowsTheFields holds the published schema and the decoder to the same fields.
func TestSchemaKnowsTheFields(t *testing.T) {
	t.Parallel()
	type object struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var s struct {
		object
		Defs map[string]object `json:"$defs"`
	}
	if err := json.Unmarshal(chainSchema, &s); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		schema  object
		decoded [][]string
	}{
		"chain":  {s.object, [][]string{requestShape.names, fetchShape.names}},
		"step":   {s.Defs["step"], [][]string{stepShape.names}},
		"inline": {s.Defs["inline"], [][]string{inlineShape.names}},
		"budget": {s.Defs["budget"], [][]string{requestShape.field("budget").inner.names}},
		"repeat": {s.Defs["repeat"], [][]string{stepShape.field("repeat").inner.names}},
		"retry":  {s.Defs["retry"], [][]string{stepShape.field("retry").inner.names}},
	} {
		var published []string
		for field := range test.schema.Properties {
			published = append(published, field)
		}
		known := slices.Concat(test.decoded...)
		slices.Sort(published)
		slices.Sort(known)
		if known = slices.Compact(known); !slices.Equal(published, known) {
			t.Errorf("%s: the schema has %v, the decoder %v", name, published, known)
		}
	}
}

// TestSchemaKnowsTheCodes holds the published codes to the closed list.
func TestSchemaKnowsTheCodes(t *testing.T) {
	t.Parallel()
	var s struct {
		Defs struct {
			Code struct{ Enum []fault.Code } `json:"code"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(answerSchema, &s); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Defs.Code.Enum, fault.Codes()) {
		t.Errorf("the schema has %v, the list is %v", s.Defs.Code.Enum, fault.Codes())
	}
}
