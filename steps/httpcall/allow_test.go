package httpcall

import (
	"net/url"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

func TestAllow(t *testing.T) {
	t.Parallel()
	tests := []struct {
		allow   string // entries, separated by blanks
		yes, no string // URLs, separated by blanks
	}{
		{"", "", "http://example.com https://127.0.0.1"},
		{"example.com",
			"http://example.com https://EXAMPLE.com https://example.com. https://example.com:443 http://example.com:80",
			"https://www.example.com https://example.com:8443 http://example.com:443 https://example.com.evil.com https://notexample.com"},
		{"example.com:8080", "http://example.com:8080 https://example.com:8080", "http://example.com https://example.com"},
		{"https://example.com", "https://example.com", "http://example.com http://example.com:443"},
		{"HTTP://example.com:81", "http://example.com:81", "https://example.com:81 http://example.com"},
		{"*.example.com", "https://a.example.com https://a.b.example.com", "https://example.com https://aexample.com https://a.example.com:81"},
		{"http://*.example.com:81", "http://a.example.com:81", "https://a.example.com:81 http://a.example.com"},
		{"*.0.0.1.example", "", "http://127.0.0.1"},
		{"bücher.example", "https://bücher.example https://xn--bcher-kva.example https://BÜCHER.example", "https://bucher.example"},
		{"xn--bcher-kva.example", "https://bücher.example", ""},
		{"my_service:8080", "http://my_service:8080", "http://my-service:8080"},
		{"127.0.0.1:8080", "http://127.0.0.1:8080 http://[::ffff:127.0.0.1]:8080 http://[::ffff:7f00:1]:8080",
			"http://127.0.0.1 http://127.0.0.2:8080 http://localhost:8080 http://[::1]:8080"},
		{"[::1]:8080 ::2 [2001:db8::0:1]", "http://[::1]:8080 http://[0:0::1]:8080 https://[::2] https://[2001:DB8::1]", "http://[::1] http://127.0.0.1:8080"},
		{"localhost:8080", "http://localhost:8080", "http://127.0.0.1:8080 http://localhost http://a.localhost:8080"},
		{"a.example b.example:81", "https://a.example https://b.example:81", "https://b.example https://a.example:81"},
	}
	for _, test := range tests {
		list, err := parseAllowList(strings.Fields(test.allow))
		if err != nil {
			t.Errorf("%s: %v", test.allow, err)
			continue
		}
		check := func(urls string, want fault.Code) {
			for _, text := range strings.Fields(urls) {
				u, err := url.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				to, problem := parseTarget(u)
				if problem != "" {
					t.Errorf("%s: %s", text, problem)
					continue
				}
				if err := list.check(to); fault.CodeOf(err) != want {
					t.Errorf("allow %q, %s: got %v, want %q", test.allow, text, err, want)
				}
			}
		}
		check(test.yes, "")
		check(test.no, fault.Denied)
	}
}

func TestAllowEntryRefused(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"", "*", "*.", "a.*.com", "ex*.com", "ftp://example.com", "example.com/path", "user@example.com", "example.com:0",
		"example.com:http", "example.com:", "*.10.0.0.1", "127.1", "0x7f000001", "a..b", ".a", "fe80::1%eth0", "a b", "exa\x00mple", "a?b"} {
		_, err := New(&Options{Allow: []string{"fine.example", entry}})
		f, ok := fault.As(err)
		if !ok || f.Code != fault.BadRequest || f.At != "/allow/1" {
			t.Errorf("%q: %v", entry, err)
		}
	}
}

func TestDeniedNamesOnlyTheHostAskedFor(t *testing.T) {
	t.Parallel()
	s, err := New(&Options{Allow: []string{"internal.example"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = invoke(t.Context(), s, "http.get", `{"url":"https://other.example:8443/path?x=1"}`)
	want := "denied: calls to other.example:8443 are not allowed: name the host in http.allow of the configuration"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
