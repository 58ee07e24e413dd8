package console_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
)

// TestForms: what acts is done only for a form of the viewer's own page.
func TestForms(t *testing.T) {
	t.Parallel()
	acts := func(id string) *console.Viewer {
		v := person(id)
		v.Acts = true
		return v
	}
	s := newShop(t, map[string]*console.Viewer{"ann": acts("token:ann"), "bob": acts("token:bob"), "looks": person("token:ann")}, nil)
	id, _ := s.run(t, "token:ann", `{"steps":[{"shop.put":{"k":1}}]}`)
	path := "runs/" + id + "/approve"
	ann, bob := s.browser(t, "ann"), s.browser(t, "bob")
	keyOf := func(b *browser, path string) string {
		_, page := b.get(path)
		_, rest, _ := strings.Cut(page, `name="form" value="`)
		key, _, _ := strings.Cut(rest, `"`)
		return key
	}
	key := keyOf(ann, path)
	if key == "" {
		t.Fatal("the page has no form")
	}
	form := func(key string) url.Values { return url.Values{"form": {key}, "decision": {"approve-all"}} }
	for name, test := range map[string]struct {
		b    *browser
		form url.Values
	}{
		"no key": {ann, form("")}, "a guessed key": {ann, form(strings.Repeat("0", 32))}, "another's form": {bob, form(key)},
	} {
		if status, page := test.b.post(path, test.form); status != fault.Denied.HTTP() || !strings.Contains(page, "form has expired") {
			t.Errorf("%s: status %d: %.300s", name, status, page)
		}
	}
	huge := url.Values{"reason": {strings.Repeat("x", 9<<20)}, "form": {key}}
	if status, page := ann.post(path, huge); status != fault.LimitExceeded.HTTP() || !strings.Contains(page, "more than 8388608 bytes") {
		t.Errorf("a huge form: status %d: %.300s", status, page)
	}
	for name, header := range map[string][2]string{"another site": {"Sec-Fetch-Site", "cross-site"}, "another port": {"Sec-Fetch-Site", "same-site"},
		"another origin": {"Origin", "https://evil.example.org"}, "a file": {"Origin", "null"}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+console.Path+path, strings.NewReader(form(key).Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set(header[0], header[1])
		if status, page := ann.read(ann.Do(r)); status != http.StatusForbidden {
			t.Errorf("from %s: status %d: %s", name, status, page)
		}
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch} {
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+console.Path+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if status, page := ann.read(ann.Do(r)); status != http.StatusMethodNotAllowed {
			t.Errorf("%s: status %d: %s", method, status, page)
		}
	}
	looks := s.browser(t, "looks")
	if status, page := looks.post(path, form(keyOf(looks, path))); status != fault.Denied.HTTP() {
		t.Errorf("who only looks approves: status %d: %s", status, page)
	}
	if past, err := s.journal.Read(t.Context(), id, nil); err != nil || past.Waiting == nil {
		t.Errorf("the run does not wait any more: %+v, %v", past, err)
	}
	s.wantCalls(t)
}

// TestFormsShareMemory: large forms count while they are sent, and a viewer who sends many leaves room for the others' and for small ones.
func TestFormsShareMemory(t *testing.T) {
	t.Parallel()
	_, handler := newHandler(t, map[string]*console.Viewer{"ann": actor("token:ann"), "bob": actor("token:bob")})
	send := func(path string, cookies []*http.Cookie, body io.Reader, size int64) *http.Response {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, console.Path+path, body)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.ContentLength = size
		for _, c := range cookies {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Result()
	}
	const large = 8 << 20
	ann := send("login", nil, strings.NewReader("token=ann"), 9).Cookies()
	bob := send("login", nil, strings.NewReader("token=bob"), 9).Cookies()
	var sending sync.WaitGroup
	var forms []*io.PipeWriter
	for range 4 { // half of what all may have
		from, to := io.Pipe()
		sending.Go(func() { send("playground", ann, from, large) })
		if _, err := to.Write([]byte("x")); err != nil { // it returns once the form is being read
			t.Fatal(err)
		}
		forms = append(forms, to)
	}
	for name, test := range map[string]struct {
		viewer []*http.Cookie
		size   int64
		want   fault.Code
	}{
		"one more":  {ann, large, fault.Busy},
		"unknown":   {ann, -1, fault.Busy},
		"small":     {ann, 5, fault.Denied}, // its key is missing
		"another's": {bob, large, fault.Denied},
	} {
		if r := send("playground", test.viewer, strings.NewReader("text="), test.size); r.StatusCode != test.want.HTTP() {
			t.Errorf("%s: status %d, want that of %s", name, r.StatusCode, test.want)
		}
	}
	for _, to := range forms {
		to.Close()
	}
	sending.Wait()
	if r := send("playground", ann, strings.NewReader("text="), large); r.StatusCode != fault.Denied.HTTP() {
		t.Errorf("when they have been answered: status %d, want that of denied", r.StatusCode)
	}
}

// TestHeaders: no page may be framed, kept or run another's script, and the cookie is for the console alone.
func TestHeaders(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]*console.Viewer{"ann": person("token:ann")})
	for _, path := range []string{"", "login", "runs/run_x", "assets/console.js", "assets/none", "nowhere"} {
		r, err := s.browser(t, "ann").Get(s.URL + console.Path + path)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		policy := r.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") ||
			strings.Contains(policy, "unsafe") || r.Header.Get("X-Frame-Options") != "DENY" || r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%q: header %v", path, r.Header)
		}
		if kept := r.Header.Get("Cache-Control"); !strings.HasPrefix(path, "assets/") && kept != "no-store" {
			t.Errorf("%q: a page is kept: %s", path, kept)
		}
	}
	noRedirect := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for scheme, secure := range map[string]bool{"http": false, "https": true} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+console.Path+"login", strings.NewReader("token=ann"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Forwarded-Proto", scheme)
		answer, err := noRedirect.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		c := answer.Cookies()[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != console.Path || c.Secure != secure || c.MaxAge != 0 {
			t.Errorf("over %s: the cookie is %v", scheme, c)
		}
	}
}

