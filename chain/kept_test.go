package chain_test

import (
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// TestKept: the journal has the number that an answer gives of the tokens that it kept out.
func TestKept(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, nil, nil)
	a := s.engine.Run(t.Context(), []byte(`{"steps":[{"id":"many","expr":"map(1..900, ({\"a\": #, \"b\": \"word \" + string(#)}))"},{"fn":"store.put","args":{"k":"1"}}]}`), nil)
	rows, err := s.journal.List(t.Context(), &journal.Filter{})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d runs, error %v: %s", len(rows), err, a.JSON)
	}
	if kept := gjson.GetBytes(a.JSON, "usage.kept").Int(); kept < 1000 || int64(rows[0].Stored) != kept {
		t.Errorf("the journal says that %d tokens were kept, the answer %s", rows[0].Stored, a.JSON)
	}
}
