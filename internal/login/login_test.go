package login

import (
	"net"
	"net/http"
	"net/url"
	"testing"
)

func challenge(text string) func(http.Handler) http.Handler {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", text)
			w.WriteHeader(http.StatusUnauthorized)
		})
	}
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
