package cli_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// TestChains runs the saved chains on the repository's own files. Each answers from real files, within its budget.
func TestChains(t *testing.T) {
	t.Parallel()
	checks := map[string]func(result gjson.Result) bool{
		"definitions": func(r gjson.Result) bool {
			return r.Get("definitions").Int() > 5 && r.Get("first.#").Int() == 3 && strings.Contains(r.Get("first.0.text").Str, "func New")
		},
		"largest-files": func(r gjson.Result) bool {
			return r.Get("files").Int() > 50 && r.Get("largest.#").Int() == 5 && r.Get("largest.0.bytes").Int() >= r.Get("largest.4.bytes").Int() &&
				r.Get("bytes").Int() > r.Get("largest.0.bytes").Int()
		},
		"todo-report": func(r gjson.Result) bool {
			return r.Get("marks").Int() >= r.Get("files").Int() && r.Get("worst.0.path").Exists()
		},
		"untested": func(r gjson.Result) bool {
			return r.Get("codeFiles").Int() > 50 && r.Get("untested").IsArray() && !strings.Contains(r.Get("untested").Raw, `"internal/cli"`)
		},
	}
	paths, err := filepath.Glob("../../testdata/chains/*.json")
	if err != nil || len(paths) != len(checks) {
		t.Fatalf("%d chains, want one for each of %d checks: %v", len(paths), len(checks), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".chain.json")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := clitest.Command(t, t.TempDir(), "run", "testdata/chains/"+name+".chain.json")
			cmd.Dir = "../.."
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			answer, err := cmd.Output()
			if err != nil || stderr.Len() > 0 {
				t.Fatalf("got %v, stderr %q, answer %s, want neither error nor stderr", err, &stderr, answer)
			}
			if result := gjson.GetBytes(answer, "result"); checks[name] == nil || !checks[name](result) {
				t.Errorf("wrong result, or no check for the chain: %s", result.Raw)
			}
			if used, limit := gjson.GetBytes(answer, "usage.tokens").Int(), gjson.GetBytes(answer, "usage.limit").Int(); used > limit || limit == 0 {
				t.Errorf("%d tokens used, want at most %d, and a limit", used, limit)
			}
		})
	}
}
