package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/internal/redisconn/redistest"
)

// shownDocument is a document while its commands run.
type shownDocument struct {
	folder      string
	environment []string          // with the addresses of the services that it calls
	ports       map[string]string // that are used, by those that it shows; nil: these are used
}

var (
	// inBackground is how a document's command leaves a server running.
	inBackground = regexp.MustCompile(`(?m)^\$ .*[^&]& echo \$! > \S+\.pid`)

	// shownPort is a port in a document, and none in the digits of a token or a hash.
	shownPort = regexp.MustCompile(`\b(?:8080|8081|9090|9091|6379)\b`)
)

// newShownDocument makes a document's folder, and ends with the test what its commands have left running.
func newShownDocument(t *testing.T, text string) *shownDocument {
	t.Helper()
	d := &shownDocument{folder: filepath.Join(t.TempDir(), "here")}
	d.environment = append(servicesOf(t, text), "INVENTORY_URL="+inventory(t), "INVENTORY_TOKEN="+inventoryToken)
	if err := os.Mkdir(d.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := d.programs()
	if err := os.Mkdir(programs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(programs, "onecall")); err != nil {
		t.Fatal(err)
	}
	if inBackground.MatchString(text) {
		d.ports = map[string]string{}
		for _, shown := range shownPort.FindAllString(text, -1) {
			if d.ports[shown] == "" {
				d.ports[shown] = redistest.FreePort(t)
			}
		}
	}
	t.Cleanup(func() { d.endAll(t) })
	return d
}

// programs is the folder that the shell looks into first: the test binary under the command's name.
func (d *shownDocument) programs() string { return filepath.Join(filepath.Dir(d.folder), "bin") }

// withPorts is a text of the document with the ports that are used.
func (d *shownDocument) withPorts(text string) string {
	if d.ports == nil {
		return text
	}
	return shownPort.ReplaceAllStringFunc(text, func(shown string) string { return d.ports[shown] })
}

// asShown is an output with the ports that the document shows, in addresses.
func (d *shownDocument) asShown(output string) string {
	for shown, port := range d.ports {
		output = regexp.MustCompile(":"+port+`\b`).ReplaceAllLiteralString(output, ":"+shown)
	}
	return output
}

// needs skips the rest of a document that shows what this machine lacks. words are separated by commas.
func (d *shownDocument) needs(t *testing.T, words string) {
	t.Helper()
	for word := range strings.SplitSeq(words, ",") {
		switch word {
		case "":
		case "npm":
			linkPackages(t, d.folder)
		default:
			if _, err := exec.LookPath(word); err != nil {
				t.Skipf("%s is not installed, and the rest of the document needs it", word)
			}
		}
	}
}

// longest bounds one command: what waits for a server waits no longer.
const longest = 2 * time.Minute

// run gives what a command prints on stdout, then on stderr, and its exit status where that is not 0. Output goes to files:
// a server that is left running with the shell's own would hold a pipe open.
func (d *shownDocument) run(t *testing.T, command string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	// What is left running is noted down, to be ended with the test.
	shell := exec.CommandContext(ctx, "bash", "-c", "trap 'jobs -p >>.jobs' EXIT\n"+d.withPorts(command))
	shell.Dir = d.folder
	home := filepath.Join(d.folder, ".home")
	shell.Env = append(append(os.Environ(), d.environment...), asCommand+"=1", "GORACE="+noRaceDelay,
		"HOME="+home, "XDG_CACHE_HOME="+home+"/cache", "XDG_CONFIG_HOME="+home+"/config",
		"PATH="+d.programs()+string(os.PathListSeparator)+os.Getenv("PATH"), "DBUS_SESSION_BUS_ADDRESS=")
	outputs := [2]*os.File{}
	for i := range outputs {
		file, err := os.CreateTemp(t.TempDir(), "output")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		outputs[i] = file
	}
	shell.Stdout, shell.Stderr = outputs[0], outputs[1]
	ended := shell.Run()
	var both strings.Builder
	for _, file := range outputs {
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		both.Write(text)
	}
	got := strings.TrimRight(d.asShown(both.String()), "\n")
	if status := exitCodeOf(ended); status != "0" {
		got = strings.TrimLeft(got+fmt.Sprintf("\n# exit %s", status), "\n")
	}
	return got
}

// endAll ends what the document's commands have left running. A number may be another process's by now: ours are in the
// document's folder.
func (d *shownDocument) endAll(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(d.folder, ".jobs"))
	if err != nil {
		return // no command was run
	}
	own, err := filepath.EvalSymlinks(d.folder)
	if err != nil {
		t.Error(err)
		return
	}
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Errorf("no process: %q", word)
			continue
		}
		at, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		if err != nil || !strings.HasPrefix(at, own) {
			continue // it has ended
		}
		process, err := os.FindProcess(pid)
		if err == nil {
			err = process.Kill()
		}
		t.Logf("the document has left process %d running: %v", pid, err)
	}
}
