package cli_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// shapeFolder is a folder with a configuration whose function http.items declares no result schema.
type shapeFolder struct {
	*testing.T
	dir, url string
}

func newShapeFolder(t *testing.T) *shapeFolder {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"items":[{"id":7,"title":"planted"}],"prices":{"1151293680":9.5},"next":null}`)
	}))
	t.Cleanup(server.Close)
	f := &shapeFolder{t, t.TempDir(), server.URL}
	f.configure(server.URL+"/items", "")
	return f
}

func (f *shapeFolder) configure(url, more string) {
	f.Helper()
	clitest.Write(f.T, f.dir, "onecall.yaml", "http: {endpoints: {items: {url: '"+url+"'}}}\n"+more)
}

// run returns what a command prints on stdout and on stderr.
func (f *shapeFolder) run(args ...string) (stdout, stderr string) {
	f.Helper()
	cmd := clitest.Command(f.T, f.dir, args...)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	if failed := cmd.Run(); failed != nil {
		f.Logf("%v: %v", args, failed)
	}
	return out.String(), err.String()
}

func (f *shapeFolder) file() string {
	return filepath.Join(f.dir, ".local", "state", "onecall", "shapes.json")
}

const itemsSeen = "http.items() seen: {items: {id: integer, title: string}[], prices: {[key]: number}, next: any}"

// TestShapesAreRemembered checks that five commands learn the shape of a result, later ones show it, and no value is stored.
func TestShapesAreRemembered(t *testing.T) {
	t.Parallel()
	f := newShapeFolder(t)
	for range 5 {
		if shown, _ := f.run("tools", "http.items"); strings.Contains(shown, "seen") {
			t.Fatalf("a shape is shown before five calls: %s", shown)
		}
		f.run("call", "http.items")
	}
	if shown, _ := f.run("tools", "http.items"); !strings.Contains(shown, itemsSeen+"\n") {
		t.Errorf("no shape after five calls: %s", shown)
	}
	text, err := os.ReadFile(f.file())
	if err != nil || strings.Contains(string(text), "planted") || strings.Contains(string(text), "1151293680") {
		t.Errorf("the file is missing or has a value of the result: %v: %s", err, text)
	}
	chain := clitest.Write(t, f.dir, "a.chain.json", `{"steps":[{"fn":"http.items"}],"return":"$0.itmes"}`)
	if answer, stderr := f.run("check", chain); !strings.Contains(stderr, `did you mean "items"?`) || !strings.Contains(answer, `"ok":true`) {
		t.Errorf("check: got %s%s, want ok and a warning that suggests items", answer, stderr)
	}
	f.configure(f.url+"/other", "")
	if shown, _ := f.run("tools", "http.items"); strings.Contains(shown, "seen") {
		t.Errorf("the shape is shown for another URL: %s", shown)
	}
	f.configure(f.url+"/items", "functions: {http.items: {rename: http.things}}")
	if shown, _ := f.run("tools", "http.things"); !strings.Contains(shown, "seen: {items") {
		t.Errorf("the renamed function has no shape: %s", shown)
	}
}

// TestShapesOff checks that nothing is learned or shown if the configuration turns shapes off, nor in a replay.
func TestShapesOff(t *testing.T) {
	t.Parallel()
	f := newShapeFolder(t)
	f.configure(f.url+"/items", "shapes: off")
	for range 6 {
		f.run("call", "http.items")
	}
	if _, err := os.Stat(f.file()); err == nil {
		t.Error("the file of shapes exists although shapes are off")
	}
	f.configure(f.url+"/items", "")
	chain := clitest.Write(t, f.dir, "a.chain.json", `{"steps":[{"fn":"http.items"}],"return":"$0.items"}`)
	for range 6 {
		f.run("run", chain, "--record", "calls.jsonl")
	}
	f.configure(f.url+"/items", "shapes: off")
	if shown, _ := f.run("tools", "http.items"); strings.Contains(shown, "seen") {
		t.Errorf("a shape is shown although shapes are off: %s", shown)
	}
	f.configure(f.url+"/items", "shapes: maybe")
	if _, stderr := f.run("tools"); !strings.Contains(stderr, `unknown value "maybe": use on or off`) {
		t.Errorf("the message about the unknown value is %q, want it to suggest on or off", stderr)
	}
}
