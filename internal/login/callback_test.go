package login

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// Only the answer that belongs to the login ends the wait. Earlier requests change nothing, later ones are told that the login was
// answered, and then the port is closed.
func TestCallback(t *testing.T) {
	t.Parallel()
	s := newLoginFixture(t)
	var good string
	b := &browser{}
	b.before = func(back *url.URL) {
		good = back.String()
		q := back.Query()
		for _, state := range []string{"", "wrong", q.Get("state") + "x"} {
			q.Set("state", state)
			b.visit("http://" + back.Host + "/callback?" + q.Encode())
		}
		b.visit(good + "&state=twice")
		b.visit("http://" + back.Host + "/other?" + back.RawQuery)
		b.visit(strings.Replace(good, "127.0.0.1", "localhost", 1))
		answer, err := http.Post(good, "text/plain", nil)
		if err != nil {
			t.Error(err)
			return
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("a POST gets status %d, want 405", answer.StatusCode)
		}
		before := b.before
		b.before = nil
		defer func() { b.before = before }()
		b.visit(good)
		b.visit(good)
	}
	s.o.ClientName = "me"
	if err := Login(t.Context(), s.o, b); err != nil {
		t.Fatal(err)
	}
	var statuses []int
	for _, p := range b.pages {
		statuses = append(statuses, p.status)
		if !strings.Contains(p.header.Get("Content-Security-Policy"), "default-src 'none'") || strings.Contains(p.text, "<script") {
			t.Errorf("the page has a script or lacks its policy: %+v", p)
		}
	}
	wanted := []int{400, 400, 400, 400, 404, 404, 200, 410}
	if len(statuses) < len(wanted) {
		t.Fatalf("statuses %v, want %v", statuses, wanted)
	}
	for i := range wanted {
		if statuses[i] != wanted[i] {
			t.Fatalf("statuses %v, want %v", statuses, wanted)
		}
	}
	response, err := http.Get(good)
	if err != nil {
		return
	}
	response.Body.Close()
	if response.StatusCode == http.StatusGone { // else another test's server has the port by now
		t.Error("the callback still listens after the login")
	}
}

// The text of a server is shown as text, not as HTML.
func TestCallbackEscapes(t *testing.T) {
	t.Parallel()
	s := newLoginFixture(t)
	s.auth.answer = func(v url.Values) {
		v.Set("error", "<script>alert(1)</script>")
		v.Set("error_description", "\x1b[31m\"'&\n"+strings.Repeat("x", 1000))
	}
	b := &browser{}
	err := Login(t.Context(), s.o, b)
	wantError(t, s.auth, err, fault.Denied, "did not let you in")
	if len(err.Error()) > 400 || strings.ContainsAny(err.Error(), "\x1b\n") {
		t.Errorf("the error is too long or not printable: %q", err)
	}
	if len(b.pages) != 1 || b.pages[0].status != 400 || strings.Contains(b.pages[0].text, "<script") ||
		!strings.Contains(b.pages[0].text, "&lt;script&gt;") {
		t.Errorf("pages %+v, want one escaped page with status 400", b.pages)
	}
}

// readBody reads a request's body and puts it back.
func readBody(r *http.Request) []byte {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	return body
}
