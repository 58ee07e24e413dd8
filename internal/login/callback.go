package login

import (
	"context"
	"crypto/subtle"
	"html"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/onecall-mcp/onecall/fault"
)

// callback serves the loopback redirect (RFC 8252, section 7.3). It accepts exactly one answer for exactly one login, and shows
// the browser a static page.
type callback struct {
	*expected
	redirect string

	host   string // required Host header, so that no other name can lead here (DNS rebinding)
	http   *http.Server
	served chan struct{}

	answerOnce sync.Once
	answer     chan callbackResult
}

// expected says which answer belongs to a login.
type expected struct {
	state          string
	source, issuer string
	issuerRequired bool // an answer must name the issuer, as the authorization server's metadata says (RFC 9207)
}

// expect returns what the answer to a new login is.
func (s *server) expect(meta *oauthex.AuthServerMeta) *expected {
	return &expected{state: random(), source: s.o.Source, issuer: meta.Issuer, issuerRequired: meta.AuthorizationResponseIssParameterSupported}
}

// matches reports whether an answer has the state of the login.
func (e *expected) matches(query url.Values) bool {
	return len(query["state"]) == 1 && subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(e.state)) == 1
}

// callbackResult is the authorization server's answer: a code or a coded error.
type callbackResult struct {
	code string
	err  error
}

// listen opens the callback, which the caller closes.
func (s *server) listen(ctx context.Context, e *expected) (*callback, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", "127.0.0.1:"+strconv.Itoa(s.o.RedirectPort))
	if err != nil {
		return nil, fault.New(fault.Unavailable, "server %q: the redirect port %d on 127.0.0.1 cannot be opened: free it, or configure another",
			s.o.Source, s.o.RedirectPort)
	}
	c := &callback{expected: e, redirect: "http://" + listener.Addr().String() + "/callback", host: listener.Addr().String(),
		served: make(chan struct{}), answer: make(chan callbackResult, 1)}
	c.http = &http.Server{Handler: c, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	c.http.SetKeepAlivesEnabled(false)
	go func() {
		defer close(c.served)
		_ = c.http.Serve(listener)
	}()
	return c, nil
}

// close stops listening after the page has been sent.
func (c *callback) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if c.http.Shutdown(ctx) != nil {
		c.http.Close()
	}
	<-c.served
}

// wait waits for the answer and returns its code or its error. If ctx ends first, it returns a coded error.
func (c *callback) wait(ctx context.Context) (string, error) {
	select {
	case a := <-c.answer:
		return a.code, a.err
	case <-ctx.Done():
		return "", codedError("server \""+c.source+"\": the login was not finished", ctx.Err())
	}
}

// ServeHTTP handles the browser's redirect. A request without this login's state gets an error page and does not end the login, because
// any page that the person visits can send one.
func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	query, err := url.ParseQuery(r.URL.RawQuery)
	switch {
	case r.Host != c.host || r.URL.Path != "/callback":
		writePage(w, http.StatusNotFound, "There is nothing here.")
		return
	case r.Method != http.MethodGet:
		writePage(w, http.StatusMethodNotAllowed, "This is not how a login ends.")
		return
	case err != nil || !c.matches(query):
		writePage(w, http.StatusBadRequest, "This does not belong to the login that onecall waits for.")
		return
	}
	status, text := http.StatusGone, "This login has been answered already."
	c.answerOnce.Do(func() {
		a := c.read(query)
		status, text = http.StatusOK, "onecall has the answer: the terminal shows whether you are logged in. You may close this page."
		if f, ok := fault.As(a.err); ok {
			status, text = http.StatusBadRequest, "You are not logged in. "+f.Message
		}
		writePage(w, status, text) // before the answer is passed on: its receiver closes the callback
		status = 0                 // the page has been sent
		c.answer <- a
	})
	if status != 0 {
		writePage(w, status, text)
	}
}

// read checks the parameters of an answer with the right state.
func (e *expected) read(query url.Values) callbackResult {
	issuer := query.Get("iss")
	if (issuer != "" || e.issuerRequired) && issuer != e.issuer {
		return callbackResult{err: fault.New(fault.Denied, "server %q: the answer comes from another authorization server than "+
			"%s: it is not used", e.source, hostOf(e.issuer))}
	}
	if failed := query.Get("error"); failed != "" {
		return callbackResult{err: fault.New(fault.Denied, "server %q: %s did not let you in: %s", e.source, hostOf(e.issuer),
			clean(failed+" "+query.Get("error_description"), e.state))}
	}
	if codes := query["code"]; len(codes) != 1 || codes[0] == "" || len(codes[0]) > maxToken {
		return callbackResult{err: fault.New(fault.Denied, "server %q: the answer of %s holds no code", e.source, hostOf(e.issuer))}
	}
	return callbackResult{code: query.Get("code")}
}

// writePage writes a page with a sentence, which it escapes.
func writePage(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	const head = "<!doctype html><html lang=en><meta charset=utf-8><title>onecall</title><p>"
	_, _ = w.Write([]byte(head + html.EscapeString(text) + "</p></html>\n"))
}
