package openapi

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// callAll calls each of the first operations of a document once, and checks the requests. It returns how many were called, and for how many
// no arguments could be generated.
func callAll(t *testing.T, text []byte, maximum int) (called, withoutArgs int) {
	t.Helper()
	d := mustLoad(t, text, &loadOptions{source: "api"})
	for i := range d.operations[:min(len(d.operations), maximum)] {
		op := &d.operations[i]
		var c capture
		doc := &document{operations: d.operations[i : i+1], schemes: d.schemes}
		s := sourceOf(t, Options{Client: &c, BaseURL: "http://api.example.com/v1"}, doc)
		if len(s.Functions()) != 1 {
			t.Errorf("%s was left out: %v", op.label, s.current.skipped)
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
			withoutArgs++
			continue
		}
		called++
		if _, err := entry.Call(t.Context(), args); err != nil {
			t.Errorf("%s with %s: %v", op.label, args, err)
			continue
		}
		if err := checkSent(op, "http://api.example.com/v1", args, c.last); err != nil {
			t.Errorf("%s with %s: %v", op.label, args, err)
		}
	}
	return called, withoutArgs
}

// TestEveryGitHubOperation calls every operation of GitHub's document.
func TestEveryGitHubOperation(t *testing.T) {
	t.Parallel()
	called, withoutArgs := callAll(t, githubDocument(t), 2000)
	t.Logf("%d operations called; no valid arguments were generated for %d", called, withoutArgs)
	if called < 1200 {
		t.Errorf("%d operations were called, want at least 1200; %d were not", called, withoutArgs)
	}
}

// TestDrawnOperations calls up to 50 operations of each of the hundred drawn documents.
func TestDrawnOperations(t *testing.T) {
	t.Parallel()
	called, withoutArgs := 0, 0
	for _, file := range drawnDocuments(t, 100) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := filepath.Rel(npmFolder(t), file)
		t.Run(name, func(t *testing.T) {
			c, u := callAll(t, text, 50)
			called, withoutArgs = called+c, withoutArgs+u
		})
	}
	t.Logf("%d operations called; no valid arguments were generated for %d", called, withoutArgs)
	if called < 1400 {
		t.Errorf("%d operations were called, want at least 1400; %d were not", called, withoutArgs)
	}
}
