package cli_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// serveConsole starts a command that serves a console, and returns the address that its messages name.
func serveConsole(t *testing.T, folder string, args ...string) (address string) {
	t.Helper()
	return serve(t, folder, consoleAddress, args...)
}

// serve starts a command that serves, and returns the address of this form that its messages name.
func serve(t *testing.T, folder string, form *regexp.Regexp, args ...string) (address string) {
	t.Helper()
	cmd := clitest.Command(t, folder, args...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stderr)
	var said strings.Builder
	for lines.Scan() {
		if address = form.FindString(lines.Text()); address != "" {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return address
		}
		said.WriteString(lines.Text() + "\n")
	}
	t.Fatalf("onecall %q names no address: %s", args, said.String())
	return ""
}

var (
	consoleAddress = regexp.MustCompile(`http://127\.0\.0\.1:\d+/console/[\w?=-]*`)
	clientAddress  = regexp.MustCompile(`http://127\.0\.0\.1:\d+/mcp`)
	hiddenField    = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)"`)
)

// waitingRun is a folder with a run that waits for the approval of a write.
type waitingRun struct{ folder, id string }

func newWaitingRun(t *testing.T, configuration string) *waitingRun {
	t.Helper()
	w := &waitingRun{folder: t.TempDir()}
	clitest.Write(t, w.folder, "onecall.yaml", "fs: {write: [.]}\nfunctions: {fs.mkdir: {approve: write}}\n"+configuration)
	clitest.Write(t, w.folder, "a.chain.json", `{"steps":[{"fs.mkdir":{"path":"a"}}]}`)
	_, _ = clitest.Command(t, w.folder, "run", "a.chain.json").Output() // its status says that it waits
	if w.id = regexp.MustCompile(`run_\w+`).FindString(w.list(t, "waiting")); w.id == "" {
		t.Fatal("no run waits")
	}
	return w
}

// list returns the list of the runs with a status.
func (w *waitingRun) list(t *testing.T, status string) string {
	t.Helper()
	list, err := clitest.Command(t, w.folder, "runs", "--status", status, "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(list)
}

// wantStatus fails the test unless the run has a status.
func (w *waitingRun) wantStatus(t *testing.T, status, after string) {
	t.Helper()
	if !strings.Contains(w.list(t, status), w.id) {
		t.Errorf("%s: the run is not %s", after, status)
	}
}

// plainBrowser is a browser without script.
type plainBrowser struct {
	*http.Client
	console string
}

func newPlainBrowser(t *testing.T, console string) *plainBrowser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &plainBrowser{&http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}, console}
}

// send sends a request, which change changes; nil: nothing. form nil: a GET.
func (v *plainBrowser) send(t *testing.T, path string, form url.Values, change func(*http.Request)) (status int, page string) {
	t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(t.Context(), method, v.console+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if change != nil {
		change(r)
	}
	answer, err := v.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// approval returns the form of the page on which the run is approved, filled in.
func (v *plainBrowser) approval(t *testing.T, w *waitingRun) url.Values {
	t.Helper()
	status, page := v.send(t, "runs/"+w.id+"/approve", nil, nil)
	form := url.Values{"decision": {"approve-all"}}
	for _, field := range hiddenField.FindAllStringSubmatch(page, -1) {
		form.Set(field[1], html.UnescapeString(field[2]))
	}
	if status != http.StatusOK || form.Get("form") == "" {
		t.Fatalf("the page of the approval: status %d: %s", status, page)
	}
	return form
}

// TestConsole: onecall console lets in one browser, for hosts of this machine and from its own pages alone, and what that one approves is
// approved.
func TestConsole(t *testing.T) {
	t.Parallel()
	w := newWaitingRun(t, "")
	link := serveConsole(t, w.folder, "console", "--no-browser")
	base, _, _ := strings.Cut(link, "?")
	_, query, _ := strings.Cut(link, "/console/")
	owner, other := newPlainBrowser(t, base), newPlainBrowser(t, base)
	foreign := func(r *http.Request) { r.Host = "rebound.example.org" }
	if status, _ := owner.send(t, query, nil, foreign); status != http.StatusForbidden {
		t.Errorf("the link at another host: status %d, want 403", status)
	}
	if status, page := owner.send(t, query, nil, nil); status != http.StatusOK {
		t.Fatalf("the link: status %d: %s", status, page)
	}
	if status, page := owner.send(t, "", nil, nil); status != http.StatusOK || !strings.Contains(page, w.id) {
		t.Fatalf("the page after it: status %d: %s", status, page)
	}
	path := "runs/" + w.id + "/approve"
	form := owner.approval(t, w)
	for name, test := range map[string]struct {
		path   string
		form   url.Values
		who    *plainBrowser
		change func(*http.Request)
	}{
		"the link once more":         {query, nil, other, nil},
		"a page without the link":    {"", nil, other, nil},
		"a form without the link":    {path, form, other, nil},
		"a page at a foreign host":   {"", nil, owner, foreign},
		"a form at a foreign host":   {path, form, owner, foreign},
		"a form of a foreign origin": {path, form, owner, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.org") }},
	} {
		if status, page := test.who.send(t, test.path, test.form, test.change); status != http.StatusForbidden || strings.Contains(page, w.id) {
			t.Errorf("%s: status %d, want 403: %s", name, status, page)
		}
	}
	w.wantStatus(t, "waiting", "nobody was let in")
	if status, page := owner.send(t, path, form, nil); status != http.StatusOK {
		t.Errorf("the approval: status %d: %s", status, page)
	}
	w.wantStatus(t, "approved", "it was approved")
}

// TestConsoleRights: on a server, an administrator approves only with the right to.
func TestConsoleRights(t *testing.T) {
	t.Parallel()
	hash := func(token string) string {
		sum := sha256.Sum256([]byte(token))
		return hex.EncodeToString(sum[:])
	}
	w := newWaitingRun(t, fmt.Sprintf("access:\n  tokens:\n    - {name: looks, sha256: %s, tier: admin}\n"+
		"    - {name: acts, sha256: %s, tier: admin, console: approve}\n", hash("looks-token"), hash("acts-token")))
	base := serveConsole(t, w.folder, "serve", "--http", "127.0.0.1:0", "--console")
	for _, test := range []struct {
		token      string
		want       int
		thenStatus string
	}{{"looks-token", http.StatusForbidden, "waiting"}, {"acts-token", http.StatusOK, "approved"}} {
		v := newPlainBrowser(t, base)
		if status, page := v.send(t, "login", url.Values{"token": {test.token}}, nil); status != http.StatusOK {
			t.Fatalf("the login with %s: status %d: %s", test.token, status, page)
		}
		form := v.approval(t, w)
		if status, page := v.send(t, "runs/"+w.id+"/approve", form, nil); status != test.want {
			t.Errorf("an approval with %s: status %d, want %d: %s", test.token, status, test.want, page)
		}
		w.wantStatus(t, test.thenStatus, "with "+test.token)
	}
	if _, err := os.Stat(w.folder + "/a"); err == nil {
		t.Error("the call was made without a resume")
	}
}
