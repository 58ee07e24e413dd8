//go:build e2e && unix

package e2e

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

var (
	consoleLink = regexp.MustCompile(`(http://127\.0\.0\.1:\d+/console/)\?link=\w+`)
	runLink     = regexp.MustCompile(`/console/runs/(run_\w+)`)
	hiddenField = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)"`)
	editor      = regexp.MustCompile(`(?s)<textarea[^>]*>(.*?)</textarea>`)
)

// openConsole starts onecall console in a folder, and lets a browser in. end stops it, as Ctrl-C does.
func openConsole(t *testing.T, folder string) (b *consoleBrowser, end func()) {
	t.Helper()
	s, b := startConsole(t, folder)
	return b, func() {
		_ = s.cmd.Process.Signal(syscall.SIGINT)
		if code := clitest.ExitCode(<-s.ended); code != "0" && code != "130" {
			t.Errorf("exit status %s: %s", code, s.stderr)
		}
	}
}

// startConsole starts onecall console in a folder, and lets a browser in: the link works once, and at this machine's names only.
func startConsole(t *testing.T, folder string) (*httpServer, *consoleBrowser) {
	t.Helper()
	s := &httpServer{stderr: new(logTail), ended: make(chan error, 1)}
	s.cmd = clitest.Self(t, folder, "console", "--no-browser")
	s.start(t, consoleLink)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := httpClient(t)
	client.Jar = jar
	b := &consoleBrowser{t, s.url, client}
	link := consoleLink.FindString(s.stderr.String())
	if status, page := b.read(b.Get(link)); status != http.StatusOK {
		t.Fatalf("the link: status %d: %s", status, page)
	}
	if status, page := b.read(httpClient(t).Get(link)); status != http.StatusForbidden {
		t.Errorf("the link lets in another browser: status %d: %s", status, page)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "rebound.example.org"
	if status, page := b.read(b.Do(r)); status != http.StatusForbidden {
		t.Errorf("by another name: status %d: %s", status, page)
	}
	return s, b
}

// send sends the form of a page to a path.
func (b *consoleBrowser) send(page, path string, fields map[string]string) string {
	b.t.Helper()
	form := url.Values{}
	for _, field := range hiddenField.FindAllStringSubmatch(page, -1) {
		form.Set(field[1], html.UnescapeString(field[2]))
	}
	for name, value := range fields {
		form.Set(name, value)
	}
	status, answer := b.read(b.PostForm(b.base+path, form))
	if status != http.StatusOK {
		b.t.Fatalf("%s: status %d: %s", path, status, answer)
	}
	return answer
}

// TestConsoleResumes: a run that failed in a terminal is corrected and resumed in the browser; after a restart of the console what waits is
// approved and made, and then undone.
func TestConsoleResumes(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var sent []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		sent = append(sent, r.Method+r.URL.Path+string(body))
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(string(body), `"n":0`) {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
		fmt.Fprint(w, `{"id":"x"}`)
	}))
	t.Cleanup(service.Close)
	folder := t.TempDir()
	clitest.Write(t, folder, "onecall.yaml", fmt.Sprintf(`
http:
  allow: [%q]
  endpoints:
    order: {method: POST, url: "%[2]s/order", body: {n: $input.n}}
    drop: {method: DELETE, url: "%[2]s/order"}
    mail: {method: POST, url: "%[2]s/mail"}
functions: {http.order: {undo: {fn: http.drop}}, http.mail: {approve: write}}
`, strings.TrimPrefix(service.URL, "http://"), service.URL))
	clitest.Write(t, folder, "a.chain.json", `{"steps":[{"fn":"http.order","args":{"n":1}},{"fn":"http.order","args":{"n":0}},{"fn":"http.mail"}]}`)
	if out, err := clitest.Command(t, folder, "run", "a.chain.json").Output(); clitest.ExitCode(err) != "1" {
		t.Fatalf("%v: %s", err, out)
	}
	want := func(calls ...string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if got := fmt.Sprint(sent); got != fmt.Sprint(calls) {
			t.Fatalf("the service was sent %s, want %s", got, calls)
		}
	}
	b, end := openConsole(t, folder)
	_, list := b.get("")
	run := runLink.FindStringSubmatch(list)
	if run == nil {
		t.Fatalf("the run is not listed: %s", list)
	}
	path := "runs/" + run[1]
	_, page := b.get(path + "/fix")
	text := editor.FindStringSubmatch(page)
	if text == nil {
		t.Fatalf("there is no editor: %s", page)
	}
	fixed := strings.Replace(html.UnescapeString(text[1]), `"n": 0`, `"n": 2`, 1)
	page = b.send(page, path+"/fix", map[string]string{"text": fixed, "do": "resume"})
	if !strings.Contains(page, path+"/approve") {
		t.Fatalf("nothing waits for approval: %s", page)
	}
	end()
	want(`POST/order{"n":1}`, `POST/order{"n":0}`, `POST/order{"n":2}`)
	b, end = openConsole(t, folder)
	_, page = b.get(path + "/approve")
	page = b.send(page, path+"/approve", map[string]string{"decision": "approve-all"})
	page = b.send(page, path+"/resume", nil)
	if !strings.Contains(page, `>ok</span>`) {
		t.Errorf("the resume: %s", page)
	}
	_, page = b.get(path + "/undo")
	page = b.send(page, path+"/undo", nil)
	if !strings.Contains(page, "http.mail at 2 has no undo") {
		t.Errorf("the undo: %s", page)
	}
	end()
	want(`POST/order{"n":1}`, `POST/order{"n":0}`, `POST/order{"n":2}`, "POST/mail", "DELETE/order", "DELETE/order")
}
