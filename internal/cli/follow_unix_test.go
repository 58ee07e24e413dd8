//go:build unix

package cli_test

import (
	"bufio"
	"os"
	"regexp"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// TestFollow checks that runs of other processes are shown when they end, until an interrupt, with its exit status.
func TestFollow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clitest.Write(t, dir, "two.chain.json", `{"name":"two\tcells","steps":[{"expr":"1"},{"expr":"$0 + 1"}]}`)
	follow := clitest.Command(t, dir, "runs", "--follow")
	stdout, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := clitest.Command(t, dir, "run", "two.chain.json").Run(); err != nil {
		t.Fatal(err)
	}
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	run := regexp.MustCompile(`^run_\w+ +two cells +ok .*\n$`)
	for i, want := range []*regexp.Regexp{regexp.MustCompile(`^RUN +CHAIN +STATUS `), run, run} {
		if i == 2 {
			if err := clitest.Command(t, dir, "run", "two.chain.json").Run(); err != nil {
				t.Fatal(err)
			}
		}
		if line, err := lines.ReadString('\n'); err != nil || !want.MatchString(line) {
			t.Fatalf("line %d is %q, %v; want %s", i, line, err, want)
		}
	}
	if err := follow.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := clitest.ExitCode(follow.Wait()); got != "130" {
		t.Errorf("exit status %s, want 130", got)
	}
}
