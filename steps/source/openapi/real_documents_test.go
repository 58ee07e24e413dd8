package openapi

import (
	"encoding/json"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"golang.org/x/net/http/httpguts"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// described counts a document's operations without the code of load.
func described(text []byte) int {
	count := 0
	gjson.GetBytes(text, "paths").ForEach(func(path, item gjson.Result) bool {
		item.ForEach(func(method, _ gjson.Result) bool {
			if slices.Contains(methods, method.Str) {
				count++
			}
			return true
		})
		return true
	})
	return count
}

// checkOperation finds operations that cannot be called: two arguments with the same target or an argument without one, or a schema that
// lacks an argument.
func checkOperation(tb testing.TB, o *operation) {
	tb.Helper()
	var schema struct {
		Type                 string
		Properties           map[string]json.RawMessage
		Required             []string
		AdditionalProperties *bool
	}
	if err := json.Unmarshal(o.input, &schema); err != nil || schema.Type != "object" || schema.AdditionalProperties == nil ||
		*schema.AdditionalProperties {
		tb.Fatalf("%s: the input schema is not a closed object: %.200s: %v", o.label, o.input, err)
	}
	args := map[string]bool{}
	claim := func(arg string) {
		if args[arg] || schema.Properties[arg] == nil {
			tb.Fatalf("%s: the argument %q is repeated, or missing in %.200s", o.label, arg, o.input)
		}
		args[arg] = true
	}
	for _, p := range o.parameters {
		claim(p.arg)
		if p.in == "header" && (connectionHeaders[http.CanonicalHeaderKey(p.name)] || !httpguts.ValidHeaderFieldName(p.name)) {
			tb.Fatalf("%s: the header %s is an argument, but calls reject it", o.label, p.name)
		}
		if p.style == "" || p.in == "path" && !strings.Contains(o.path, p.name) {
			tb.Fatalf("%s: invalid parameter %+v", o.label, p)
		}
	}
	if o.body != nil {
		for _, m := range o.body.members {
			claim(m.arg)
		}
		if o.body.arg != "" {
			claim(o.body.arg)
		}
	}
	if len(args) != len(schema.Properties) {
		tb.Fatalf("%s: got %d arguments, want %d as the properties", o.label, len(args), len(schema.Properties))
	}
	for _, name := range schema.Required {
		if !args[name] {
			tb.Fatalf("%s: %q is required, but no argument", o.label, name)
		}
	}
	if len(o.servers) == 0 || o.name == "" || o.description == "" {
		tb.Fatalf("%s lacks a server, a name or a description: %+v", o.label, o)
	}
	if reference := outsideReference(o.input); reference != "" {
		tb.Fatalf("%s: the reference %s points outside its schema", o.label, reference)
	}
	if reference := outsideReference(o.output); reference != "" {
		tb.Fatalf("%s: the reference %s points outside the result's schema", o.label, reference)
	}
}

// checkDocument loads a document and checks its operations. It returns how many there are, and how many have schemas that are not checked
// as written.
func checkDocument(t *testing.T, text []byte) (operations, noted int) {
	t.Helper()
	d, err := load(text, &loadOptions{source: "api"})
	if err != nil {
		if f, _ := fault.As(err); f != nil {
			t.Logf("cause: %v", f.Err)
		}
		t.Fatal(err)
	}
	for i := range d.operations {
		checkOperation(t, &d.operations[i])
	}
	for _, s := range d.skipped {
		t.Logf("skipped %s: %s", s.label, s.reason)
	}
	if got, want := len(d.operations)+len(d.skipped), described(text); got < want {
		t.Errorf("%d operations, want at least the %d that are described", got, want)
	}
	if register(t, d).Len() != len(d.operations) {
		t.Error("an operation was not registered as a function")
	}
	return len(d.operations), len(d.warnings)
}

func TestGitHub(t *testing.T) {
	t.Parallel()
	text := githubDocument(t)
	if operations, _ := checkDocument(t, text); operations != 1223 {
		t.Errorf("got %d operations, want 1,223", operations)
	}
	d := mustLoad(t, text, &loadOptions{source: "github"})
	want := map[string]string{"repo.get": "GET /repos/{owner}/{repo}", "repo.issue.create": "POST /repos/{owner}/{repo}/issues",
		"user.get":                "GET /user",
		"repo.pull.merge":         "PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge",
		"repo.issue.comment.list": "GET /repos/{owner}/{repo}/issues/comments",
		"repo.check_run.create":   "POST /repos/{owner}/{repo}/check-runs", "gist.starred": "GET /gists/starred",
		"org.repo.list": "GET /orgs/{org}/repos"}
	for _, o := range d.operations {
		if where, ok := want[o.name]; ok && where == o.label {
			delete(want, o.name)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing operations: %v", want)
	}
}

func TestKubernetes(t *testing.T) {
	t.Parallel()
	if operations, warnings := checkDocument(t, kubernetesDocument(t)); operations != 1123 || warnings != 0 {
		t.Errorf("got %d operations with %d warnings, want 1,123 and none", operations, warnings)
	}
}

// All of a hundred real documents load, and at least 98 % of their operations become functions. If the library can read a document, it
// finds the same number of operations.
func TestDrawnDocuments(t *testing.T) {
	t.Parallel()
	withoutRace(t)
	all, functions := 0, 0
	for _, file := range drawnDocuments(t, 100) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		operations, _ := checkDocument(t, text)
		functions += operations
		all += described(text)
		if library, ok := libraryCount(text); ok && library != operations {
			t.Errorf("%s: got %d operations, want %d as the library finds", file, operations, library)
		}
	}
	t.Logf("%d of %d operations became functions", functions, all)
	if functions*100 < all*98 || all == 0 {
		t.Errorf("%d of %d operations became functions, want at least 98 %%", functions, all)
	}
}

// BenchmarkLoadGitHub loads 13 MB into a registry that is ready for calls; the baseline is reading the document with the library.
func BenchmarkLoadGitHub(b *testing.B) {
	text := githubDocument(b)
	b.Run("onecall", func(b *testing.B) { benchmarkReady(b, text, 1223) })
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if n, _ := libraryCount(text); n != 1223 {
				b.Fatalf("got %d operations, want 1223", n)
			}
		}
	})
}

func BenchmarkLoadKubernetes(b *testing.B) {
	benchmarkReady(b, kubernetesDocument(b), 1123)
}

func benchmarkReady(b *testing.B, text []byte, operations int) {
	b.ReportAllocs()
	var retained *steps.Registry
	for b.Loop() {
		d := mustLoad(b, text, nil)
		if len(d.operations) != operations {
			b.Fatalf("got %d operations, want %d", len(d.operations), operations)
		}
		retained = register(b, d)
	}
	b.StopTimer()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	b.ReportMetric(float64(memory.HeapAlloc)/(1<<20), "MB-kept")
	b.ReportMetric(float64(memory.Sys)/(1<<20), "MB-peak")
	runtime.KeepAlive(retained)
}

func BenchmarkLoadDrawn(b *testing.B) {
	var texts [][]byte
	for _, file := range drawnDocuments(b, 100) {
		text, err := os.ReadFile(file)
		if err != nil {
			b.Fatal(err)
		}
		texts = append(texts, text)
	}
	for b.Loop() {
		operations := 0
		for _, text := range texts {
			d := mustLoad(b, text, nil)
			operations += register(b, d).Len()
		}
		if operations < 1000 {
			b.Fatalf("got %d operations, want at least 1000", operations)
		}
		b.ReportMetric(float64(operations), "operations")
	}
}
