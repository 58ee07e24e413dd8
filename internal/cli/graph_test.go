package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// TestGraphAtTerminal: a picture goes to a file or a pipe, and to a terminal only if its format is named.
func TestGraphAtTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clitest.Write(t, dir, "onecall.yaml", "journal: {store: memory}\n")
	for _, test := range []struct {
		terminal bool
		flags    []string
		exit     int
		says     string
	}{
		{true, nil, 2, "name a file, as in --out chain.svg"}, {false, nil, 0, "<svg"}, {true, []string{"--format", "mermaid"}, 0, "flowchart"},
	} {
		var out bytes.Buffer
		s := &streams{in: strings.NewReader(`{"steps":[{"expr":"6*7"}]}`), out: &out, err: &out, outTerminal: test.terminal}
		root := newRoot(s, nil)
		root.SetArgs(append([]string{"graph", "-", "--config", filepath.Join(dir, "onecall.yaml")}, test.flags...))
		if exit := s.exitStatus(root.ExecuteContext(t.Context())); exit != test.exit || !strings.Contains(out.String(), test.says) {
			t.Errorf("terminal %t, %q: exit status %d, want %d and %q: %s", test.terminal, test.flags, exit, test.exit, test.says, out.String())
		}
	}
}
