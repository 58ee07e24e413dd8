package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// emptyHash is the SHA-256 of no text; someHash looks like one.
var (
	emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	someHash  = strings.Repeat("0123456789abcdef", 4)
)

func TestConfigAccess(t *testing.T) {
	t.Parallel()
	c, faults := decodeIn(map[string]string{"CI_HASH": someHash}, "onecall.yaml", `
access:
  stdio: admin
  tokens:
    - {name: ci, sha256: "${CI_HASH}", tier: read_write, functions: ["netbox.*", fs.list]}
    - name: people
      sha256: `+someHash+`
  jwt: {issuer: "https://id.example.com", audience: "https://tools.example.com/mcp", keys: keys.json,
    scopes: {onecall.read: read, "onecall.write": read_write}}
  url: "https://tools.example.com/mcp"
  hosts: ["onecall.internal:8080", 192.0.2.7, "[2001:db8::1]:8080", localhost]
  limits: {calls: 6}
session: {maxTokens: 7}
results: {store: "rediss://u:password-of-redis@redis.internal/1"}
limits: {maxSessions: 8}
`)
	if len(faults) > 0 || len(c.Warnings) > 0 {
		t.Fatal(faults, c.Warnings)
	}
	ci, people, jwt := &c.Access.Tokens[0], &c.Access.Tokens[1], c.Access.JWT
	if *ci.Name != "ci" || *ci.SHA256 != someHash || *ci.Tier != "read_write" ||
		!slices.Equal(ci.Functions, []string{"netbox.*", "fs.list"}) ||
		*people.Name != "people" || *people.SHA256 != someHash || people.Tier != nil || people.Functions != nil {
		t.Errorf("tokens %+v, %+v", ci, people)
	}
	if *jwt.Issuer != "https://id.example.com" || *jwt.Audience != "https://tools.example.com/mcp" ||
		jwt.Scopes["onecall.write"] != "read_write" {
		t.Errorf("jwt %+v", jwt)
	}
	limits := c.Access.Limits
	if *limits.Calls != 6 || *c.Limits.MaxSessions != 8 ||
		*c.Session.MaxTokens != 7 || *c.Access.URL != "https://tools.example.com/mcp" || len(c.Access.Hosts) != 4 {
		t.Errorf("read %+v", c.Config)
	}
	if !slices.Equal(c.Secrets, []string{"password-of-redis"}) {
		t.Errorf("secrets %q", c.Secrets)
	}
	if !c.Access.ByToken() || (&Access{}).ByToken() {
		t.Error("byToken")
	}
}

// TestConfigKeysFile: the path of an issuer's keys is relative to the configuration; a URL is unchanged.
func TestConfigKeysFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for written, want := range map[string]string{"keys.json": filepath.Join(folder, "keys.json"), "/etc/keys.json": "/etc/keys.json",
		"https://h/keys": "https://h/keys"} {
		c, faults := Load(writeFile(t, folder, "onecall.yaml",
			"access: {jwt: {issuer: 'https://h', audience: a, scopes: {s: read}, keys: '"+written+"'}}\n"))
		if len(faults) > 0 || *c.Access.JWT.Keys != want {
			t.Errorf("%s: %s, %v", written, *c.Access.JWT.Keys, faults)
		}
	}
}

func TestConfigAccessFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, pointer, says string }{
		{"access: {tokens: []}", "1:18 bad_request /access/tokens", "leave out tokens if no client has one"},
		{"access: {tokens: null}", "1:18 bad_request /access/tokens", "leave out tokens if no client has one"},
		{"access:\n  http: admin\n  tokens:\n#   - {name: ci, sha256: x}\nlite: true\n", "3:10 bad_request /access/tokens",
			"leave out tokens if no client has one"},
		{"access: {jwt: ~}", "1:15 bad_request /access/jwt", "leave it out if no client has such a token"},
		{"access: {tokens: {ci: x}}", "1:18 bad_request /access/tokens", "must be a list of objects, not an object"},
		{"access: {tokens: [{}]}", "1:19 bad_request /access/tokens/0", "name, sha256 are missing"},
		{"access: {tokens: [{name: ci}]}", "1:19 bad_request /access/tokens/0", "sha256 is missing"},
		{"access: {tokens: [{nam: ci, NS}]}", "1:20 unknown_field /access/tokens/0/nam", `unknown key "nam"`},
		{"access: {tokens: [{name: [ci], sha256: x}]}", "1:26 bad_request /access/tokens/0/name", "must be a string, not a list"},
		{"access: {tokens: [{tier: reed, NS}]}", "1:26 bad_request /access/tokens/0/tier",
			`unknown value "reed": use read or read_write or admin`},
		{"access: {tokens: [{functions: [], NS}]}", "1:31 bad_request /access/tokens/0/functions", "leave it out where all are meant"},
		{"access: {tokens: [{functions: fs.*, NS}]}", "1:31 bad_request /access/tokens/0/functions", "must be a list of strings"},
		{"access: {tokens: [{functions: [fs.list, 'a b'], NS}]}", "1:41 bad_request /access/tokens/0/functions/1", "holds blanks"},
		{"access: {tokens: [{functions: [''], NS}]}", "1:32 bad_request /access/tokens/0/functions/0", "is empty"},
		{"access: {tokens: [{sha256: '${NOT_SET_HERE}', name: ci}]}", "1:28 bad_request /access/tokens/0/sha256",
			"the environment variable NOT_SET_HERE is not set"},
		{"access: {jwt: []}", "1:15 bad_request /access/jwt", "must be an object"},
		{"access: {jwt: {}}", "1:15 bad_request /access/jwt", "issuer, audience, scopes are missing"},
		{"access: {jwt: {issuer: 'https://h', audience: a, scopes: {}}}", "1:15 bad_request /access/jwt", "scopes is missing"},
		{"access: {jwt: {scope: {}, JWT}}", "1:16 unknown_field /access/jwt/scope", "unknown key"},
		{"access: {jwt: {scopes: {a: none}, issuer: 'https://h', audience: a}}", "1:28 bad_request /access/jwt/scopes/a",
			`unknown value "none": use read or read_write or admin`},
		{"access: {jwt: {keys: '', JWT}}", "1:22 bad_request /access/jwt/keys", "must not be empty"},
		{"access: {url: tools.example.com}", "1:15 bad_request /access/url", "must be a URL that begins with http:// or https://"},
		{"access: {url: 'https://u:pass-word@h/mcp'}", "1:15 bad_request /access/url", "without a user, a query or a fragment"},
		{"access: {url: 'https://h/mcp?surface=flat'}", "1:15 bad_request /access/url", "without a user, a query or a fragment"},
		{"access: {hosts: ['https://h']}", "1:18 bad_request /access/hosts/0", "must be a host as clients name it"},
		{"access: {hosts: [h, '*.h']}", "1:21 bad_request /access/hosts/1", "must be a host as clients name it"},
		{"access: {hosts: ['h:']}", "1:18 bad_request /access/hosts/0", "must be a host as clients name it"},
		{"access: {hosts: ['h/mcp']}", "1:18 bad_request /access/hosts/0", "must be a host as clients name it"},
		{"access: {hosts: ['u@h']}", "1:18 bad_request /access/hosts/0", "must be a host as clients name it"},
		{"access: {hosts: ['h:x']}", "1:18 bad_request /access/hosts/0", "must be a host as clients name it"},
		{"access: {hosts: ['']}", "1:18 bad_request /access/hosts/0", "must be a host as clients name it"},
		{"access: {limits: {calls: -1}}", "1:26 bad_request /access/limits/calls", "must be at least 1"},
		{"access: {limits: {calls: many}}", "1:26 bad_request /access/limits/calls", "must be a whole number"},
		{"results: {ttl: 500ms}", "1:16 bad_request /results/ttl", "must be at least 1s"},
		{"limits: {maxSessions: 0}", "1:23 bad_request /limits/maxSessions", "must be at least 1"},
	} {
		text := strings.NewReplacer("NS}", "name: ci, sha256: x}", "JWT}",
			"issuer: 'https://h', audience: a, scopes: {s: read}}").Replace(test.text)
		c, faults := decodeConfig("onecall.yaml", text)
		var got []string
		for _, f := range faults {
			got = append(got, fmt.Sprintf("%d:%d %s %s", f.Line, f.Column, f.Code, f.At))
			if !strings.Contains(f.Message, test.says) {
				t.Errorf("%s: %q does not say %q", test.text, f.Message, test.says)
			}
		}
		if !slices.Equal(got, []string{test.pointer}) {
			t.Errorf("%s: %q, want %q", test.text, got, test.pointer)
		}
		if len(c.Warnings) > 0 {
			t.Errorf("%s: %v", test.text, c.Warnings)
		}
	}
}

// TestIdleHTTPTier: access.http has no effect if tokens are configured.
func TestIdleHTTPTier(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"access: {http: read}": false,
		"access: {tokens: [{name: ci, sha256: " + someHash + "}]}":                            false,
		"access: {http: admin, tokens: [{name: ci, sha256: " + someHash + "}]}":               true,
		"access: {http: read, jwt: {issuer: 'https://h', audience: a, scopes: {read: read}}}": true,
	} {
		c, faults := decodeConfig("onecall.yaml", text)
		if len(faults) > 0 || (len(c.Warnings) == 1 && c.Warnings[0].At == "/access/http") != want {
			t.Errorf("%s: %v, %v", text, faults, c.Warnings)
		}
	}
}

// TestTokensAreNotShown: a token written in place of its hash, its entry or a list is not shown in a fault.
func TestTokensAreNotShown(t *testing.T) {
	t.Parallel()
	const token = "oc_d2hvZXZlciByZWFkcyB0aGlzIGlzIGN1cmlvdXM"
	for _, text := range []string{
		"access: {tokens: [{name: ci, sha256: TOKEN, bogus: 1}]}",
		"access:\n  tokens:\n    - name: ci\n      bogus: 1\n      sha256: TOKEN # TOKEN\n",
		"access: {tokens: TOKEN, bogus: 1}",
		"access:\n  bogus: 1\n  tokens:\n    - TOKEN\n    - name: a\n      bogus: 1\n",
		"access: {tokens: [TOKEN], bogus: 1}",
		"access: {tokens: [[TOKEN]], bogus: 1}",
		"access: {tokens: [{name: ci, token: TOKEN}]}",
		`{"access": {"tokens": [{"name": "ci", "sha256": "TOKEN", "bogus": 1}]}}`,
		`{"access": {"tokens": ["TOKEN"]}}`,
		"access: {tokens: [{name: ci, sha256: [TOKEN]}]}",
	} {
		c, faults := decodeConfig("onecall.yaml", strings.ReplaceAll(text, "TOKEN", token))
		if len(faults) == 0 {
			t.Errorf("no faults in %s", text)
		}
		if shown := shownFaults(c, faults); strings.Contains(shown, token[3:20]) {
			t.Errorf("%s is answered\n%s", text, shown)
		}
	}
	c, _ := decodeConfig("onecall.yaml", "tokens: {encoding: o100k}\naccess: {tokens: [{name: a, tier: b}]}\n")
	if !strings.Contains(string(c.Text), "o100k") || !strings.Contains(string(c.Text), "tier: b") {
		t.Errorf("what is no secret is not shown:\n%s", c.Text)
	}
}
