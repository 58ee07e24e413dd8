package login

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// loginFixture is one server with its authorization server, and the options to log in there.
type loginFixture struct {
	auth  *authServer
	tools *toolServer
	o     *Options
}

// newLoginFixture starts both servers, without a login.
func newLoginFixture(t *testing.T) *loginFixture {
	a := newAuthServer(t)
	s := &loginFixture{auth: a, tools: newToolServer(t, a)}
	s.o = &Options{Source: "hub", ServerURL: s.tools.URL + "/mcp", Store: newFileStore(filepath.Join(t.TempDir(), "logins", "logins.json")),
		HTTPClient: &http.Client{}}
	return s
}

func (s *loginFixture) login(t *testing.T) {
	t.Helper()
	b := &browser{}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := Login(ctx, s.o, b); err != nil {
		t.Fatalf("login: %v; notices %q", err, b.notices)
	}
}

// loggedIn returns a fixture with a login.
func loggedIn(t *testing.T) *loginFixture {
	t.Helper()
	s := newLoginFixture(t)
	s.login(t)
	return s
}

// checkLoggedIn fails the test unless Status reports loggedIn.
func (s *loginFixture) checkLoggedIn(t *testing.T, loggedIn bool) {
	t.Helper()
	if state, err := Status(t.Context(), s.o); err != nil || state.LoggedIn != loggedIn {
		t.Errorf("Status: %+v, %v, want logged in %t", state, err, loggedIn)
	}
}

// session opens an MCP session with a fresh handler, and fails the test if that does not work.
func (s *loginFixture) session(t *testing.T) (*sdk.ClientSession, *handler) {
	t.Helper()
	session, h, err := s.connect(t)
	if err != nil {
		t.Fatal(err)
	}
	return session, h
}

// newHandler returns a fresh handler.
func newHandler(t *testing.T, o *Options) *handler {
	t.Helper()
	h, err := Handler(o)
	if err != nil {
		t.Fatal(err)
	}
	return h.(*handler)
}

// editLogin edits the stored login.
func (s *loginFixture) editLogin(t *testing.T, edit func(*record)) *record {
	t.Helper()
	server, err := newServer(s.o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := server.load(t.Context())
	if err != nil || r == nil {
		t.Fatal("no stored login: ", err)
	}
	edit(r)
	if err := server.save(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// expire makes a login look as it does an hour after its token was issued.
func expire(r *record) {
	r.Obtained, r.Expires = time.Now().Add(-time.Hour), time.Now().Add(-time.Second)
}

// backdate makes a login look as it does some minutes after its token was issued.
func backdate(r *record) { r.Obtained = time.Now().Add(-10 * time.Minute) }

// connect opens an MCP session with a fresh handler.
func (s *loginFixture) connect(t *testing.T) (*sdk.ClientSession, *handler, error) {
	t.Helper()
	h := newHandler(t, s.o)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.o.ServerURL, OAuthHandler: h, MaxRetries: -1}, nil)
	if err == nil {
		t.Cleanup(func() { session.Close() })
	}
	return session, h, err
}

// browser acts for the person: it opens the page, is logged in at once, and follows the redirect back.
type browser struct {
	refuse  bool
	before  func(callback *url.URL) // sees the redirect before it is followed
	notices []string
	pages   []sentPage
}

type sentPage struct {
	status int
	text   string
	header http.Header
}

func (b *browser) Notice(text string) { b.notices = append(b.notices, text) }

func (b *browser) Open(address string) error {
	if b.refuse {
		return errors.New("there is no browser")
	}
	stay := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := stay.Get(address)
	if err != nil {
		return err
	}
	answer.Body.Close()
	back, err := answer.Location()
	if err != nil {
		return errors.New("the authorization server does not send the browser back")
	}
	if b.before != nil {
		b.before(back)
	}
	b.visit(back.String())
	return nil
}

func (b *browser) visit(address string) {
	answer, err := http.Get(address)
	if err != nil {
		b.pages = append(b.pages, sentPage{text: err.Error()})
		return
	}
	defer answer.Body.Close()
	var text strings.Builder
	buffer := make([]byte, 64<<10)
	n, _ := answer.Body.Read(buffer)
	text.Write(buffer[:n])
	b.pages = append(b.pages, sentPage{answer.StatusCode, text.String(), answer.Header})
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// idleUser is a person who does nothing.
type idleUser struct {
	browser
	opened  func()
	address string
}

func (i *idleUser) Open(address string) error {
	i.address = address
	i.opened()
	i.refuse = true
	return i.browser.Open(address)
}
