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
	t             *testing.T
	mutex         sync.Mutex // held while a handler runs
	schemas       map[string]gjson.Result
	paths         map[string]gjson.Result
	base          string // prefix of the document's paths
	authorization string // value of the header Authorization
	mux           *http.ServeMux
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

// serveFake starts a service with a document, a file in node_modules. authorization is the expected value of the header Authorization.
func serveFake(t *testing.T, document, base, authorization string, all handlers) (url string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(npmPackages(t), filepath.FromSlash(document)))
	if err != nil {
		t.Fatal(err)
	}
	root := gjson.ParseBytes(text)
	s := &fakeService{t: t, schemas: map[string]gjson.Result{}, paths: root.Get("paths").Map(), base: base, authorization: authorization,
		mux: http.NewServeMux()}
	for name, schema := range root.Get("components.schemas").Map() {
		s.schemas["#/components/schemas/"+name] = schema
	}
	for operation, handler := range all {
		s.handle(operation, handler)
	}
	server := httptest.NewServer(s.mux)
	t.Cleanup(server.Close)
	return server.URL
}

// handle serves one operation.
func (s *fakeService) handle(operation string, handler func(*http.Request) any) {
	method, path, _ := strings.Cut(operation, " ")
	responses := s.paths[path].Get(strings.ToLower(method) + ".responses")
	status := ""
	for _, success := range []string{"200", "201", "204"} {
		if status == "" && responses.Get(success).Exists() {
			status = success
		}
	}
	if status == "" {
		s.t.Fatalf("the document has no successful response of %s", operation)
	}
	code, schema := int(gjson.Parse(status).Int()), responses.Get(status+`.content.application/json.schema`)
	pattern := method + " " + s.base + path
	if strings.HasSuffix(path, "/") {
		pattern += "{$}"
	}
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if r.Header.Get("Authorization") != s.authorization {
			s.write(w, http.StatusUnauthorized, object{"message": "who are you?"})
			return
		}
		result := handler(r)
		if failure, ok := result.(serviceError); ok {
			s.write(w, failure.status, failure.body)
			return
		}
		if !schema.Exists() {
			w.WriteHeader(code)
			return
		}
		s.write(w, code, s.complete(operation, schema, result))
	})
}

func (s *fakeService) write(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(value); err != nil {
		s.t.Error(err)
	}
}

// complete adds the members that a schema requires to a value. path is the value's position.
func (s *fakeService) complete(path string, schema gjson.Result, value any) any {
	if schema.Get("$ref").Exists() {
		return s.complete(path, s.schemas[schema.Get("$ref").String()], value)
	}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		for _, alternative := range schema.Get(word).Array() {
			if _, ok := value.(object); ok && alternative.Get("type").String() == "string" {
				continue
			}
			return s.complete(path, alternative, value)
		}
	}
	switch value := value.(type) {
	case object:
		return s.completeObject(path, schema, value)
	case array:
		list := array{}
		for _, element := range value {
			list = append(list, s.complete(path+"[]", schema.Get("items"), element))
		}
		return list
	case nil:
		return s.empty(path, schema)
	}
	return value
}

func (s *fakeService) completeObject(path string, schema gjson.Result, value object) object {
	properties, completed := schema.Get("properties").Map(), object{}
	for _, name := range schema.Get("required").Array() {
		completed[name.String()] = s.complete(path+"."+name.String(), properties[name.String()], value[name.String()])
	}
	for name, member := range value {
		declared, ok := properties[name]
		if !ok && !schema.Get("additionalProperties").Exists() {
			s.t.Errorf("the document does not declare %s.%s", path, name)
		}
		completed[name] = s.complete(path+"."+name, declared, member)
	}
	return completed
}

// empty returns the smallest value that is valid for a schema.
func (s *fakeService) empty(path string, schema gjson.Result) any {
	if enum := schema.Get("enum.0"); enum.Exists() && !schema.Get("nullable").Bool() {
		return enum.Value()
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
		return s.completeObject(path, schema, nil)
	}
	return nil
}
