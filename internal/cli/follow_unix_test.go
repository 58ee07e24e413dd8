//go:build unix

package cli

import (
	"bufio"
	"os"
	"regexp"
	"testing"
)

// TestFollow: runs that another process makes are written as they end, and an interrupt ends that with its status.
func TestFollow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "two.chain.json", `{"name":"two","steps":[{"expr":"1"},{"expr":"$0 + 1"}]}`)
	follow := command(t, dir, "runs", "--follow")
	stdout, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command(t, dir, "run", "two.chain.json").Run(); err != nil {
		t.Fatal(err)
	}
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	run := regexp.MustCompile(`^run_\w+ +ok .* two\n$`)
	for i, want := range []*regexp.Regexp{regexp.MustCompile(`^RUN +STATUS `), run, run} {
		if i == 2 {
			if err := command(t, dir, "run", "two.chain.json").Run(); err != nil {
				t.Fatal(err)
			}
		}
		if line, err := lines.ReadString('\n'); err != nil || !want.MatchString(line) {
			t.Fatalf("line %d is %q, %v", i, line, err)
		}
	}
	if err := follow.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := exitCodeOf(follow.Wait()); got != "130" {
		t.Errorf("exit status %s, want 130", got)
	}
}
