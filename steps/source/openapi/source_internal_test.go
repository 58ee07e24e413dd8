package openapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/stepstest"
)

// petsService answers the operations of petsDocument with the requests that it received.
func petsService(base string) http.Handler {
	echo := func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") == "missing" {
			http.Error(w, "no such pet", http.StatusNotFound)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprintf(w, `{"sent":%q,"body":%q}`, r.Method+" "+r.RequestURI, body)
	}
	service := http.NewServeMux()
	service.HandleFunc("GET "+base+"/pets", echo)
	service.HandleFunc("POST "+base+"/pets", echo)
	service.HandleFunc("GET "+base+"/pets/{id}", echo)
	service.HandleFunc("DELETE "+base+"/pets/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	return service
}

func TestConformance(t *testing.T) {
	t.Parallel()
	stepstest.Run(t, stepstest.Options{
		New: func(t *testing.T) steps.Source {
			s, err := New(&Options{Name: "pets", Spec: writeDocument(t, petsDocument("")), BaseURL: "http://api.example.com/v1",
				Client: mockTransport{petsService("/v1")}})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Args: map[string]string{
			"pets.pet.list":   `{"tags":["a b","c"],"limit":3}`,
			"pets.pet.create": `{"name":"Rex","weight":1.10}`,
			"pets.pet.get":    `{"id":"a/b"}`,
			"pets.pet.delete": `{"id":"7"}`,
		},
		Fails: map[string][]string{"pets.pet.get": {`{"id":"missing"}`, `{"id":".."}`, `{"id":""}`}},
	})
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	s, err := New(&Options{Name: "pets", Spec: writeDocument(t,
		petsDocument(`"servers":[{"url":"/relative"},{"url":"http://api.example.com/v2/"}],`)), Client: mockTransport{petsService("/v2")}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var got []string
	for _, fn := range s.Functions() {
		got = append(got, fmt.Sprintf("%s %s %t %t %q", fn.Name, fn.Effect, fn.EffectDeclared, fn.Idempotent, fn.Description))
		if fn.Deletes != (fn.Effect == steps.Destroy) {
			t.Errorf("%s: Deletes is %t with the effect %v, want %t", fn.Name, fn.Deletes, fn.Effect, !fn.Deletes)
		}
	}
	slices.Sort(got)
	want := []string{`pets.pet.create write true false "Adds a pet."`, `pets.pet.delete destroy true true "Removes a pet."`,
		`pets.pet.get read true false "Gets a pet."`, `pets.pet.list read true false "Lists pets."`}
	if !slices.Equal(got, want) {
		t.Errorf("got functions\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if status := s.Status(); status.State != steps.StateReady || status.Version != "Pets 2" || status.Error != nil {
		t.Errorf("got status %+v, want ready, and version Pets 2", status)
	}
	for _, fn := range s.Functions() {
		if fn.Name == "pets.pet.create" {
			result, err := fn.Call(t.Context(), []byte(`{"weight":1.10,"name":"Rex"}`))
			if want := `{"sent":"POST /v2/pets","body":"{\"weight\":1.10,\"name\":\"Rex\"}"}`; err != nil || string(result) != want {
				t.Errorf("got %s, %v, want %s", result, err, want)
			}
		}
	}
}

// TestLongDescriptions: a long summary is cut after a sentence, else at a space, and in a language without spaces between characters.
func TestLongDescriptions(t *testing.T) {
	t.Parallel()
	for summary, want := range map[string]string{
		strings.Repeat("Words go on. ", 40):           strings.TrimSpace(strings.Repeat("Words go on. ", 30)),
		strings.Repeat("word ", 100):                  strings.Repeat("word ", 80) + "…",
		strings.Repeat("資源", 100):                     strings.Repeat("資源", 66) + "資…",
		"Gets: " + strings.Repeat("資源", 100) + " end": "Gets: " + strings.Repeat("資源", 65) + "資…",
	} {
		text, err := json.Marshal(map[string]any{"openapi": "3.0.0", "servers": []any{map[string]any{"url": "https://a.example"}},
			"paths": map[string]any{"/a": map[string]any{"get": map[string]any{"summary": summary}}}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(&Options{Name: "a", Spec: writeDocument(t, string(text)), Client: mockTransport{}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if list := s.Functions(); len(list) != 1 || list[0].Description != want {
			t.Errorf("got %+v, want the description %s", list, want)
		}
	}
}

func TestServers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		servers []string
		want    string
	}{
		{[]string{"https://a.example/x/", "https://b.example"}, "https://a.example/x/a"},
		{[]string{"{scheme}://a.example", "ftp://a.example", "https://b.example"}, "https://b.example/a"},
		{[]string{"http://a.example/x", "https://a.example/x"}, "https://a.example/x/a"},
		{[]string{"http://a.example/x", "https://b.example/x"}, "http://a.example/x/a"},
		{[]string{"/v3"}, "https://docs.example.com/v3/a"},
		{[]string{"../v4"}, "https://docs.example.com/v4/a"},
		{[]string{"https://u:p@a.example", "https://b.example"}, "https://b.example/a"},
		{nil, "https://docs.example.com/a"},
	} {
		op := securedOperation("GET")
		op.servers = test.servers
		var c capture
		s := sourceOf(t, Options{Client: &c}, &document{operations: []operation{op}})
		if _, err := callOf(t, s, "op", `{}`); err != nil || c.last.url != test.want {
			t.Errorf("servers %v: got %s, want %s (%v)", test.servers, c.last.url, test.want, err)
		}
	}
}

// TestWarnings: each kind of omission gives one bounded warning, and WarnOfAll lists all.
func TestWarnings(t *testing.T) {
	t.Parallel()
	doc := &document{operations: []operation{securedOperation("GET")}}
	for i := range 50 {
		doc.skipped = append(doc.skipped, skippedOperation{label: fmt.Sprintf("PUT /x%d", i), reason: "why"})
	}
	doc.warnings = []warning{{function: "op", what: "the pattern is not checked"}, {what: "duplicate keys"}}
	broken := securedOperation("GET")
	broken.path, broken.label = "/{missing}", "GET /{missing}"
	doc.operations = append(doc.operations, broken)
	var warned, verbose []string
	s := sourceOf(t, Options{Client: &capture{}, Warn: func(f *fault.Error) { warned = append(warned, f.Message) }}, doc)
	sourceOf(t, Options{Client: &capture{}, WarnOfAll: true, Warn: func(f *fault.Error) { verbose = append(verbose, f.Message) }}, doc)
	if len(warned) != 2 || warned[0] != "api: operations that are left out (51): PUT /x0: why; and 50 more, which --verbose names" ||
		len(verbose) != 2 || strings.Count(verbose[0], ": why") != 50 || strings.Contains(verbose[0], "more") ||
		!strings.Contains(warned[1], "(2): api.op: the pattern is not checked; and 1 more") ||
		!strings.HasSuffix(verbose[1], "(2): api.op: the pattern is not checked; api: duplicate keys") {
		t.Errorf("got warnings\n%s\nand of all\n%s\nwant two each, of 51 operations, and of a pattern and the document",
			strings.Join(warned, "\n"), strings.Join(verbose, "\n"))
	}
	if skipped := s.current.skipped; len(skipped) != 51 || !strings.HasPrefix(skipped[50], "GET /{missing}: ") || len(s.Changed()) != 2 ||
		len(s.Functions()) != 1 {
		t.Errorf("got %d skipped operations: %v, want 51 and one function", len(skipped), skipped)
	}
}

// TestDocumentOfSeveralFiles: a document may consist of several files, but only in its own folder.
func TestDocumentOfSeveralFiles(t *testing.T) {
	t.Parallel()
	text := strings.Replace(petsDocument(""), `{"type":"integer","minimum":1}`, `{"$ref":"parts/limit.json"}`, 1)
	path := writeDocument(t, text)
	text = strings.Replace(text, `"type":"string"`, `"$ref":"parts/gone.json"`, 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	segments := filepath.Join(filepath.Dir(path), "parts")
	if err := os.Mkdir(segments, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(segments, "limit.json"), []byte(`{"type":"integer","maximum":77}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var reads []string
	s, err := New(&Options{Name: "pets", Spec: path, BaseURL: "http://x", Client: &capture{},
		Reading: func(path string) { reads = append(reads, path) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !slices.ContainsFunc(s.Functions(), func(fn steps.Function) bool { return strings.Contains(string(fn.Input), `"maximum":77`) }) {
		t.Error("the referenced file was not read")
	}
	want := []string{path, filepath.Join(segments, "gone.json"), filepath.Join(segments, "limit.json")}
	if slices.Sort(reads[1:]); !slices.Equal(reads, want) {
		t.Errorf("files read: %q, want %q", reads, want)
	}
	if _, err := s.external()("../outside.json"); err == nil || os.IsNotExist(err) {
		t.Errorf("a file outside the folder: got %v, want it rejected", err)
	}
}

// BenchmarkCall resolves, checks, encodes and makes a call of GitHub's document; the service answers immediately.
func BenchmarkCall(b *testing.B) {
	doc := mustLoad(b, githubDocument(b), &loadOptions{source: "api"})
	sent := 0
	client := doerFunc(func(*http.Request) (*http.Response, error) {
		sent++
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: readerOf(`{"id":1}`)}, nil
	})
	s := sourceOf(b, Options{BaseURL: "https://api.github.com", Client: client,
		Headers: map[string]string{"Authorization": "Bearer a-token-of-some-length"}}, doc)
	registry, err := steps.NewRegistry(s.Functions(), nil)
	if err != nil {
		b.Fatal(err)
	}
	args := []byte(`{"owner":"octo","repo":"hello","title":"A title","body":"Some text","labels":["bug","help wanted"],` +
		`"assignees":["octocat"]}`)
	b.ReportAllocs()
	calls := 0
	for b.Loop() {
		entry, err := registry.Resolve("api.repo.issue.create")
		if err != nil {
			b.Fatal(err)
		}
		if result, err := entry.Call(b.Context(), args); err != nil || string(result) != `{"id":1}` {
			b.Fatalf(`got %s, %v; want {"id":1}`, result, err)
		}
		calls++
	}
	if sent != calls {
		b.Fatalf("%d of %d calls were sent, want all", sent, calls)
	}
}
