package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/internal/transcript"
)

// layout is a home as a client leaves it on a system: a file of testdata/clients. In addition to the files of the home, it holds the
// expected results, which -update writes.
type layout struct {
	path    string
	archive *txtar.Archive
	machine *machine
	client  *Client
}

// eachLayout runs a test for each layout, in a home of its own.
func eachLayout(t *testing.T, test func(t *testing.T, l *layout)) {
	paths, err := filepath.Glob("../../testdata/clients/*.txtar")
	if err != nil || len(paths) < len(Table) {
		t.Fatalf("%d layouts, want at least one a client: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			test(t, openLayout(t, path))
		})
	}
}

func openLayout(t *testing.T, path string) *layout {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	system, _, _ := strings.Cut(strings.TrimPrefix(string(archive.Comment), "system: "), "\n")
	home := filepath.Join(t.TempDir(), "home")
	l := &layout{path, archive, &machine{system: system, home: home, project: filepath.Join(home, "project"), getenv: noVariable}, nil}
	for _, c := range Table {
		if strings.HasPrefix(filepath.Base(path), c.ID+"-") {
			l.client = c
		}
	}
	for _, file := range archive.Files {
		if name, ok := strings.CutPrefix(file.Name, "home/"); ok {
			seed(t, filepath.Join(home, name), strings.ReplaceAll(string(file.Data), `"HOME/`, `"`+home+`/`))
		}
	}
	return l
}

func noVariable(string) string { return "" }

func seed(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// golden compares a text with a file in the layout. In both, HOME stands for the path of the home.
func (l *layout) golden(t *testing.T, name, got string) {
	t.Helper()
	got = strings.ReplaceAll(got, l.machine.home, "HOME")
	for i, file := range l.archive.Files {
		if file.Name != name {
			continue
		}
		if string(file.Data) == got {
			return
		}
		if !transcript.Updating() {
			t.Errorf("%s: %s is\n%s\nwant\n%s", l.path, name, got, file.Data)
			return
		}
		l.archive.Files = append(l.archive.Files[:i], l.archive.Files[i+1:]...)
		break
	}
	if !transcript.Updating() {
		t.Errorf("%s lacks %s:\n%s", l.path, name, got)
		return
	}
	l.archive.Files = append(l.archive.Files, txtar.File{Name: name, Data: []byte(got)})
	if err := os.WriteFile(l.path, txtar.Format(l.archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestLayoutsAreRead reads each client's files as they are on its system.
func TestLayoutsAreRead(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(t *testing.T, l *layout) {
		im := &Import{project: l.machine.project, out: l.machine.project, lookup: func(string) (string, bool) { return "set-for-the-test", true }}
		for _, file := range l.machine.clientFiles() {
			_ = im.read(file)
		}
		im.assignNames()
		if len(im.problems) > 0 {
			t.Errorf("got problems %q, want none", im.problems)
		}
		text := im.Document()
		if _, faults := parseIn(map[string]string{"A_TOKEN": "x", "DB_PASSWORD": "x", "WEB_TOKEN": "x", "GITHUB_TOKEN": "x"}, "onecall.yaml",
			string(text)); len(faults) > 0 {
			t.Errorf("got faults %v, want none", faults)
		}
		report, _, _ := strings.Cut(string(im.Report(text, "onecall.yaml")), "\nonecall.yaml would be:")
		if i := strings.Index(report, "No MCP servers"); i >= 0 {
			report = report[:i] + "nothing\n"
		}
		l.golden(t, "init/report", report)
		l.golden(t, "init/onecall.yaml", string(text))
	})
}