// TestAssets: an asset is kept under the address that pages have, and asked for again under any other.
func TestAssets(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]*console.Viewer{"ann": person("token:ann")})
	_, page := s.browser(t, "ann").get("")
	for _, name := range []string{"console.css", "console.js", "draw.css"} {
		_, rest, _ := strings.Cut(page, "/console/assets/"+name)
		query, _, _ := strings.Cut(rest, `"`)
		for query, kept := range map[string]bool{query: true, "": false, "?old": false} {
			r, err := http.Get(s.URL + console.Path + "assets/" + name + query)
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if got := strings.Contains(r.Header.Get("Cache-Control"), "immutable"); r.StatusCode != http.StatusOK || got != kept {
				t.Errorf("%s%s: status %d, %s, want it kept: %t", name, query, r.StatusCode, r.Header.Get("Cache-Control"), kept)
			}
			again, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+console.Path+"assets/"+name+query, nil)
			if err != nil {
				t.Fatal(err)
			}
			again.Header.Set("If-None-Match", r.Header.Get("ETag"))
			if r, err = http.DefaultClient.Do(again); err != nil || r.StatusCode != http.StatusNotModified {
				t.Errorf("%s asked for again: %v, %v", name, r, err)
			}
			r.Body.Close()
		}
	}
}

// TestLinkOnce: the one-time link lets in one browser.
func TestLinkOnce(t *testing.T) {
	t.Parallel()
	link := console.NewOneTimeLink()
	s := httptest.NewServer(console.New(&console.Options{Link: link,
		Backend: func() *console.Backend { return &console.Backend{} },
		Identify: func(_ context.Context, credential string) (*console.Viewer, error) {
			if !link.Has(credential) {
				return nil, fault.New(fault.Denied, "another console's")
			}
			return person(""), nil
		}}))
	t.Cleanup(s.Close)
	visit := func(client *http.Client, address string) string {
		b := &browser{client, t, nil}
		_, page := b.read(client.Get(address))
		return page
	}
	client := func() *http.Client {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		return &http.Client{Jar: jar}
	}
	address := link.URL(strings.TrimPrefix(s.URL, "http://"))
	first, second := client(), client()
	if page := visit(second, s.URL+console.Path+"?link=guessed"); !strings.Contains(page, "not let in") {
		t.Errorf("a guessed link: %s", page)
	}
	if page := visit(first, address); !strings.Contains(page, `<a href="`+console.Path+`">`) {
		t.Errorf("the first browser: %s", page)
	}
	if page := visit(second, address); !strings.Contains(page, "not let in") {
		t.Errorf("the second browser: %s", page)
	}
	if page := visit(first, s.URL+console.Path); strings.Contains(page, "not let in") || !strings.Contains(page, "runs are not recorded") {
		t.Errorf("the first browser again: %s", page)
	}
}

