//go:build e2e && unix

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

const (
	quickChain = `{"steps":[{"fn":"expr.eval","args":{"expression":"1 + 1"}}]}`
	// slowChain does not end by itself within a test.
	slowChain = `{"steps":[{"fn":"expr.eval","args":{"expression":"1"},"repeat":{"until":"false","max":1000,"delayMs":3600000}}],` +
		`"budget":{"maxDurationMs":300000}}`
)

func TestInterruptedBatch(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			clitest.Write(t, dir, "f.jsonl", quickChain+"\n"+slowChain+"\n"+strings.Repeat(quickChain+"\n", 100))
			cmd := clitest.Command(t, dir, "run", "f.jsonl", "--jobs", "2")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(stdout)
			first, err := lines.ReadString('\n')
			if err != nil || !strings.HasPrefix(first, `{"chain":"f.jsonl:1","ok":true,"result":2,`) {
				t.Fatalf("first line %q, %v, want the answer of the first chain", first, err)
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(lines)
			if err != nil {
				t.Fatal(err)
			}
			if got := clitest.ExitCode(cmd.Wait()); got != "130" {
				t.Errorf("exit status %s, want 130; stderr: %s", got, &stderr)
			}
			if !bytes.HasPrefix(rest, []byte(`{"chain":"f.jsonl:2","ok":false,"error":{"code":"cancelled"`)) {
				t.Errorf("the interrupted chain: %.200s, want cancelled", rest)
			}
			if !bytes.HasSuffix(rest, []byte("\n")) {
				t.Errorf("the last line is incomplete: %q", rest)
			}
			for line := range strings.Lines(string(rest)) {
				if !json.Valid([]byte(line)) {
					t.Errorf("the line %q is not JSON", line)
				}
			}
		})
	}
}

func TestInterruptedOutFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := clitest.Write(t, dir, "out.jsonl", "before\n")
	// The first record of the slow chain shows that it runs.
	clitest.Write(t, dir, "f.jsonl", quickChain+"\n"+slowChain+"\n")
	cmd := clitest.Command(t, dir, "run", "f.jsonl", "--out", "out.jsonl", "--record", "calls.jsonl")
	var stderr logTail
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the calls are recorded", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "calls.jsonl"))
		return bytes.Count(text, []byte(`"fn":`)) == 2
	}, &stderr)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := clitest.ExitCode(cmd.Wait()); got != "130" {
		t.Errorf("exit status %s, want 130", got)
	}
	if text, err := os.ReadFile(out); string(text) != "before\n" || err != nil {
		t.Errorf("the output file has %q, %v, want before, unchanged", text, err)
	}
	answers, err := os.ReadFile(out + ".partial")
	if err != nil || !bytes.HasPrefix(answers, []byte(`{"chain":"f.jsonl:1","ok":true`)) || !bytes.HasSuffix(answers, []byte("\n")) {
		t.Errorf("the partial file has %q, %v, want the answer of the first chain", answers, err)
	}
	if !strings.Contains(stderr.String(), "out.jsonl.partial") {
		t.Errorf("stderr does not name the partial file: %s", &stderr)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".tmp") {
			t.Errorf("a temporary file is left: %s", entry.Name())
		}
	}
}

func TestInterruptedWhileReading(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// Opening the pipe for writing blocks until the command opens it for reading.
	fifo := filepath.Join(dir, "pipe.json")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip("needs named pipes: ", err)
	}
	cmd := clitest.Command(t, dir, "run", "pipe.json", "--out", "out.json")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := clitest.ExitCode(cmd.Wait()); got != "130" {
		t.Errorf("exit status %s, want 130", got)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*out.json*")); len(files) > 0 || err != nil {
		t.Errorf("a partial output is left: %v, %v", files, err)
	}
	if files, err := filepath.Glob(filepath.Join(dir, ".out.json*")); len(files) > 0 || err != nil {
		t.Errorf("a temporary file is left: %v, %v", files, err)
	}
}
