package chain_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

var textsAsJSON = &chain.Caller{TextAsJSON: true}

// TestTextOfAResume: what a resume sends as texts is read like the JSON in it, and the journal has the chain as JSON.
func TestTextOfAResume(t *testing.T) {
	t.Parallel()
	for _, resume := range []string{
		`{"resume":%q,"replace":"{\"1\":{\"fn\":\"store.put\",\"args\":{\"k\":\"2\"}}}"}`,
		`{"resume":%q,"replace":{"1":"{\"fn\":\"store.put\",\"args\":{\"k\":\"2\"}}"}}`,
		`{"resume":%q,"steps":"[{\"fn\":\"store.put\",\"args\":{\"k\":\"1\"}},{\"fn\":\"store.put\",\"args\":{\"k\":\"2\"}}]"}`,
		`{"resume":%q,"input":"{\"n\":1}","replace":{"1":{"fn":"store.put","args":"{\"k\":\"2\"}"}},"assume":"{}"}`,
	} {
		s := newScriptedEngine(t, nil, failing("bad", refuses))
		first := s.runAs(textsAsJSON, fault.FunctionFailed,
			`{"steps":"[{\"fn\":\"store.put\",\"args\":{\"k\":\"1\"}},{\"fn\":\"store.put\",\"args\":{\"k\":\"bad\"}}]"}`)
		s.wantCalls(`store.put {"k":"1"}`, `store.put {"k":"bad"}`)
		s.runAs(textsAsJSON, "", resume, first.Get("resume").Str)
		s.wantCalls(`store.put {"k":"2"}`)
	}
}

// TestTextDepth: a chain in a text may be as deep as one that is not, and no deeper.
func TestTextDepth(t *testing.T) {
	t.Parallel()
	engine := engine(t, &world{}, chain.Options{})
	for _, depth := range []int{194, 195, 196, 197, 198, 199} {
		steps := `[{"fn":"test.get","args":{"value":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}}]`
		text, err := json.Marshal(steps)
		must(t, err)
		asJSON := engine.Run(t.Context(), []byte(`{"steps":`+steps+`}`), textsAsJSON)
		asText := engine.Run(t.Context(), []byte(`{"steps":`+string(text)+`}`), textsAsJSON)
		if asText.OK != asJSON.OK || !asJSON.OK && !strings.Contains(string(asText.JSON), "bad_json") {
			t.Errorf("%d levels: as JSON %v, as a text %s", depth, asJSON.OK, asText.JSON)
		}
	}
}
