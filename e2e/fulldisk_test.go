//go:build e2e && unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// TestFullDisk checks that if a result cannot be stored, the answer reports that and has a preview, no partial file is left, and calls that
// need no storage still work. The same must hold if the folder of results cannot be created.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, folder string) (limit string){
		"full disk": func(*testing.T, string) string { return "ulimit -f 8; " },
		"no folder": func(t *testing.T, folder string) string {
			clitest.Write(t, folder, "onecall", "a file where the folder should be")
			return ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			limit := prepare(t, folder)
			config := clitest.Write(t, folder, "small.yaml", "budget: {maxTotalTokens: 300}\n")
			run := func(expression string) (gjson.Result, string) {
				plain := clitest.Command(t, folder, "call", "--config", config, "expr.eval", "expression="+expression)
				limited := exec.CommandContext(t.Context(), "sh", append([]string{"-c", limit + `exec "$0" "$@"`, plain.Path}, plain.Args[1:]...)...)
				limited.Dir, limited.Env = plain.Dir, plain.Env
				out, err := limited.Output()
				return gjson.ParseBytes(out), clitest.ExitCode(err)
			}
			answer, code := run("map(1..20000, # * 7919 % 10007)")
			if answer.Get("error.code").Str != "unavailable" || answer.Get("usage.calls").Int() != 1 ||
				answer.Get("result.preview").Str == "" || code != "5" {
				t.Errorf("exit status %s, want 5 and a preview: %s", code, answer.Raw)
			}
			files, err := filepath.Glob(filepath.Join(folder, "onecall", "results", "*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files { // the lock file of the folder is empty
				if info, err := os.Stat(file); err != nil || info.Size() > 0 {
					t.Errorf("the file %s is left: %v, %v", file, info, err)
				}
			}
			if answer, code := run("1+1"); answer.Get("result").Int() != 2 || code != "0" {
				t.Errorf("1+1: exit status %s, want 0: %s", code, answer.Raw)
			}
		})
	}
}
