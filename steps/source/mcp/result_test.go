package mcp

import (
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// TestMalformedResults are failures, and never the value null.
func TestMalformedResults(t *testing.T) {
	t.Parallel()
	s := &Source{}
	for _, raw := range []string{
		`"s"`, `5`, `[1]`, `null`, `{"content":"x"}`, `{"content":{}}`, `{"content":[{"type":"text"}]}`, `{"content":[{"type":"text","text":7}]}`,
		`{"content":["x"]}`, `{"content":[{"text":"x"}]}`, `{"isError":"yes","content":[]}`,
	} {
		value, f := s.resultValue(t.Context(), &tool{function: "a.b"}, []byte(raw))
		if f == nil || f.Code != fault.FunctionFailed {
			t.Errorf("%s gives %s, %v", raw, value, f)
		}
	}
	for raw, want := range map[string]string{
		`{"content":[]}`: `null`, `{}`: `null`, `{"content":[{"type":"text","text":""}]}`: `""`, `{"structuredContent":{"a":1},"content":[]}`: `{"a":1}`,
	} {
		if value, f := s.resultValue(t.Context(), &tool{function: "a.b"}, []byte(raw)); f != nil || string(value) != want {
			t.Errorf("%s gives %s, %v", raw, value, f)
		}
	}
}
