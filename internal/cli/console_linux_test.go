package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// TestConsoleLinkIsPrivate: the command line of the browser, which all users see, has a file that only its owner reads, and no link.
func TestConsoleLinkIsPrivate(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	browser := filepath.Join(folder, "xdg-open")
	if err := os.WriteFile(browser, []byte("#!/bin/sh\necho \"$*\" > part && mv part opened\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := clitest.Command(t, folder, "console")
	cmd.Env = append(cmd.Env, "DISPLAY=:0", "SSH_CONNECTION=", "SSH_TTY=", "PATH="+folder+":"+os.Getenv("PATH"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var opened []byte
	polltest.Until(t, "the browser is started", func() bool {
		opened, _ = os.ReadFile(filepath.Join(folder, "opened"))
		return len(opened) > 0
	})
	path, isFile := strings.CutPrefix(strings.TrimSpace(string(opened)), "file://")
	if !isFile {
		t.Errorf("the browser opens %s, want a file", opened)
	}
	text, err := os.ReadFile(path)
	info, _ := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file that leads there: %v, %v, want mode 0600", info, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if link := consoleAddress.FindString(stderr.String()); link == "" || !strings.Contains(string(text), link) {
		t.Errorf("the file is %q, want one that leads to %q", text, link)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("at the end the file is still there: %v", err)
	}
}
