package steps

import "testing"

// Schemas in a spec are compact, and no schema that is not JSON can get into an answer.
func TestSpecSchemas(t *testing.T) {
	t.Parallel()
	e, _ := entry(t, " {\n \"type\" : \"object\" } ", `{"type":`)
	if got := string(e.Spec().Input); got != `{"type":"object"}` || e.Spec().Output != nil {
		t.Errorf("got input %s, output %s, want a plain object and none", got, e.Spec().Output)
	}
}
