package openapi

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// petsDocument is a small document; servers is the text that follows its info.
func petsDocument(servers string) string {
	return `{"openapi":"3.0.3","info":{"title":"Pets","version":"2"},` + servers + `"paths":{
 "/pets":{
  "get":{"operationId":"listPets","summary":"Lists pets.","parameters":[{"name":"tags","in":"query","schema":{"type":"array",
  "items":{"type":"string"}}},
    {"name":"limit","in":"query","schema":{"type":"integer","minimum":1}}],
   "responses":{"200":{"description":"ok","content":{"application/json":{"schema":{"type":"object"}}}}}},
  "post":{"operationId":"createPet","summary":"Adds a pet.","requestBody":{"required":true,
  "content":{"application/json":{"schema":{"type":"object",
     "required":["name"],"properties":{"name":{"type":"string"},"weight":{"type":"number"}}}}}},
   "responses":{"201":{"description":"ok","content":{"application/json":{"schema":{"type":"object"}}}}}}},
 "/pets/{id}":{
  "parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"}}],
  "get":{"operationId":"getPet","summary":"Gets a pet.","responses":{"200":{"description":"ok"}}},
  "delete":{"operationId":"deletePet","summary":"Removes a pet.","responses":{"204":{"description":"gone"}}}}}}`
}

func writeDocument(tb testing.TB, text string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "openapi.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	document := writeDocument(t, petsDocument(""))
	client := mockTransport{http.NotFoundHandler()}
	for _, test := range []struct {
		name string
		o    *Options
		code fault.Code
		at   string
	}{
		{"nil", nil, fault.BadRequest, "/name"},
		{"a name with a dot", &Options{Name: "a.b", Spec: document, Client: client}, fault.BadRequest, "/name"},
		{"no client", &Options{Name: "a", Spec: document}, fault.BadRequest, ""},
		{"no document", &Options{Name: "a", Client: client}, fault.BadRequest, "/spec"},
		{"no file", &Options{Name: "a", Spec: document + ".none", Client: client}, fault.Unavailable, "/spec"},
		{"a folder", &Options{Name: "a", Spec: filepath.Dir(document), Client: client}, fault.BadRequest, "/spec"},
		{"no server", &Options{Name: "a", Spec: document, Client: client}, fault.BadRequest, "/baseUrl"},
		{"a base of another scheme", &Options{Name: "a", Spec: document, Client: client, BaseURL: "ftp://x"}, fault.BadRequest, "/baseUrl"},
		{"a base with a user", &Options{Name: "a", Spec: document, Client: client, BaseURL: "http://u:p@x"}, fault.BadRequest, "/baseUrl"},
		{"a base with a query", &Options{Name: "a", Spec: document, Client: client, BaseURL: "http://x?a"}, fault.BadRequest, "/baseUrl"},
		{"an invalid header", &Options{Name: "a", Spec: document, Client: client, Headers: map[string]string{"a b": "c"}},
			fault.BadRequest, "/headers/a b"},
		{"the host", &Options{Name: "a", Spec: document, Client: client, Headers: map[string]string{"host": "c"}}, fault.BadRequest,
			"/headers/host"},
		{"a line break", &Options{Name: "a", Spec: document, Client: client, Headers: map[string]string{"A": "secret\n"}}, fault.BadRequest,
			"/headers/A"},
		{"not OpenAPI", &Options{Name: "a", Spec: writeDocument(t, `{"a":1}`), Client: client}, fault.BadRequest, ""},
		{"half a URL", &Options{Name: "a", Spec: "https://", Client: client}, fault.BadRequest, "/spec"},
	} {
		s, err := New(test.o)
		if err == nil {
			_ = s.Close()
		}
		if f, _ := fault.As(err); f == nil || f.Code != test.code || f.At != test.at || strings.Contains(f.Message, "secret") ||
			strings.Contains(f.Message, "u:p") {
			t.Errorf("%s: %v, want %q at %q without a secret", test.name, err, test.code, test.at)
		}
	}
}
