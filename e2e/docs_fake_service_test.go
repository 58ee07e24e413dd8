//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
)

// fakeService serves the operations of an OpenAPI document. An answer has the members that its handler returns, which the document
// must declare, and empty values for the other members that the document requires.
type fakeService struct {
	t       *testing.T
	mutex   sync.Mutex // held while a handler runs
	schemas map[string]gjson.Result
	paths   map[string]gjson.Result
	base    string // prefix of the document's paths
	login   string // value of the header Authorization
	mux     *http.ServeMux
}

// JSON values that handlers return, and an error of the service.
type (
	object       = map[string]any
	array        = []any
	serviceError struct {
		status int
		body   object
	}
)

// handlers answer operations, by names such as "GET /items/{id}".
type handlers = map[string]func(*http.Request) any

// serveFake starts a service with a document, a file in node_modules. login is the expected value of the header Authorization.
func serveFake(t *testing.T, document, base, login string, all handlers) (url string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(npmPackages(t), filepath.FromSlash(document)))
	if err != nil {
		t.Fatal(err)
	}
	whole := gjson.ParseBytes(text)
	s := &fakeService{t: t, schemas: map[string]gjson.Result{}, paths: whole.Get("paths").Map(), base: base, login: login,
		mux: http.NewServeMux()}
	for name, schema := range whole.Get("components.schemas").Map() {
		s.schemas["#/components/schemas/"+name] = schema
	}
	for operation, handler := range all {
		s.play(operation, handler)
	}
	server := httptest.NewServer(s.mux)
	t.Cleanup(server.Close)
	return server.URL
}

// play serves one operation.
func (s *fakeService) play(operation string, handler func(*http.Request) any) {
	method, path, _ := strings.Cut(operation, " ")
	responses := s.paths[path].Get(strings.ToLower(method) + ".responses")
	status := ""
	for _, success := range []string{"200", "201", "204"} {
		if status == "" && responses.Get(success).Exists() {
			status = success
		}
	}
	if status == "" {
		s.t.Fatalf("the document has no answer of %s", operation)
	}
	code, schema := int(gjson.Parse(status).Int()), responses.Get(status+`.content.application/json.schema`)
	pattern := method + " " + s.base + path
	if strings.HasSuffix(path, "/") {
		pattern += "{$}"
	}
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if r.Header.Get("Authorization") != s.login {
			s.write(w, http.StatusUnauthorized, object{"message": "who are you?"})
			return
		}
		given := handler(r)
		if no, is := given.(serviceError); is {
			s.write(w, no.status, no.body)
			return
		}
		if !schema.Exists() {
			w.WriteHeader(code)
			return
		}
		s.write(w, code, s.complete(operation, schema, given))
	})
}

func (s *fakeService) write(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(value); err != nil {
		s.t.Error(err)
	}
}

// complete adds the members that a schema requires to a value. at is the value's position.
func (s *fakeService) complete(at string, schema gjson.Result, given any) any {
	if schema.Get("$ref").Exists() {
		return s.complete(at, s.schemas[schema.Get("$ref").String()], given)
	}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		for _, one := range schema.Get(word).Array() {
			if _, is := given.(object); is && one.Get("type").String() == "string" {
				continue
			}
			return s.complete(at, one, given)
		}
	}
	switch given := given.(type) {
	case object:
		return s.completeObject(at, schema, given)
	case array:
		all := array{}
		for _, element := range given {
			all = append(all, s.complete(at+"[]", schema.Get("items"), element))
		}
		return all
	case nil:
		return s.empty(at, schema)
	}
	return given
}

func (s *fakeService) completeObject(at string, schema gjson.Result, given object) object {
	properties, all := schema.Get("properties").Map(), object{}
	for _, name := range schema.Get("required").Array() {
		all[name.String()] = s.complete(at+"."+name.String(), properties[name.String()], given[name.String()])
	}
	for name, value := range given {
		declared, is := properties[name]
		if !is && !schema.Get("additionalProperties").Exists() {
			s.t.Errorf("the document does not declare %s.%s", at, name)
		}
		all[name] = s.complete(at+"."+name, declared, value)
	}
	return all
}

// empty returns the smallest value that is valid for a schema.
func (s *fakeService) empty(at string, schema gjson.Result) any {
	if first := schema.Get("enum.0"); first.Exists() && !schema.Get("nullable").Bool() {
		return first.Value()
	}
	kind := schema.Get("type").String()
	switch {
	case schema.Get("nullable").Bool():
		return nil
	case kind == "string":
		return ""
	case kind == "integer", kind == "number":
		return 0
	case kind == "boolean":
		return false
	case kind == "array":
		return array{}
	case kind == "object":
		return s.completeObject(at, schema, nil)
	}
	return nil
}
