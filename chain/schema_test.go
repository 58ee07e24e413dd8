package chain

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

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
