package cli_test

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// TestInterruptedQuestion checks that interrupting the question decides nothing. The run waits, and a resume continues it.
func TestInterruptedQuestion(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("needs the script command for a terminal")
	}
	dir := t.TempDir()
	clitest.Write(t, dir, "onecall.yaml", "approve: write\nfunctions: {expr.eval: {effect: write}}\n")
	clitest.Write(t, dir, "put.chain.json", `{"steps":[{"fn":"expr.eval","args":{"expression":"1 + 1"}}]}`)
	status, shown := atTerminal(t, dir, "run put.chain.json", "\x03")
	if status != "130" || !strings.Contains(shown, "approval_required: step 0: ") ||
		!strings.Contains(shown, "\nApprove them: onecall approve run_") {
		t.Fatalf("interrupted question: exit status %s, want 130: %s", status, shown)
	}
	waiting, err := clitest.Command(t, dir, "runs", "--json", "--status", "waiting").Output()
	run := gjson.GetBytes(waiting, "runs.0.id").Str
	if err != nil || run == "" {
		t.Fatalf("got waiting runs %s, %v, want one with an id", waiting, err)
	}
	if status, shown := atTerminal(t, dir, "resume --lite "+run, "y\n"); status != "0" || !strings.HasSuffix(shown, "2\r\n") {
		t.Errorf("resume: exit status %s, want 0: %s", status, shown)
	}
}

// atTerminal runs a command at a pseudo terminal and types keys when it asks. It returns the exit status and the output.
func atTerminal(t *testing.T, dir, args, keys string) (status, shown string) {
	t.Helper()
	self := clitest.Command(t, dir)
	cmd := exec.CommandContext(t.Context(), "script", "-qec", self.Path+" "+args, filepath.Join(t.TempDir(), "typescript"))
	cmd.Dir, cmd.Env = self.Dir, slices.Concat(self.Env, []string{"NO_COLOR=1"})
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	question, err := out.ReadString('?')
	if err != nil {
		t.Fatalf("got %q, %v, want a question", question, err)
	}
	if _, err := io.WriteString(stdin, keys); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	return clitest.ExitCode(cmd.Wait()), question + string(rest)
}
