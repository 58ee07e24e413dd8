package login

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCheckURLText(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string][2]bool{ // whether it is allowed for a remote server, and for one on this machine
		"https://example.com/a?b=c":     {true, true},
		"https://example.com:8443":      {true, true},
		"http://example.com":            {false, false},
		"http://localhost.example.com":  {false, false},
		"http://127.0.0.1:80/":          {false, true},
		"http://[::1]/":                 {false, true},
		"http://[::ffff:127.0.0.1]/":    {false, true},
		"http://localhost:1":            {false, true},
		"http://LOCALHOST.":             {false, true},
		"http://a.localhost":            {false, false},
		"https://127.8.8.8":             {false, true},
		"https://0.0.0.0":               {false, false},
		"https://example.com#x":         {false, false},
		"https://example.com#":          {false, false},
		"https://a@example.com":         {false, false},
		"https:///path":                 {false, false},
		"https:example.com":             {false, false},
		"//example.com":                 {false, false},
		"/relative":                     {false, false},
		"":                              {false, false},
		"javascript:alert(1)":           {false, false},
		"file:///etc/passwd":            {false, false},
		"ftp://localhost":               {false, false},
		"https://exa mple.com":          {false, false},
		"http://127.0.0.1.example.com/": {false, false},
	} {
		if got := [2]bool{checkURLText(address, false) == "", checkURLText(address, true) == ""}; got != ok {
			t.Errorf("%q: accepted (remote, local) %v, want %v", address, got, ok)
		}
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	const endpoint = "https://example.com/a/mcp"
	for resource, ok := range map[string]bool{
		endpoint: true, endpoint + "/": true, "https://example.com": true, "https://example.com/": true, "https://example.com/a": true,
		"https://example.com/a/": true, "HTTPS://Example.com:443/a/mcp": true,
		"https://example.com/a/m": false, "https://example.com/a/mcp/b": false, "https://example.com/b": false, "http://example.com/a/mcp": false,
		"https://example.com:8443/a/mcp": false, "https://sub.example.com/a/mcp": false, "https://example.com.evil.example/a/mcp": false,
		"https://example.com@evil.example/a/mcp": false, "https://me@example.com/a/mcp": false, "https://example.com/a/mcp#x": false,
		"https://example.com/a/mcp?x=y": false, "": false, "%": false,
	} {
		u, err := url.Parse(endpoint)
		if err != nil {
			t.Fatal(err)
		}
		if covers(resource, u) != ok {
			t.Errorf("covers(%q) = %v, want %v", resource, !ok, ok)
		}
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	for in, out := range map[string]string{
		"https://example.com": "https://example.com", "HTTPS://EXAMPLE.com:443/": "https://example.com",
		"http://localhost:80/Mcp#x":  "http://localhost/Mcp",
		"https://example.com/a/?b=C": "https://example.com/a/?b=C", "https://[::1]:443/a%2Fb": "https://[::1]/a%2Fb",
		"https://example.com:80": "https://example.com:80",
	} {
		u, err := url.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := canonical(u); got != out {
			t.Errorf("canonical(%q) = %q, want %q", in, got, out)
		}
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, source := range []string{"hub", "Hub", "a/b", "a_b", "../x", strings.Repeat("ü", 200), "a\nb"} {
		for _, endpoint := range []string{"https://example.com", "https://example.com/a"} {
			key := (&server{o: Options{Source: source}, endpoint: endpoint}).key()
			if seen[key] != "" || strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" || len(key) > 100 {
				t.Errorf("%q has the key %q, which is not valid or that of %q", source, key, seen[key])
			}
			seen[key] = source
		}
	}
}

// FuzzWords: any text of a server is shown short, on one line, printable, and without the secret.
func FuzzWords(f *testing.F) {
	f.Add("invalid_grant", "secret")
	f.Add("a\x00\x1b[2J\r\nb\xff", "b")
	f.Add(strings.Repeat("long ", 100), "ng lo")
	f.Fuzz(func(t *testing.T, message, secret string) {
		got := clean(message, secret)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > 201 || strings.ContainsAny(got, "\r\n\t\x00\x1b") {
			t.Errorf("clean returns %q, want at most 201 characters, without line breaks and control codes", got)
		}
		if secret != "" && strings.Contains(message, secret) && got != clean(message, message) {
			t.Errorf("%q repeats the secret %q", got, secret)
		}
	})
}

// FuzzDiscovery: no header and no resource of a server causes a panic, and a resource that counts as the server's own has its origin.
func FuzzDiscovery(f *testing.F) {
	f.Add(`Bearer resource_metadata="https://example.com/meta", scope="a b"`, "https://example.com/")
	f.Add(`Basic realm="x", Bearer error=insufficient_scope`, "https://example.com/a/../mcp")
	f.Add("\"", "https://example.com\\@evil.example")
	f.Add(`Bearer a="\`, "https://example.com:0443/mcp")
	endpoint, err := url.Parse("https://example.com/mcp")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, header, resource string) {
		all := challengesOf(http.Header{"Www-Authenticate": {header}})
		_ = checkURLText(challengeParam(all, "resource_metadata"), false)
		if !covers(resource, endpoint) {
			return
		}
		u, err := url.Parse(resource)
		if err != nil || !strings.EqualFold(u.Hostname(), "example.com") || u.Scheme != "https" {
			t.Errorf("covers(%q) = true, want false", resource)
		}
	})
}
