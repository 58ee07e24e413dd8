package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/fault"
)

// OneTimeLink lets the browser of this machine's user in, without a login: its key works once, and is exchanged for a credential in a
// cookie.
type OneTimeLink struct {
	key, credential string
	used            atomic.Bool
}

// NewOneTimeLink returns a new link.
func NewOneTimeLink() *OneTimeLink { return &OneTimeLink{key: rand.Text(), credential: rand.Text()} }

// URL returns the address that works once, at a host.
func (l *OneTimeLink) URL(host string) string { return "http://" + host + Path + "?link=" + l.key }

// Has reports whether a credential is that of the link.
func (l *OneTimeLink) Has(credential string) bool {
	return subtle.ConstantTimeCompare([]byte(credential), []byte(l.credential)) == 1
}

// exchange answers a request for the link, and reports whether r was one.
func (l *OneTimeLink) exchange(w http.ResponseWriter, r *http.Request) bool {
	if l == nil || r.Method != http.MethodGet {
		return false
	}
	key := r.URL.Query().Get("link")
	if subtle.ConstantTimeCompare([]byte(key), []byte(l.key)) != 1 || !l.used.CompareAndSwap(false, true) {
		return false
	}
	setCookie(w, r, l.credential)
	// A redirect would count as a request of the page that led here. If that is a file, browsers send no SameSite=Strict cookie with it.
	w.Header().Set("Refresh", "0; url="+Path)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, `<!doctype html><title>onecall</title><a href="`+Path+`">To the console</a>`)
	return true
}

// cookieName is different for each host and port: browsers send cookies to all ports of a host.
func cookieName(r *http.Request) string {
	sum := sha256.Sum256([]byte(strings.ToLower(r.Host)))
	return "onecall-" + hex.EncodeToString(sum[:4])
}

// maxCredential bounds a credential, in bytes: browsers drop longer cookies.
const maxCredential = 3800

// setCookie keeps a credential in the browser until it is closed; "" removes it. The cookie is the whole session, so that it works after a
// restart and at any replica.
func setCookie(w http.ResponseWriter, r *http.Request, credential string) {
	cookie := &http.Cookie{Name: cookieName(r), Value: credential, Path: Path, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: isSecure(r)}
	if credential == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// isSecure reports whether a request came over TLS, to this process or to a proxy.
func isSecure(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

// identify fills in who sends the request. It answers the request and returns false if that is not known.
func (c *console) identify(w http.ResponseWriter, r *request) bool {
	cookie, err := r.Cookie(cookieName(r.Request))
	if err != nil || cookie.Value == "" {
		c.askLogin(w, r.Request, nil)
		return false
	}
	viewer, err := c.Identify(r.Context(), cookie.Value)
	if err != nil {
		c.askLogin(w, r.Request, err)
		return false
	}
	r.viewer, r.credential = viewer, cookie.Value
	return true
}

// maxRequests bounds what one viewer has answered at a time, streams included.
const maxRequests = 64

// busy counts the requests of viewers that are being answered. The zero value is ready to use.
type busy struct {
	mu    sync.Mutex
	count map[string]int
}

// acquire counts a request until done is called. It returns false if the viewer has maxRequests.
func (b *busy) acquire(viewer string) (done func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count[viewer] >= maxRequests {
		return nil, false
	}
	if b.count == nil {
		b.count = map[string]int{}
	}
	b.count[viewer]++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.count[viewer]--; b.count[viewer] == 0 {
			delete(b.count, viewer)
		}
	}, true
}

// askLogin asks for a token, or says that the link must be opened. why is why the last one does not work; nil: there was none.
func (c *console) askLogin(w http.ResponseWriter, r *http.Request, why error) {
	if f, coded := fault.As(why); coded && f.Code != fault.Denied {
		c.show(w, &request{Request: r}, faultPage(why))
		return
	}
	if r.Header.Get("HX-Request") != "" { // the script of an open page, which says that a login is needed and keeps what was typed
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.Method == http.MethodGet && c.Link == nil {
		to := url.Values{}
		if wanted := strings.TrimPrefix(r.URL.Path, Path); wanted != "" {
			to.Set("to", wanted)
		}
		http.Redirect(w, r, strings.TrimSuffix(Path+"login?"+to.Encode(), "?"), http.StatusSeeOther)
		return
	}
	c.show(w, &request{Request: r}, faultPage(fault.New(fault.Denied, "this browser is not let in: %s", c.howToEnter())))
}

func (c *console) howToEnter() string {
	if c.Link == nil {
		return "log in at " + Path + "login"
	}
	return "the address that onecall console showed works once; run onecall console again for another"
}

// showLogin shows the form for a token.
func (c *console) showLogin(w http.ResponseWriter, r *http.Request) {
	if c.Link != nil {
		c.askLogin(w, r, nil)
		return
	}
	c.show(w, &request{Request: r}, &page{template: "login", title: "Log in"})
}

// login keeps the token of the form if it is accepted. Nothing needs protection from forms of other pages here: SameSite keeps the cookie
// from them, and who logs in with another's token sees what that one sees.
func (c *console) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	token := strings.TrimSpace(r.PostFormValue("token"))
	_, err := c.Identify(r.Context(), token)
	switch {
	case c.Link != nil:
		err = fault.New(fault.Denied, "there are no tokens here: %s", c.howToEnter())
	case len(token) > maxCredential:
		err = fault.New(fault.LimitExceeded, "the token has %d bytes: a browser keeps at most %d", len(token), maxCredential)
	case err == nil && (&http.Cookie{Name: "x", Value: token}).Valid() != nil:
		err = fault.New(fault.BadRequest, "the token has characters that a browser cannot keep: make another one with onecall auth token")
	}
	if err != nil {
		c.Log.InfoContext(r.Context(), "a login to the console was refused", "remote", r.RemoteAddr, "code", fault.CodeOf(err))
		f := fault.From(err, "")
		c.show(w, &request{Request: r}, &page{template: "login", title: "Log in", data: f})
		return
	}
	setCookie(w, r, token)
	to := r.URL.Query().Get("to") // the page that was asked for
	if !pageNames.MatchString(to) {
		to = ""
	}
	http.Redirect(w, r, Path+to, http.StatusSeeOther)
}

// pageNames matches the pages to which a login leads, below Path.
var pageNames = regexp.MustCompile(`^[a-z0-9_]+(/[a-z0-9_]+)*$`)

// logout forgets the credential. Other pages of the browser ask for other streams then, and learn it.
func (c *console) logout(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(cookieName(r)); err == nil {
		defer c.streams.end(cookie.Value)
	}
	setCookie(w, r, "")
	http.Redirect(w, r, Path+"login", http.StatusSeeOther)
}
