package config

import (
	"fmt"
	"strings"
	"testing"
)

// shownFaults returns all that is said of the faults and warnings of a configuration.
func shownFaults(name, text string) string {
	c, faults := decodeIn(testEnvironment, name, text)
	var b strings.Builder
	for _, f := range append(faults, c.Warnings...) {
		fmt.Fprintln(&b, f, f.Nearest)
	}
	return b.String()
}

// TestMask: a text that cannot be parsed is masked, too, and columns are preserved.
func TestMask(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"Authorization": "Bearer abc", "x": 1}`:  `{"Authorization": "**********", "x": 1}`,
		`{"Authorization":"abc","x":1`:             `{"Authorization":"***","x":1`,
		"  api_key: a b # c\n  x: y\n":             "  api_key: *******\n  x: y\n",
		"TOKEN: 'é1'\nx: 2":                        "TOKEN: '**'\nx: 2",
		`token: "a\"b" , c: d`:                     `token: "****" , c: d`,
		"token: ${TOKEN} x":                        "token: ${TOKEN}**",
		"token: '${TOKEN:-abc}'":                   "token: '${TOKEN:-***}'",
		"auth: {a: 1}":                             "auth: {a: 1}",
		"tokens: 5\nbudget: {maxTotalTokens: 149}": "tokens: 5\nbudget: {maxTotalTokens: 149}",
		`url: "https://h/?token=abc&x=1"`:          `url: "https://h/?token=***&x=1"`,
		`args: [--api-key=abc, x]`:                 `args: [--api-key=***, x]`,
		`headers: {Cookie: a`:                      `headers: {Cookie: *`,
		`token: "abc`:                              `token: "***`,
		`token: "", key: '', x: "`:                 `token: "", key: '', x: "`,
		`url: redis://me:abc@h/0`:                  `url: redis://me:***@h/0`,
	} {
		if got := string(maskSecrets([]byte(text), nil)); got != want {
			t.Errorf("masking %s:\ngot  %s\nwant %s", text, got, want)
		}
	}
	if got := string(maskSecrets([]byte("x: |\n  one two\n  three\n"), []string{"one two\nthree\n"})); got != "x: |\n  *******\n  *****\n" {
		t.Errorf("masking a secret of two lines: got %q, want asterisks for its letters", got)
	}
}

// TestFaultsShowNoSecret: no fault shows a secret, wherever and however it is written.
func TestFaultsShowNoSecret(t *testing.T) {
	t.Parallel()
	const server = "mcpServers:\n  a: {bad: 1, command: x, "
	for _, text := range []string{
		"openapi: {a: {spec: x, auth: {k: qq-hidden-1}}}",
		"openapi: {a: {spec: x, auth: {k: {vlue: qq-hidden-1}}}}",
		"openapi: {a: {spec: x, auth: {k: {value: [qq-hidden-1]}}}}",
		"openapi: {a: {spec: x, auth: {k: !!str qq-hidden-1}}}",
		"openapi: {a: {spec: x, auth: {k: {value: !x qq-hidden-1}}}}",
		"openapi: {a: {spec: x, auth: {k: &n qq-hidden-1, l: *n}}}",
		"x: &n {k: qq-hidden-1}\nopenapi: {a: {spec: x, auth: *n}}",
		"openapi:\n  a:\n    spec: x\n    auth:\n      k: |\n        qq-hidden-1\n        qq-hidden-1\n      l: >-\n        one qq-hidden-1\n",
		"openapi:\n  a:\n    spec: x\n    auth:\n      k:\n      - qq-hidden-1\n      - one\n        qq-hidden-1\n      - \"one\n       " +
			" qq-hidden-1\"\n",
		server + "env: {API_TOKEN: [qq-hidden-1]}}",
		server + "env: {API_TOKEN: {a: [qq-hidden-1]}}}",
		server + "env: [API_TOKEN=qq-hidden-1]}",
		server + "env: {qq-hidden-1}}",
		server + "env: {'API_TOKEN=qq-hidden-1': }}",
		server + "env: qq-hidden-1}",
		server + "environ: {API_TOKEN: [qq-hidden-1]}}",
		server + "headers: [Authorization, Bearer qq-hidden-1]}",
		server + "args: [é, 'ß', --token, \"qq-hidden-1\"]}",
		server + "args: [--token, qq-hidden-1]}",
		server + "args: [\"--token\", \"qq-hidden-1\" \"y\"]}",
		server + "args: [\"--token\", \"qq-hidden-1\" ",
		server + "args: [x] # qq-hidden-1\n  }",
		"mcpServers:\n  a:\n    env:\n      A: b\n     qq-hidden-1: x\n",
		"mcpServers:\n  a:\n    env:\n      A: \"qq-hidden-1\n",
		"fs: {root: x}\n---\n{env: {API_TOKEN: [qq-hidden-1]}, args: *n}\n",
		server + "url: [\"https://h/s/qq-hidden-1-0123456789/mcp\"]}",
		"\ufeffmcpServers: {a: {env: {A: qq-hidden-1}}}",
		"mcpServers:\r\n  a:\r\n    bad: 1\r\n    env:\r\n      A: qq-hidden-1\r\n      B: |\r\n        qq-hidden-1\r\n",
	} {
		for _, name := range []string{"onecall.yaml", "onecall.json"} {
			if shown := shownFaults(name, text); strings.Contains(shown, "hidden-1") {
				t.Errorf("%s\nshows a secret:\n%s", text, shown)
			}
		}
	}
}

// TestSecretParts: what init shows contains none of the secrets inside a value.
func TestSecretParts(t *testing.T) {
	t.Parallel()
	for _, server := range []string{
		`{command: x, env: {OPENAPI_MCP_HEADERS: "{\"Authorization\": \"Bearer qq-hidden-1\", \"Notion-Version\": \"visible-1\"}"}}`,
		`{command: x, env: {HEADERS: "{\"a\": {\"api_key\": [\"qq-\\\\\\\"hidden-1\"]}, \"b\": \"visible-1\"}"}}`,
		`{command: x, env: {DATABASE_URL: "Server=visible-1;Password=qq-hidden-1;"}}`,
		`{command: x, env: {DB: "AccountName=visible-1;Account Key = 'qq-hidden-1'"}}`,
		`{command: x, env: {DB: "postgres://visible-1:qq-hidden-1@h:5/x"}}`,
		`{command: x, args: [visible-1, "postgres://me:qq-%zz-hidden-1@h:5/x"]}`,
		`{command: x, args: [visible-1, "https://qq-hidden-1-0123456789@github.com/x"]}`,
		`{command: x, args: [visible-1, -k, qq-hidden-1]}`,
		`{command: x, args: [visible-1, -p, qq-hidden-1]}`,
		`{command: x, args: [visible-1, -y, mcp-remote, "https://mcp.zapier.com/api/mcp/s/qqHidden10123456789abcdef/mcp"]}`,
		`{command: x, env: {VISIBLE: visible-1, N: qqHidden10123456789abcdef}}`,
		`{url: "https://mcp.zapier.com/visible-1/mcp/s/qqHidden10123456789abcdef/mcp"}`,
		`{url: "https://mcp.zapier.com/visible-1/mcp?s=qqHidden10123456789abcdef"}`,
	} {
		for _, off := range []string{"", ", disabled: true"} {
			text := "mcpServers:\n  a: " + strings.TrimSuffix(server, "}") + off + "}\n"
			c, faults := decodeIn(testEnvironment, "/etc/onecall/onecall.yaml", text)
			shown := strings.ToLower(string(c.Redacted))
			if len(faults) > 0 || strings.Contains(shown, "hidden") || !strings.Contains(shown, "visible-1") {
				t.Errorf("got faults %v, redacted\n%s\nwant no fault, visible-1 and no hidden", faults, shown)
			}
			if collected := strings.Join(c.Secrets, " "); off == "" && strings.Contains(server, "qq-hidden-1") &&
				!strings.Contains(server, "-p, ") != strings.Contains(collected, "hidden-1") ||
				off != "" && collected != "" || strings.Contains(collected, "visible") {
				t.Errorf("%s\nhas the secrets %q", text, c.Secrets)
			}
		}
	}
	c := mustDecode(t, `
mcpServers:
  a: {command: docker, args: [run, -p, "8080:80", -p, "@scope/visible-1", -t, visible-2], env: {A_TOKEN: "Bearer ${TOKEN}"}}
  b: {url: "https://h/a-path-of-words-only/mcp", headers: {Authorization: "Bearer ${NONE_SUCH}"}, disabled: true}
`)
	for _, plain := range []string{"8080:80", "@scope/visible-1", "visible-2", "a-path-of-words-only", "${TOKEN}", "${NONE_SUCH}"} {
		if !strings.Contains(string(c.Redacted), plain) {
			t.Errorf("the redacted text lacks %s:\n%s", plain, c.Redacted)
		}
	}
}

// TestStoresNotShown: an invalid store may be a URL with a password anywhere in it. Of such a value, the fault shows only the scheme.
func TestStoresNotShown(t *testing.T) {
	t.Parallel()
	for _, store := range []string{
		"redis:/usr-name:qq-hidden-1@h", "rediss//usr-name:qq-hidden-1@h", "Redis://usr-name:qq-hidden-1@h",
		" redis://usr-name:qq-hidden-1@h", "redis:usr-name:qq-hidden-1@h",
		"redis//:qq-hidden-1@h", "usr-name:qq-hidden-1@h", "qq-hidden-1@h", "qq-hidden-1", "mysql://usr-name:qq/hidden-1@h",
		"redis ://usr-name:qq#hidden-1@h", "redis:/usr-name:qq?hidden-1@h",
		"redis://usr-name:qq-#hidden-1@h", "redis://usr-name:qq/hidden-1@h:1", "rediss://qq-hidden-1@[", "redis:\\\\usr-name:qq-hidden-1@h",
		"x ${TOKEN} redis://:qq-hidden-1@h",
	} {
		for _, key := range []string{"results: {store: %s}", "results: {stor: %s}", "results:\n  store: %s\n  ttl: 5", "results: {store: [%s]}",
			"results: {store: {url: %s}}", "x: &s %s\nresults: {store: *s}", "results: {store: %s"} {
			written := "'" + store + "'"
			for _, name := range []string{"onecall.yaml", "onecall.json"} {
				text := fmt.Sprintf(key, written)
				shown := shownFaults(name, text)
				if strings.Contains(shown, "hidden-1") || strings.Contains(shown, "usr-name") || shown == "" {
					t.Errorf("%s\nshows a secret or nothing:\n%s", text, shown)
				}
			}
		}
	}
	for text, want := range map[string]string{
		"results: {store: 'redis:/u:p@h'}":  `results are not kept in Redis or Valkey: write postgres`,
		"results: {store: 'mysql://u:p@h'}": `unknown store mysql:/…: use memory or disk or postgres`,
		"results: {store: ' memory'}":       `unknown store, with a blank before or after it: use memory or disk or postgres`,
		"results: {store: disc}":            `unknown store: use memory or disk or postgres`,
	} {
		if shown := shownFaults("onecall.yaml", text); !strings.Contains(shown, want) {
			t.Errorf("%s\nis shown as\n%s\nwhich lacks\n%s", text, shown, want)
		}
	}
}
