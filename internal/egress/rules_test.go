package egress

import (
	"net/url"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

func TestAllow(t *testing.T) {
	t.Parallel()
	tests := []struct {
		allow   string // the allowed hosts, separated by blanks
		yes, no string // URLs that are allowed and URLs that are not, separated by blanks
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
		rules, faults := Parse(strings.Fields(test.allow))
		if len(faults) > 0 {
			t.Errorf("%s: got faults %v, want none", test.allow, faults)
			continue
		}
		check := func(urls string, want fault.Code) {
			for _, text := range strings.Fields(urls) {
				u, err := url.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				if err := rules.Check(u); fault.CodeOf(err) != want {
					t.Errorf("allow %q, %s: got %v, want %q", test.allow, text, err, want)
				}
			}
		}
		check(test.yes, "")
		check(test.no, fault.Denied)
	}
}

// badEntries are not hosts.
var badEntries = []string{"", "*", "*.", "a.*.com", "ex*.com", "ftp://example.com", "example.com/path", "user@example.com", "example.com:0",
	"example.com:http", "example.com:", "*.10.0.0.1", "127.1", "0x7f000001", "a..b", ".a", "fe80::1%eth0", "a b", "exa\x00mple", "a?b"}

// TestBadEntries parses all badEntries at once, between good ones: each is reported at its index.
func TestBadEntries(t *testing.T) {
	t.Parallel()
	entries := []string{"fine.example"}
	for _, bad := range badEntries {
		entries = append(entries, bad, "fine.example")
	}
	rules, faults := Parse(entries)
	if len(faults) != len(badEntries) {
		t.Fatalf("got %d faults for %d bad entries: %v", len(faults), len(badEntries), faults)
	}
	for i, f := range faults {
		if f.Code != fault.BadRequest || f.At != fault.Index("", 2*i+1) {
			t.Errorf("%q: got %v, want bad_request at %s", badEntries[i], f, fault.Index("", 2*i+1))
		}
	}
	if err := rules.Check(address(t, "https://fine.example")); err != nil {
		t.Errorf("a valid entry between bad ones does not allow its host: %v", err)
	}
}

func TestFaultsHideSecrets(t *testing.T) {
	t.Parallel()
	_, faults := Parse([]string{"https://me:topsecret@example.com", "example.com?key=topsecret", strings.Repeat("x", 100_000) + "*"})
	for _, f := range faults {
		if strings.Contains(f.Error(), "topsecret") || len(f.Message) > 400 {
			t.Errorf("got %.500s, want at most 400 bytes without topsecret", f.Error())
		}
	}
	if len(faults) != 3 {
		t.Errorf("got %d faults, want 3", len(faults))
	}
}

func address(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestDefaultDeniesAll(t *testing.T) {
	t.Parallel()
	for _, r := range []*Rules{nil, {}} {
		if err := r.Check(address(t, "https://example.com/path?x=1")); fault.CodeOf(err) != fault.Denied ||
			!strings.Contains(err.Error(), "calls to example.com are not allowed") || !strings.Contains(err.Error(), "http.allow") || strings.Contains(err.Error(), "path") {
			t.Errorf("got %v, want denied with the host and http.allow, without the path", err)
		}
	}
}

func TestUncallableURLs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"ftp://a.example", "/relative", "http:///x", "http://me:pw@a.example", "http://a.example:0",
		"http://127.1/", "http://[fe80::1%25eth0]/"} {
		if err := AnyPublic().Check(address(t, text)); fault.CodeOf(err) != fault.BadArguments {
			t.Errorf("%s: got %v, want bad_arguments", text, err)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	rules, err := AnyPublic().WithURLs("http://10.0.0.7:8080/base?x", "https://intern.example")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]fault.Code{
		"https://example.com": "", "http://example.com:8443": "", "https://93.184.216.34": "",
		"http://10.0.0.7:8080": "", "http://10.0.0.7": fault.Denied, "http://10.0.0.8:8080": fault.Denied, "http://127.0.0.1": fault.Denied,
		"http://[::ffff:127.0.0.1]": fault.Denied, "http://169.254.169.254": fault.Denied, "http://[fd00:ec2::254]": fault.Denied,
	} {
		if err := rules.Check(address(t, text)); fault.CodeOf(err) != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if err := AnyPublic().Check(address(t, "http://10.0.0.7:8080")); fault.CodeOf(err) != fault.Denied {
		t.Errorf("WithURLs changed other rules: got %v, want denied", err)
	}
}

func TestNamingRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"topsecret", "ftp://topsecret", "http://a:topsecret@b.example", "http://[topsecret", "https://*.topsecret",
		""} {
		_, err := AnyPublic().WithURLs("https://fine.example", text)
		if fault.CodeOf(err) != fault.BadRequest || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%q: got %v, want bad_request without topsecret", text, err)
		}
	}
}

func FuzzRules(f *testing.F) {
	for _, entry := range append(badEntries, "example.com", "https://*.example.com:81", "[::1]:80", "b\u00fccher.example") {
		f.Add(entry, "https://"+entry+"/x?y#z")
	}
	f.Fuzz(func(t *testing.T, entry, text string) {
		rules, faults := Parse([]string{entry})
		if len(faults) > 1 || len(faults) == 1 && faults[0].Code != fault.BadRequest {
			t.Fatalf("got faults %v, want at most one bad_request", faults)
		}
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		if err := rules.Check(u); err == nil && len(faults) > 0 {
			t.Fatalf("the invalid entry %q allows %q", entry, text)
		}
		byName, err := new(Rules).WithURLs(text)
		if (err == nil) != (byName.Check(u) == nil) {
			t.Fatalf("%q: WithURLs returns %v, Check of the new rules %v", text, err, byName.Check(u))
		}
	})
}