// TestHostileText: names of chains, filters and tokens are text, however they look and however long they are.
func TestHostileText(t *testing.T) {
	t.Parallel()
	all := person("all")
	all.All = true
	s := newSite(t, map[string]*console.Viewer{"all": all, `a;b"c`: person("token:odd")})
	b := s.browser(t, "all")
	for _, text := range []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'onmouseover='alert(1)`, `javascript:alert(1)`,
		"\u202eevil\u202c", "{{.Viewer}}", `</title><script>`, `]]>--><svg onload=alert(1)>`} {
		id := s.begin(t, "token:ann", text, `{"expr":"6*7"}`)
		for _, path := range []string{"", "runs/" + id, "?chain=" + url.QueryEscape(text), "?function=" + url.QueryEscape(text) +
			"&caller=" + url.QueryEscape(text) + "&parent=" + url.QueryEscape(text), "?status=" + url.QueryEscape(text),
			"?run=" + url.QueryEscape(text), "runs/" + url.PathEscape(text), "?since=" + url.QueryEscape(text), "savings", "functions?q=" + url.QueryEscape(text)} {
			_, page := b.get(path)
			for _, bad := range []string{"<script>alert", "<img", "<svg onload", "<script></", `'onmouseover='`, `href="javascript`, "\u202e"} {
				if _, rest, found := strings.Cut(page, bad); found && !strings.Contains(page, `value="`+bad) {
					t.Errorf("%q: the page has %q: %.200s", path, bad, rest)
				}
			}
		}
	}
	for _, path := range []string{"", "runs/", "functions"} {
		status, page := b.get(path + "?chain=" + strings.Repeat("x", 600_000))
		if status >= 500 && status != http.StatusServiceUnavailable {
			t.Errorf("a filter of 600 kB for %q: status %d: %.200s", path, status, page)
		}
	}
	stranger := &browser{&http.Client{}, t, s}
	for token, code := range map[string]fault.Code{`a;b"c`: fault.BadRequest, strings.Repeat("x", 5000): fault.LimitExceeded, "<b>": fault.Denied} {
		if status, page := stranger.post("login", url.Values{"token": {token}}); status != code.HTTP() || strings.Contains(page, "<b>") {
			t.Errorf("a login with %.20q: status %d, want %s: %s", token, status, code, page)
		}
	}
}

// TestJournalAway: pages say with a code that the journal cannot be read, and which one it is not.
func TestJournalAway(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]*console.Viewer{"ann": person("token:ann")})
	b := s.browser(t, "ann")
	s.begin(t, "token:ann", "a", `{"expr":"6*7"}`)
	s.backend.Journal = nil
	for _, path := range []string{"", "runs/run_x", "savings", "approvals", "events"} {
		if status, page := b.get(path); status != fault.NotSupported.HTTP() || !strings.Contains(page, "journal: {store: off}") {
			t.Errorf("%q without a journal: status %d: %.300s", path, status, page)
		}
	}
}

// TestBusy: one viewer cannot have all requests answered.
func TestBusy(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]*console.Viewer{"ann": person("token:ann"), "bob": person("token:bob")})
	ann, bob := s.browser(t, "ann"), s.browser(t, "bob")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for n := range 64 {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprint(s.URL, console.Path, "events?", n), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := ann.Do(r)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("stream %d: %v, %v", n, answer, err)
		}
		t.Cleanup(func() { answer.Body.Close() })
	}
	if status, page := ann.get(""); status != fault.Busy.HTTP() || !strings.Contains(page, "64 of your requests") {
		t.Errorf("with 64 streams: status %d: %s", status, page)
	}
	if status, page := bob.get(""); status != http.StatusOK {
		t.Errorf("another viewer: status %d: %s", status, page)
	}
}
