package openapi

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// callAll calls each of the first operations of a document once against the mock service. It gives how many were called, and how many
// were not, since no arguments could be made up for them.
func callAll(t *testing.T, text []byte, maximum int) (called, unfit int) {
	t.Helper()
	d := mustLoad(t, text, &loadOptions{source: "api"})
	for i := range d.operations[:min(len(d.operations), maximum)] {
		op := &d.operations[i]
		service := newMock(t, "/v1", d.operations[i:i+1])
		doc := &document{operations: d.operations[i : i+1], schemes: d.schemes}
		s := sourceOf(t, Options{Client: mockTransport{service}, BaseURL: "http://api.example.com/v1"}, doc)
		if len(s.Functions()) != 1 {
			t.Errorf("%s is left out: %v", op.label, s.current.skipped)
			continue
		}
		registry, err := steps.NewRegistry(s.Functions(), nil)
		if err != nil {
			t.Fatal(err)
		}
		entry := registry.All()[0]
		var args []byte
		for _, full := range []bool{true, false} {
			if args, err = json.Marshal(viewOf(op.input).sample(0, full)); err != nil {
				t.Fatal(err)
			}
			if len(entry.Check(args, nil)) == 0 {
				break
			}
		}
		if len(entry.Check(args, nil)) > 0 {
			unfit++
			continue
		}
		if ambiguous(op) {
			continue
		}
		called++
		result, err := entry.Call(t.Context(), args)
		if err != nil {
			t.Errorf("%s with %s: %v", op.label, args, err)
			continue
		}
		got := exact(result).(map[string]any)
		if got["operation"] != op.label || !same(exact(args), got["arguments"]) {
			t.Errorf("%s\nsent       %s\nunderstood %s", op.label, args, result)
		}
	}
	return called, unfit
}

// ambiguous reports whether a member of an object that a query takes apart has the name of another parameter: no service
// can tell them apart.
func ambiguous(op *operation) bool {
	names := map[string]bool{}
	for i := range op.parameters {
		p := &op.parameters[i]
		members := []string{p.name}
		if of := viewOf(op.input).property(p.arg); p.in == "query" && p.style == "form" && p.explode && p.mediaType == "" && of.is("object") {
			for _, b := range of.branches(0) {
				properties, _ := b["properties"].(map[string]any)
				members = slices.AppendSeq(members, maps.Keys(properties))
			}
		}
		for _, name := range members {
			if p.in == "query" && names[name] {
				return true
			}
			names[name] = p.in == "query" || names[name]
		}
	}
	return false
}

// TestEveryGitHubOperation calls every operation of GitHub's document.
func TestEveryGitHubOperation(t *testing.T) {
	t.Parallel()
	called, unfit := callAll(t, githubDocument(t), 2000)
	t.Logf("%d operations called; no arguments were made up for %d", called, unfit)
	if called < 1200 {
		t.Errorf("%d operations called, %d not", called, unfit)
	}
}

// TestDrawnOperations calls up to 50 operations of each of the hundred drawn documents.
func TestDrawnOperations(t *testing.T) {
	t.Parallel()
	called, unfit := 0, 0
	for _, file := range drawn(t, 100) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := filepath.Rel(npmFolder(t), file)
		t.Run(name, func(t *testing.T) {
			c, u := callAll(t, text, 50)
			called, unfit = called+c, unfit+u
		})
	}
	t.Logf("%d operations called; no arguments were made up for %d", called, unfit)
	if called < 1400 {
		t.Errorf("%d operations called, %d not", called, unfit)
	}
}
