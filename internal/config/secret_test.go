package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// TestSecretsCollected: the list has exactly the secrets that are written out or expanded.
func TestSecretsCollected(t *testing.T) {
	t.Parallel()
	c := mustDecode(t, `
mcpServers:
  a: {command: x, args: ["--key=${TOKEN}", "${NAME_OF}"], env: {A_KEY: literal-key, B: visible-value, C_PASS: abc, TOKEN_FILE: /some/path/of/it, DB: "postgres://me:db-password@h/x"}}
  b: {url: "https://me:url-password@h/mcp?api_key=query-secret&page=visible", headers: {Authorization: Bearer literal-bearer, Accept: application/json, Mcp-Version: visible-version, X-Own: header-value}}
  c: {command: x, disabled: true, env: {A_KEY: disabled-secret}}
  d: {command: docker, args: [--api-key, literal-flag, -e, "A_TOKEN=literal-pair", --header, "Authorization: Bearer literal-own", --token-file, visible-file, -e, VISIBLE=visible-pair, --token, --visible]}
http: {allow: ["${HOST}"]}
`)
	want := []string{"Bearer literal-bearer", "Bearer literal-own", "db-password", "header-value", "literal-bearer", "literal-flag",
		"literal-key", "literal-own",
		"literal-pair", "query-secret", "tok-0123456789", "url-password"}
	if !slices.Equal(c.Secrets, want) {
		t.Errorf("secrets %q", c.Secrets)
	}
	for _, secret := range []string{"literal", "header-value", "disabled-secret", "query-secret"} {
		if strings.Contains(string(c.Text), secret) {
			t.Errorf("%s is left in what is shown:\n%s", secret, c.Text)
		}
	}
	for _, plain := range []string{"visible-value", "application/json", "${TOKEN}", "/some/path/of/it", "visible-version", "visible-file",
		"visible-pair", "--visible"} {
		if !strings.Contains(string(c.Redacted), plain) {
			t.Errorf("%s is not shown:\n%s", plain, c.Redacted)
		}
	}
}

// TestShownFaults: what a person is shown of an invalid configuration contains no secret, written or expanded.
func TestShownFaults(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"mcpServers": {"a": {"comand": "x", "env": {"MY_TOKEN": "plain-secret"}, "headers": {"X": "plain-secret"}, "url": "http://h/${NOPE}"}}}`,
		`{"mcpServers": {"a": {"url": "http://h", "headers": "Bearer plain-secret", "args": "x"`,
		`{"mcpServers": {"a": {"url": "http://h", "headers": {"Authorization": "plain-secret`,
		`{"mcpServers": {"a": {"url": "ftp://me:plain-secret@h"}}, "Authorization": "plain-secret"}`,
		`{"mcpServers": {"a": {"command": "x", "start": "y", "env": {"A_TOKEN": "pl\u0061in-secret"}, "bad": 1}}}`,
		`{"openapi": {"a": {"spec": 1, "auth": {"k": {"value": "plain-secret"}}, "baseUrl": "${TOKEN}"}}}`,
	} {
		c, faults := decodeIn(testEnvironment, "onecall.json", text)
		if len(faults) == 0 {
			t.Fatalf("%s has no faults", text)
		}
		shown := shownFaults(c, faults)
		for _, secret := range []string{"plain-secret", "in-secret", testEnvironment["TOKEN"]} {
			if strings.Contains(shown, secret) {
				t.Errorf("%s\nis shown as\n%s", text, shown)
			}
		}
	}
}

func TestConfigJSON(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"1.10": "1.10", "-0": "-0", "12345678901234567890123456789": "12345678901234567890123456789", "1e400": "1e400", "1E5": "1E5",
		"0.1e+5": "0.1e+5",
		`"1.10"`: `"1.10"`, "'1'": `"1"`, "2024-01-01": `"2024-01-01"`, "2024-01-01T00:00:00Z": `"2024-01-01T00:00:00Z"`,
		"12:30:45": `"12:30:45"`, "1.2.3": `"1.2.3"`,
		"yes": `"yes"`, "true": "true", "null": "null", "~": "null", "[]": "[]", "{}": "{}", "[1, [2, {a: 3}]]": "[1,[2,{\"a\":3}]]",
		"{b: 1, a: 2, '1': 3, 2: 4}": `{"b":1,"a":2,"1":3,"2":4}`,
		`"é <b>\n\u0000"`:            `"é \u003cb\u003e\n\u0000"`, "\n      a: |\n        x\n        y\n": `{"a":"x\ny\n"}`,
		"\n      - &x {k: 1}\n      - *x\n": `[{"k":1},{"k":1}]`, "\n      a:\n": `{"a":null}`,
	} {
		c, faults := decodeConfig("onecall.yaml", "http:\n  endpoints:\n   e:\n    url: x\n    body: "+written+"\n")
		if len(faults) > 0 {
			t.Errorf("%s: %v", written, faults)
			continue
		}
		if got := string(c.HTTP.Endpoints[0].Config.Body); got != want {
			t.Errorf("%s is %s, want %s", written, got, want)
		}
	}
	for _, written := range []string{"0x1F", "0o17", "1_000", "007", "+5", ".5", "1.", ".inf", ".nan", "0b11", "089", "!!str 5",
		"{<<: {a: 1}}", "{a: [1, &x [*x]]}", "*none"} {
		c, faults := decodeConfig("onecall.yaml", "http: {endpoints: {e: {url: x, body: "+written+"}}}")
		if len(faults) != 1 || faults[0].Line != 1 || !strings.HasPrefix(faults[0].At, "/http/endpoints/e/body") {
			t.Errorf("%s: %v", written, faults)
		} else if got := string(c.HTTP.Endpoints[0].Config.Body); got != "null" {
			t.Errorf("%s is %s", written, got)
		}
	}
	c, faults := decodeConfig("onecall.json",
		`{"http": {"endpoints": {"e": {"url": "x", "body": {"b": 18446744073709551616, "a": 1.50, "c": "x\u00e9\/\ud83d\ude00", "b2": 1E5}}}}}`)
	if len(faults) > 0 || string(c.HTTP.Endpoints[0].Config.Body) != `{"b":18446744073709551616,"a":1.50,"c":"xé/😀","b2":1E5}` {
		t.Errorf("JSON: %s, %v", c.HTTP.Endpoints[0].Config.Body, faults)
	}
}

// TestRepeatedAliases: a small text whose aliases multiply is refused before it fills the memory.
func TestRepeatedAliases(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("http:\n  endpoints:\n    e:\n      url: x\n      body:\n      - &a [1,1,1,1,1,1,1,1,1,1]\n")
	for i := range 12 {
		last, next := string(rune('a'+i)), string(rune('b'+i))
		b.WriteString("      - &" + next + " [" + strings.Repeat("*"+last+",", 9) + "*" + last + "]\n")
	}
	_, faults := decodeConfig("onecall.yaml", b.String())
	if len(faults) != 1 || faults[0].Code != fault.LimitExceeded {
		t.Errorf("faults %v", faults)
	}
	text := "mcpServers:\n  a: {command: x, args: &l [" + strings.Repeat("x,", 5000) + "x]}\n"
	for i := range 100 {
		text += "  s" + strings.Repeat("x", i+1) + ": {command: x, args: *l}\n"
	}
	if _, faults := decodeConfig("onecall.yaml", text); len(faults) != 1 || faults[0].Code != fault.LimitExceeded {
		t.Errorf("lists: %d faults", len(faults))
	}
}
