package transport

import (
	"net/http"
	"net/url"
	"testing"
)

// TestConsoleURL: people are sent to the host of the configuration, else to this machine, and to no other name that a client wrote.
func TestConsoleURL(t *testing.T) {
	t.Parallel()
	public := &url.URL{Scheme: "https", Host: "tools.example.com", Path: "/team/mcp"}
	for _, test := range []struct {
		host    string
		public  *url.URL
		without bool // there is no console
		want    string
	}{
		{"127.0.0.1:8080", public, false, "https://tools.example.com/console/"},
		{"127.0.0.1:8080", nil, false, "http://127.0.0.1:8080/console/"},
		{"localhost", nil, false, "http://localhost/console/"},
		{"[::1]:8080", nil, false, "http://[::1]:8080/console/"},
		{"127.0.0.1:8080", public, true, ""},
		{"onecall.internal:8080", nil, false, ""},
		{"localhost:80@evil.example.org", nil, false, ""},
		{"localhost@evil.example.org", nil, false, ""},
		{"localhost:80/x", nil, false, ""},
		{"localhost:80?x", nil, false, ""},
		{"", nil, false, ""},
	} {
		s, o := &Server{}, &Options{Console: http.NotFoundHandler()}
		if test.without {
			o.Console = nil
		}
		s.options.Store(o)
		r := &Request{server: s, from: &identity{access: &Access{publicURL: test.public}, host: test.host}}
		if got := r.ConsoleURL(); got != test.want {
			t.Errorf("for %q the console is at %q, want %q", test.host, got, test.want)
		}
	}
	if got := (&Request{}).ConsoleURL(); got != "" {
		t.Errorf("over stdio the console is at %q", got)
	}
}
