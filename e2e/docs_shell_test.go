//go:build e2e && unix

package e2e

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

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/porttest"
	"github.com/onecall-mcp/onecall/internal/sqldb/postgrestest"
)

// documentRun runs the commands of a document.
type documentRun struct {
	folder      string
	environment []string          // variables with the addresses of the services that the document calls
	ports       map[string]string // the ports in use, by those in the document; nil if they are the same
	database    string            // the URL of the document's PostgreSQL database; "": none
}

var (
	// inBackground matches a command that leaves a server running.
	inBackground = regexp.MustCompile(`(?m)^\$ .*[^&]& echo \$! > \S+\.pid`)

	// documentPort matches a port in a document, but not the digits of a token or a hash.
	documentPort = regexp.MustCompile(`\b(?:8080|8081|9090|9091|7233)\b`)
)

// newDocumentRun creates a document's folder. At the end of the test it kills what the commands left running.
func newDocumentRun(t *testing.T, text string) *documentRun {
	t.Helper()
	d := &documentRun{folder: filepath.Join(t.TempDir(), "here")}
	d.environment = append(servicesOf(t, text), "INVENTORY_TOKEN="+inventoryToken)
	if !strings.Contains(text, "http.server 8080") { // the document starts its own service
		d.environment = append(d.environment, "INVENTORY_URL="+inventory(t))
	}
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
	for _, name := range []string{"onecall", mailServer} {
		if err := os.Symlink(self, filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	if inBackground.MatchString(text) {
		d.ports = map[string]string{}
		for _, shown := range documentPort.FindAllString(text, -1) {
			if d.ports[shown] == "" {
				d.ports[shown] = porttest.Reserve(t)
			}
		}
	}
	t.Cleanup(func() { d.killLeftovers(t) })
	return d
}

// programs returns the folder that the shell searches first. It has the test binary under the command's name, and that of mailServer.
func (d *documentRun) programs() string { return filepath.Join(filepath.Dir(d.folder), "bin") }

// documentDatabase is the PostgreSQL database in documents.
const documentDatabase = "postgres://onecall:my-own-password@127.0.0.1:5432/onecall"

// withAddresses replaces the ports and the database of the document by those in use.
func (d *documentRun) withAddresses(text string) string {
	if d.database != "" {
		text = strings.ReplaceAll(text, documentDatabase, d.database)
	}
	if d.ports == nil {
		return text
	}
	return documentPort.ReplaceAllStringFunc(text, func(shown string) string { return d.ports[shown] })
}

// withShownPorts replaces the ports in the addresses of an output by those that the document shows.
func (d *documentRun) withShownPorts(output string) string {
	for shown, port := range d.ports {
		output = regexp.MustCompile(":"+port+`\b`).ReplaceAllLiteralString(output, ":"+shown)
	}
	return output
}

// skipUnless skips the rest of a document unless this machine has all of words, a list separated by commas.
func (d *documentRun) skipUnless(t *testing.T, words string) {
	t.Helper()
	for word := range strings.SplitSeq(words, ",") {
		switch word {
		case "":
		case "npm":
			installPackages(t, d.folder)
		case "postgres":
			if d.database == "" {
				d.database = postgrestest.Start(t).Database(t)
			}
		default:
			if _, err := os.Stat(filepath.Join(os.Getenv("ONECALL_TEST_BIN"), word)); err == nil {
				continue
			}
			if _, err := exec.LookPath(word); err != nil {
				t.Skipf("%s is not installed, and the rest of the document needs it", word)
			}
		}
	}
}

// commandTimeout bounds one command.
const commandTimeout = 2 * time.Minute

// run returns what a command prints to stdout, then to stderr, and its exit status if it is not 0. The output goes to files, because
// a server left running would hold a pipe open.
func (d *documentRun) run(t *testing.T, command string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	// Record the processes that are left running, to kill them at the end of the test.
	shell := exec.CommandContext(ctx, "bash", "-c", "trap 'jobs -p >>.jobs' EXIT\n"+d.withAddresses(command))
	shell.Dir = d.folder
	home := filepath.Join(d.folder, ".home")
	shell.Env = append(append(os.Environ(), d.environment...), clitest.AsCommand+"=1", "GORACE="+clitest.NoRaceDelay,
		"HOME="+home, "XDG_CACHE_HOME="+home+"/cache", "XDG_CONFIG_HOME="+home+"/config",
		"PATH="+strings.Join([]string{d.programs(), os.Getenv("ONECALL_TEST_BIN"), os.Getenv("PATH")}, string(os.PathListSeparator)), "DBUS_SESSION_BUS_ADDRESS=")
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
	runErr := shell.Run()
	var output strings.Builder
	for _, file := range outputs {
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		output.Write(text)
	}
	got := strings.TrimRight(d.withShownPorts(output.String()), "\n")
	if status := clitest.ExitCode(runErr); status != "0" {
		got = strings.TrimLeft(got+fmt.Sprintf("\n# exit %s", status), "\n")
	}
	return got
}

// killLeftovers kills the processes that the document's commands left running. A process that does not run in the document's folder is
// another one with the same id.
func (d *documentRun) killLeftovers(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(d.folder, ".jobs"))
	if err != nil {
		return // no command ran
	}
	folder, err := filepath.EvalSymlinks(d.folder)
	if err != nil {
		t.Error(err)
		return
	}
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Errorf("got %q, want the id of a process", word)
			continue
		}
		cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		if err != nil || !strings.HasPrefix(cwd, folder) {
			continue // it has ended
		}
		process, err := os.FindProcess(pid)
		if err == nil {
			err = process.Kill()
		}
		t.Logf("killed process %d, which the document left running: %v", pid, err)
	}
}
