package openapi

import (
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// TestMistypedArgument: the fault names the argument, even if another argument's name looks secret.
func TestMistypedArgument(t *testing.T) {
	t.Parallel()
	path := writeDocument(t, `{"openapi":"3.0.0","info":{"title":"t","version":"1"},"servers":[{"url":"https://h.example"}],"paths":{"/items":{"get":{"operationId":"listItems",
		"parameters":[{"name":"api_key","in":"query","schema":{"type":"string"}},{"name":"limit","in":"query","required":true,
		"schema":{"type":"integer"}}],
		"responses":{"200":{"description":"ok"}}}}}}`)
	s, err := New(&Options{Name: "h", Spec: path, Client: &capture{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	registry, err := steps.NewRegistry(s.Functions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range registry.All()[0].Check([]byte(`{"api_key":"hunter2-hunter2","limt":5}`), nil) {
		all = append(all, f.Error())
	}
	text := strings.Join(all, "\n")
	if !strings.Contains(text, `/limt: unknown argument, did you mean "limit"?`) || strings.Contains(text, "hunter2") {
		t.Errorf("got %s, want limit as the name that was meant, and not the secret", text)
	}
}
