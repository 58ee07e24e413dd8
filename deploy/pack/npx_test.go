//go:build e2e

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/internal/syncbuf"
)

// TestNPX installs the packed packages as a user does, from a registry and with an empty home, and runs the program, which is built for
// this machine. The packages of other platforms hold a text instead, so that choosing one of them fails.
func TestNPX(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"node", "npm", "npx"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs " + program)
		}
	}
	if runtime.GOOS == "windows" {
		t.Skip("sends signals")
	}
	user := newNPMUser(t, packRelease(t))

	t.Run("serve", func(t *testing.T) {
		client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
		// The transport fails on anything but JSON-RPC on stdout.
		serve := user.command(t, "npx", "-y", "@onecall-mcp/onecall", "serve")
		var log syncbuf.Buffer
		serve.Stderr = &log
		session, err := client.Connect(t.Context(), &sdk.CommandTransport{Command: serve}, nil)
		if err != nil {
			t.Fatalf("connect: %v\n%s", err, log.String())
		}
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range tools.Tools {
			names = append(names, tool.Name)
		}
		if !slices.Contains(names, "chain") {
			t.Errorf("tools %q, want chain among them", names)
		}
		result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "chain",
			Arguments: map[string]any{"lite": true, "steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "40+2"}}}}})
		if err != nil || result.IsError {
			t.Errorf("call of chain: got %+v, %v, want a result that is no error", result, err)
		}
		if err := session.Close(); err != nil {
			t.Errorf("close of the session: %v", err)
		}
	})

	if out, err := user.command(t, "npm", "install", "@onecall-mcp/onecall").CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v: %s", err, out)
	}
	fetched := user.registry.fetchedTarballs()
	if want := []string{"onecall-mcp-onecall-1.2.3.tgz", "onecall-mcp-onecall-" + nodePlatform() + "-1.2.3.tgz"}; !slices.Equal(fetched,
		want) {
		t.Errorf("npm fetched %q, want %q", fetched, want)
	}
	launcher := filepath.Join(user.folder, "node_modules", ".bin", "onecall")

	t.Run("status", func(t *testing.T) {
		check := user.command(t, launcher, "check", "-")
		check.Stdin = strings.NewReader(`{"steps": [{"fn": "no.such"}]}`)
		if out, _ := check.Output(); check.ProcessState.ExitCode() != 3 || !json.Valid(out) {
			t.Errorf("exit status %d, want 3; stdout is %s, want JSON", check.ProcessState.ExitCode(), out)
		}
	})

	// If Node opens a stream that is a pipe, it makes the pipe non-blocking for the program too, and the program's reads fail.
	t.Run("streams", func(t *testing.T) {
		trap := filepath.Join(user.folder, "trap.js")
		text := "for (const name of ['stdin', 'stdout', 'stderr'])\n" +
			"  Object.defineProperty(process, name, { get() { throw new Error(name + ' is opened'); } });\n"
		if err := os.WriteFile(trap, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := user.command(t, "node", "--require", trap, launcher, "version").CombinedOutput(); err != nil {
			t.Errorf("the launcher uses the streams of the program: %v: %s", err, out)
		}
	})

	t.Run("signal", func(t *testing.T) {
		serve := user.command(t, launcher, "serve", "--http", "127.0.0.1:0")
		log, err := serve.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := serve.Start(); err != nil {
			t.Fatal(err)
		}
		terminated := false // a second signal would end it at once
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if strings.Contains(lines.Text(), "listening on") && !terminated {
				terminated = true
				if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := serve.Wait(); err != nil {
			t.Errorf("serve after SIGTERM: got %v, want exit status 0", err)
		}
	})

	t.Run("without the platform's package", func(t *testing.T) {
		if err := os.RemoveAll(filepath.Join(user.folder, "node_modules", "@onecall-mcp", "onecall-"+nodePlatform())); err != nil {
			t.Fatal(err)
		}
		out, err := user.command(t, launcher, "version").CombinedOutput()
		if exitErr := (*exec.ExitError)(nil); !errors.As(err, &exitErr) ||
			!strings.Contains(string(out), "onecall-"+nodePlatform()+" is not installed") {
			t.Errorf("version: %v, want an error that names the missing package: %s", err, out)
		}
	})
}
