//go:build e2e && unix

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// TestRecordingOnFullDisk checks that a server still answers if its recording cannot grow. It logs and counts the failure, and is ready
// again when a line fits. A run answers and then fails. The recording has only whole lines.
func TestRecordingOnFullDisk(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	onFullDisk := func(args ...string) *exec.Cmd {
		plain := clitest.Command(t, folder, args...)
		limited := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `ulimit -f 4; exec "$0" "$@"`, plain.Path}, plain.Args[1:]...)...)
		limited.Dir, limited.Env = plain.Dir, plain.Env
		return limited
	}
	chain := `{"steps":[{"fn":"expr.eval","args":{"expression":"map(1..3000, #)"}},{"fn":"expr.eval","args":{"expression":"1+1"}}],` +
		`"return":"$1","lite":true}`
	clitest.Write(t, folder, "big.chain.json", chain)
	run := onFullDisk("run", "--record", "run.jsonl", "big.chain.json")
	var stderr strings.Builder
	run.Stderr = &stderr
	out, err := run.Output()
	if string(out) != "2\n" || clitest.ExitCode(err) != "1" ||
		!strings.Contains(stderr.String(), "unavailable: run.jsonl does not hold all calls") {
		t.Errorf("run: got stdout %s, %v, stderr %s, want 2, exit status 1 and unavailable", out, err, stderr.String())
	}
	checkRecording(t, filepath.Join(folder, "run.jsonl"), `{"gap":1}`)

	serve := onFullDisk("serve", "--record", "serve.jsonl", "--metrics", "127.0.0.1:0", "--log-format", "json")
	in, _ := serve.StdinPipe()
	answers, _ := serve.StdoutPipe()
	logged, _ := serve.StderrPipe()
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	lines, log := bufio.NewScanner(answers), bufio.NewScanner(logged)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},`+
		`"clientInfo":{"name":"t","version":"1"}}}`)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	bigChain := `{"steps":[{"fn":"expr.eval","args":{"expression":"map(1..3000, #)"}}],"return":"$0[1]","lite":true}`
	fmt.Fprintf(in, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"chain","arguments":%s}}`+"\n", bigChain)
	for lines.Scan() && !strings.Contains(lines.Text(), `"id":2`) { // up to the answer to initialize
	}
	if !strings.Contains(lines.Text(), `"text":"2"`) {
		t.Errorf("the server answered %s, want 2", lines.Text())
	}
	address := ""
	for log.Scan() && !strings.Contains(log.Text(), "the recording cannot be written") {
		if match := metricsURL.FindString(log.Text()); match != "" {
			address = match
		}
	}
	if !strings.Contains(log.Text(), "ERROR") {
		t.Errorf("logged %s, want an ERROR", log.Text())
	}
	if page := get(t, address+"/readyz"); strings.Contains(page, "the recording") { // the line that marks the gap fits
		t.Errorf("/readyz: got %s, want it without the recording", page)
	}
	if page := get(t, address+"/metrics"); !strings.Contains(page, "onecall_recording_lines_lost_total 1") {
		t.Errorf("/metrics lacks the lost line: %s", page)
	}
	// A short line fits again. It is written after the line that marks the gap.
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"chain",`+
		`"arguments":{"steps":[{"fn":"expr.eval","args":{"expression":"1+1"}}]}}}`)
	for lines.Scan() && !strings.Contains(lines.Text(), `"id":3`) { // skip notifications
	}
	in.Close()
	_, _ = io.Copy(io.Discard, answers)
	_, _ = io.Copy(io.Discard, logged)
	if err := serve.Wait(); err != nil {
		t.Errorf("serve: got %v, want exit status 0", err)
	}
	checkRecording(t, filepath.Join(folder, "serve.jsonl"), `{"gap":1}`)
}

var metricsURL = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkRecording checks that a recording has only whole lines, line among them.
func checkRecording(t *testing.T, path, line string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), line+"\n") || !strings.HasSuffix(string(text), "\n") {
		t.Errorf("%s lacks the line %s, or its last line is incomplete: %v\n%.3000s", path, line, err, text)
	}
}
