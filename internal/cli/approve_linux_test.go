package cli

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestInterruptedQuestion: who interrupts the question has decided nothing. The run waits, and goes on when it is resumed.
func TestInterruptedQuestion(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("needs the script command for a terminal")
	}
	dir := t.TempDir()
	write(t, dir, "onecall.yaml", "approve: write\nfunctions: {expr.eval: {effect: write}}\n")
	write(t, dir, "put.chain.json", quickChain)
	status, shown := atTerminal(t, dir, "run put.chain.json", "\x03")
	if status != "130" || !strings.Contains(shown, "approval_required: step 0: ") || !strings.Contains(shown, "\nApprove them: onecall approve run_") {
		t.Fatalf("status %s: %s", status, shown)
	}
	waiting, err := command(t, dir, "runs", "--json", "--status", "waiting").Output()
	run := gjson.GetBytes(waiting, "runs.0.id").Str
	if err != nil || run == "" {
		t.Fatalf("%s, %v", waiting, err)
	}
	if status, shown := atTerminal(t, dir, "resume --lite "+run, "y\n"); status != "0" || !strings.HasSuffix(shown, "2\r\n") {
		t.Errorf("status %s: %s", status, shown)
	}
}

// atTerminal runs a command at a pseudo terminal, types keys when it asks, and gives its status and what it has shown.
func atTerminal(t *testing.T, dir, args, keys string) (status, shown string) {
	t.Helper()
	own := command(t, dir)
	cmd := exec.CommandContext(t.Context(), "script", "-qec", own.Path+" "+args, filepath.Join(t.TempDir(), "typescript"))
	cmd.Dir, cmd.Env = own.Dir, slices.Concat(own.Env, []string{"NO_COLOR=1"})
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
		t.Fatalf("%s, %v", question, err)
	}
	if _, err := io.WriteString(stdin, keys); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	return exitCodeOf(cmd.Wait()), question + string(rest)
}
