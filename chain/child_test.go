package chain_test

import (
	"os"
	"os/exec"
	"testing"
)

// inChildProcess runs a test alone in a child process with one more environment variable, so that only this test uses memory there.
func inChildProcess(t *testing.T, test, variable string) {
	t.Helper()
	self := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.v")
	self.Env = append(os.Environ(), variable)
	output, err := self.CombinedOutput()
	t.Logf("%s", output)
	if err != nil {
		t.Error(err)
	}
}
