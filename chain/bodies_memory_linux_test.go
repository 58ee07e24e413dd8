//go:build e2e && !race

package chain_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/source/files"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
)

// bodiesOf is the environment variable that tells a child process what to read.
const bodiesOf = "ONECALL_TEST_BODIES"

// bodyBytes is the size of each of the bodies that a chain reads at once.
const bodyBytes = 60 << 20

// TestMemoryOfBodies: bodies and files that a chain reads at once count while they are read, so that it is refused before the process has
// grown by all of them. Each kind is measured in its own process.
func TestMemoryOfBodies(t *testing.T) {
	if kind := os.Getenv(bodiesOf); kind != "" {
		bodies(t, kind)
		return
	}
	t.Parallel()
	for _, kind := range []string{"announced", "growing", "text", "file", "written"} {
		t.Run(kind, func(t *testing.T) { inChildProcess(t, "TestMemoryOfBodies", bodiesOf+"="+kind) })
	}
}

func bodies(t *testing.T, kind string) {
	debug.SetGCPercent(10) // garbage should not be measured
	root := t.TempDir()
	must(t, os.WriteFile(filepath.Join(root, "f"), nil, 0o600))
	must(t, os.Truncate(filepath.Join(root, "f"), bodyBytes))
	open, err := files.New(&files.Options{Root: root, Write: []string{"."}})
	must(t, err)
	defer open.Close()
	web, err := httpsource.New(&httpsource.Options{Allow: []string{"bodies.test"}, MaxBodyBytes: 64 << 20, Transport: endless(kind)})
	must(t, err)
	defer web.Close()
	e := engineOf(t, append(open.Functions(), web.Functions()...), chain.Options{}, false)
	if kind == "written" {
		written(t, e)
		return
	}
	call := `"http.get":{"url":"http://bodies.test/${$item}"}`
	if kind == "file" {
		call = `"fs.cat":{"path":"f"}`
	}
	a := e.Run(t.Context(), []byte(`{"steps":[{`+call+`,"forEach":"1..16","concurrency":16,"select":"1","timeoutMs":280000}],"return":"done"}`), nil)
	peak := peakMiB(t)
	t.Logf("%d MiB: %.300s", peak, a.JSON)
	if code := codeOf(a); code != fault.LimitExceeded {
		t.Errorf("got %.600s, want limit_exceeded", a.JSON)
	}
	if peak > 700 {
		t.Errorf("peak memory of %d MiB, want at most 700", peak)
	}
}

// written passes the bytes of one file on to another, which is new, and is then replaced, so that its content is kept for an undo.
func written(t *testing.T, e *chain.Engine) {
	t.Helper()
	for i, most := range []int{160, 330} { // MiB
		a := e.Run(t.Context(), []byte(`{"steps":[{"fs.cat":{"path":"f"}},{"fs.write":{"path":"g","data":"$0.data"}}]}`), nil)
		if peak := peakMiB(t); !a.OK || peak > most {
			t.Errorf("time %d: %d MiB, want at most %d: %.600s", i, peak, most, a.JSON)
		}
	}
}

// endless is a service whose bodies have bodyBytes bytes, which it announces or not.
type endless string

func (kind endless) RoundTrip(r *http.Request) (*http.Response, error) {
	response := &http.Response{StatusCode: 200, Request: r, ContentLength: -1, Header: http.Header{"Content-Type": {"image/png"}}}
	if kind == "announced" {
		response.ContentLength = bodyBytes
	}
	if kind == "text" {
		response.Header.Set("Content-Type", "text/plain")
	}
	response.Body = io.NopCloser(io.LimitReader(letters{}, bodyBytes))
	return response, nil
}

// letters has no end.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}
