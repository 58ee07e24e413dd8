package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// testEnvironment is what ${VAR} finds in tests.
var testEnvironment = map[string]string{
	"TOKEN": "tok-0123456789", "HOST": "api.example.com", "EMPTY": "", "DIR": "/srv/data", "PASSWORD": "pass word 1", "SHORT": "abc",
	"NAME_OF": "visible-name", "ProgramFiles(x86)": "C:\\Programs",
}

func decodeIn(environment map[string]string, name, text string) (*File, []*fault.Error) {
	return Parse(name, []byte(text), func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	})
}

// mustDecode reads a configuration that has no faults.
func mustDecode(t *testing.T, text string) *File {
	t.Helper()
	c, faults := decodeIn(testEnvironment, "/etc/onecall/onecall.yaml", text)
	if len(faults) > 0 {
		t.Fatalf("%s: %v", text, faults)
	}
	return c
}

func pathsOf(faults []*fault.Error) []string {
	var got []string
	for _, f := range faults {
		got = append(got, fmt.Sprintf("%d:%d %s %s", f.Line, f.Column, f.Code, f.At))
	}
	return got
}

func TestServers(t *testing.T) {
	t.Parallel()
	c := mustDecode(t, `
mcpServers:
  zebra: {command: npx, args: [-y, "@modelcontextprotocol/server-filesystem", ., 8080, 1.10, true], env: {PORT: 8080, A_TOKEN: "${TOKEN}"}, cwd: sub}
  all of it:
    url: https://${HOST}/mcp
    headers: {Authorization: "Bearer ${TOKEN}", X-Api-Version: 2}
    transport: streamable-http
    includeTools: [a, b*]
    excludeTools: [c]
    start: lazy
    startTimeoutMs: 5000
    oauth: {clientId: id, clientSecret: "${TOKEN}", scopes: [x, y], callbackPort: 3118, authServer: https://login.example.com}
  windsurf: {serverUrl: "https://w.example.com/sse", type: sse}
  gemini: {httpUrl: "https://g.example.com/mcp"}
  off: {command: x, disabled: true, env: {A: "${NOT_SET}"}}
  off2: {url: "${NOT_SET}", enabled: false}
`)
	var names, sources, kinds []string
	for _, s := range c.MCPServers {
		names, sources, kinds = append(names, s.Name), append(sources, s.Source()), append(kinds, *s.Config.Type)
	}
	if want := []string{"zebra", "all of it", "windsurf", "gemini", "off", "off2"}; !slices.Equal(names, want) {
		t.Errorf("names %q", names)
	}
	if want := []string{"zebra", "all_of_it", "windsurf", "gemini", "off", "off2"}; !slices.Equal(sources, want) {
		t.Errorf("sources %q", sources)
	}
	if want := []string{"stdio", "http", "sse", "http", "stdio", "http"}; !slices.Equal(kinds, want) {
		t.Errorf("types %q", kinds)
	}
	zebra, all := c.MCPServers[0].Config, c.MCPServers[1].Config
	if *zebra.Command != "npx" || *zebra.Cwd != "sub" ||
		!slices.Equal(zebra.Args, []string{"-y", "@modelcontextprotocol/server-filesystem", ".", "8080", "1.10", "true"}) ||
		!reflect.DeepEqual(zebra.Env, map[string]string{"PORT": "8080", "A_TOKEN": "tok-0123456789"}) {
		t.Errorf("zebra: %+v", zebra)
	}
	if *all.URL != "https://api.example.com/mcp" || all.Headers["Authorization"] != "Bearer tok-0123456789" ||
		all.Headers["X-Api-Version"] != "2" ||
		!slices.Equal(all.IncludeTools, []string{"a", "b*"}) || !slices.Equal(all.ExcludeTools, []string{"c"}) || *all.Start != "lazy" ||
		*all.StartTimeoutMs != 5000 {
		t.Errorf("all: %+v", all)
	}
	o := all.OAuth
	if o == nil || *o.ClientID != "id" || *o.ClientSecret != "tok-0123456789" || !slices.Equal(o.Scopes, []string{"x", "y"}) ||
		*o.CallbackPort != 3118 || *o.AuthServer != "https://login.example.com" {
		t.Errorf("oauth: %+v", o)
	}
	if zebra.Off() || !c.MCPServers[4].Config.Off() || !*c.MCPServers[5].Config.Disabled || zebra.OAuth != nil {
		t.Error("disabled")
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings %v", c.Warnings)
	}
}

// TestClientFiles reads what clients write, as it is.
func TestClientFiles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		warnings   []string
	}{
		{"Claude Desktop", `{"mcpServers": {"files": {"command": "npx", "args": ["-y", "x", "/tmp"], "env": {}}}}`, nil},
		{"Claude Code", `{"mcpServers": {"a": {"type": "stdio", "command": "${DIR}/x", "args": ["${MODE:-fast}"], "env": {"K": "${TOKEN}"}},
			"b": {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer x"}, "headersHelper": "/bin/x", "oauth": {"clientId": "i", "callbackPort": 1}}}}`,
			[]string{"/mcpServers/b/headersHelper"}},
		{"Cursor", `{"mcpServers": {"a": {"type": "stdio", "command": "${userHome}/x", "args": ["${workspaceFolder}${pathSeparator}y", "${workspaceFolder}${/}y"], "env": {"K": "${env:TOKEN}"}, "envFile": ".env"},
			"b": {"url": "https://h/mcp", "env": {"A": "b"}, "auth": {"CLIENT_ID": "x"}}}}`,
			[]string{"/mcpServers/a/envFile", "/mcpServers/b/env", "/mcpServers/b/auth"}},
		{"Cline", `{"mcpServers": {"a": {"autoApprove": ["x"], "alwaysAllow": [], "disabled": false, "timeout": 60, "type": "stdio", "command": "node", "args": []},
			"b": {"type": "streamableHttp", "url": "https://h/mcp", "disabledTools": ["x"], "watchPaths": []}}}`, nil},
		{"Gemini CLI", `{"mcpServers": {"a": {"command": "node", "cwd": "./s", "timeout": 30000, "trust": false, "includeTools": ["x"], "excludeTools": ["y"], "description": "d"},
			"b": {"httpUrl": "https://h/mcp", "authProviderType": "google_credentials", "oauth": {"enabled": true, "redirectUri": "http://x"}}}}`,
			[]string{"/mcpServers/b/authProviderType", "/mcpServers/b/oauth/redirectUri"}},
		{"VS Code", `{"mcpServers": {"a": {"type": "stdio", "command": "x", "dev": {"watch": "y"}, "gallery": true, "version": "1"}}}`, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, faults := decodeIn(testEnvironment, "/etc/onecall/onecall.json", test.text)
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			var got []string
			for _, f := range c.Warnings {
				got = append(got, f.At)
				if f.Line == 0 || f.Message == "" {
					t.Errorf("%+v", f)
				}
			}
			if !slices.Equal(got, test.warnings) {
				t.Errorf("warnings %q, want %q", got, test.warnings)
			}
			if a := c.MCPServers[0].Config; test.name == "Cursor" &&
				(a.Args[0] != filepath.FromSlash("/etc/onecall/y") || a.Args[0] != a.Args[1] || a.Env["K"] != "tok-0123456789") {
				t.Errorf("variables: %q", a.Args)
			}
			if test.name == "Cursor" && c.MCPServers[1].Config.Env != nil {
				t.Error("a server with a url keeps its env")
			}
		})
	}
}

func TestSourceFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string
	}{
		{"neither", "mcpServers:\n  a: {}\n  b:\n", []string{"2:3 bad_request /mcpServers/a", "3:3 bad_request /mcpServers/b"}},
		{"both", "mcpServers: {a: {command: x, url: 'http://h'}}", []string{"1:35 bad_request /mcpServers/a/url"}},
		{"two urls", "mcpServers: {a: {url: 'http://h', serverUrl: 'http://h'}}", []string{"1:35 bad_request /mcpServers/a/serverUrl"}},
		{"types", "mcpServers:\n  a: {command: x, type: http}\n  b: {url: 'http://h', type: stdio}\n  c: {url: 'http://h', type: htp}\n " +
			" d: {command: x, type: x, transport: y}\n", []string{
			"2:25 bad_request /mcpServers/a/type", "3:30 bad_request /mcpServers/b/type", "4:30 bad_request /mcpServers/c/type",
			"5:25 bad_request /mcpServers/d/type", "5:28 bad_request /mcpServers/d/transport"}},
		{"urls", "mcpServers:\n  a: {url: ftp://h}\n  b: {url: h}\n  c: {url: 'http://'}\n  d: {url: 'http://h/%zz'}\n  e: {url: ''}\n", []string{
			"2:12 bad_request /mcpServers/a/url", "3:12 bad_request /mcpServers/b/url", "4:12 bad_request /mcpServers/c/url",
			"5:12 bad_request /mcpServers/d/url",
			"6:12 bad_request /mcpServers/e/url"}},
		{"values", "mcpServers:\n  a: {command: x, start: now, startTimeoutMs: 0, concurrency: 0}\n", []string{
			"2:26 bad_request /mcpServers/a/start", "2:47 bad_request /mcpServers/a/startTimeoutMs", "2:63 bad_request /mcpServers/a/concurrency"}},
		{"kinds", "mcpServers:\n  a: {command: [x], args: x, env: [x], headers: x, includeTools: x, disabled: no}\n  b: 5\n", []string{
			"2:3 bad_request /mcpServers/a", "2:16 bad_request /mcpServers/a/command", "2:27 bad_request /mcpServers/a/args",
			"2:35 bad_request /mcpServers/a/env",
			"2:49 bad_request /mcpServers/a/headers", "2:66 bad_request /mcpServers/a/includeTools", "2:79 bad_request /mcpServers/a/disabled",
			"3:3 bad_request /mcpServers/b", "3:6 bad_request /mcpServers/b"}},
		{"unknown", "mcpServers: {a: {comand: x, command: x, oauth: {clientid: x}}}", []string{
			"1:18 unknown_field /mcpServers/a/comand", "1:48 bad_request /mcpServers/a/oauth", "1:49 unknown_field /mcpServers/a/oauth/clientid"}},
		{"opposite", "mcpServers: {a: {command: x, disabled: true, enabled: true}}", []string{"1:55 bad_request /mcpServers/a/enabled"}},
		{"oauth", "mcpServers:\n  a: {url: 'http://h', type: sse, oauth: {}}\n  b: {url: 'http://h', oauth: {clientSecret: " +
			"plain-secret, callbackPort: 0}}\n", []string{
			"2:42 bad_request /mcpServers/a/oauth", "3:46 bad_request /mcpServers/b/oauth/clientSecret",
			"3:74 bad_request /mcpServers/b/oauth/callbackPort"}},
		{"names", "mcpServers: {fs: {command: x}, a b: {command: x}, a_b: {command: x}, '...': {command: x}, Text: {command: x}, é: " +
			"{command: x}}\nopenapi: {A-B: {spec: x}}\n", []string{
			"1:14 bad_request /mcpServers/fs", "1:51 bad_request /mcpServers/a_b", "1:70 bad_request /mcpServers/...",
			"1:91 bad_request /mcpServers/Text",
			"1:111 bad_request /mcpServers/é", "2:11 bad_request /openapi/A-B"}},
		{"twice", "mcpServers:\n  a: {command: x}\n  a: {command: y}\n", []string{"3:3 bad_json "}},
		{"variables", "mcpServers:\n  a:\n    command: ${NOPE}\n    args: ['${NOPE}', '${input:id}', '${A:-${B}}', '${command:x}', " +
			"'${file:/x}', '${env:NOPE}']\n    env: {A: '${NOPE}'}\n    cwd: ${NOPE}\n  b: {url: '${NOPE}', headers: {A: " +
			"'${NOPE}'}}\nhttp: {allow: [a, '${NOPE}']}\n", []string{
			"4:23 not_supported /mcpServers/a/args/1", "4:38 bad_request /mcpServers/a/args/2",
			"4:52 not_supported /mcpServers/a/args/3", "4:68 not_supported /mcpServers/a/args/4", "8:19 bad_request /http/allow/1"}},
		{"openapi", "openapi:\n  a: {}\n  b: {spec: x, baseUrl: nowhere, spek: y}\n  c: {spec: '${NOPE}', concurrency: 0}\n  d:\n", []string{
			"2:3 bad_request /openapi/a", "3:25 bad_request /openapi/b/baseUrl", "3:34 unknown_field /openapi/b/spek",
			"4:37 bad_request /openapi/c/concurrency", "5:3 bad_request /openapi/d"}},
		{"credentials", `
openapi:
  a:
    spec: x
    headers: {Authorization: "Bearer plain-secret", X-Token: "${TOKEN:-plain-secret}", Accept: text/plain}
    auth:
      key: {value: plain-secret}
      basic: {username: me, password: "x${SHORT:-y}${NOPE:-plain-secret}"}
      client: {clientId: me, clientSecret: plain-secret}
      none: {}
      two: {token: "${TOKEN}", username: me, password: "${TOKEN}"}
      half: {username: me}
      half2: {clientSecret: "${TOKEN}"}
http: {endpoints: {e: {url: "https://h", headers: {X-Api-Key: plain-secret}}}}
`, []string{"5:30 bad_request /openapi/a/headers/Authorization", "5:62 bad_request /openapi/a/headers/X-Token", "7:20 bad_request /openapi/a/auth/key/value",
			"8:39 bad_request /openapi/a/auth/basic/password", "9:44 bad_request /openapi/a/auth/client/clientSecret",
			"10:7 bad_request /openapi/a/auth/none",
			"11:7 bad_request /openapi/a/auth/two", "12:7 bad_request /openapi/a/auth/half", "13:7 bad_request /openapi/a/auth/half2",
			"14:63 bad_request /http/endpoints/e/headers/X-Api-Key"}},
		{"endpoints", "http:\n  endpoints:\n    a: {}\n    b: {url: x, method: get, effect: none, result: x, timeoutMs: 0, idempotent: 1}\n",
			[]string{
				"3:5 bad_request /http/endpoints/a", "4:25 bad_request /http/endpoints/b/method", "4:38 bad_request /http/endpoints/b/effect",
				"4:52 bad_request /http/endpoints/b/result", "4:66 bad_request /http/endpoints/b/timeoutMs",
				"4:81 bad_request /http/endpoints/b/idempotent"}},
		{"functions", "functions:\n  a.b: {effect: x, tier: none, heavy: x, hide: 1, defaults: [1], aliases: {a: 1}, timeoutMs: 0, " +
			"cacheTtl: -1s}\n  'a.*': {rename: ''}\n", []string{
			"2:17 bad_request /functions/a.b/effect", "2:26 bad_request /functions/a.b/tier", "2:39 bad_request /functions/a.b/heavy",
			"2:48 bad_request /functions/a.b/hide",
			"2:61 bad_request /functions/a.b/defaults", "2:79 bad_request /functions/a.b/aliases/a", "2:94 bad_request /functions/a.b/timeoutMs",
			"2:107 bad_request /functions/a.b/cacheTtl", "3:19 bad_request /functions/a.*/rename"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, faults := decodeIn(testEnvironment, "/etc/onecall/onecall.yaml", test.text)
			if got := pathsOf(faults); !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
			for _, f := range faults {
				if f.Message == "" || strings.Contains(f.Message, "plain-secret") {
					t.Errorf("%+v", f)
				}
			}
			if strings.Contains(string(c.Text), "plain-secret") {
				t.Errorf("a secret is left in what is shown: %s", c.Text)
			}
		})
	}
}

// TestUnset: a missing variable disables only the source that uses it; elsewhere it is a fault.
func TestUnset(t *testing.T) {
	t.Parallel()
	c, faults := decodeIn(testEnvironment, "/etc/onecall/onecall.yaml", `mcpServers:
  a: {command: x, args: ['${NOPE}'], env: {B: '${NOPE_TWO}'}}
  b: {url: 'https://${NOPE}/mcp', headers: {Authorization: 'Bearer ${NOPE_TOKEN}'}}
  good: {url: 'https://${HOST}/mcp'}
  off: {url: '${NOPE}', disabled: true}
openapi:
  c: {spec: x, baseUrl: '${NOPE}'}
`)
	if len(faults) > 0 {
		t.Fatal(pathsOf(faults))
	}
	got := map[string]string{}
	for at, f := range c.Unset {
		got[at] = f.At + ": " + f.Message
	}
	const why = ": the environment variable NOPE is not set: set it, or write ${NOPE:-default}"
	want := map[string]string{"/mcpServers/a": "/mcpServers/a/args/0" + why, "/mcpServers/b": "/mcpServers/b/url" + why,
		"/openapi/c": "/openapi/c/baseUrl" + why}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if *c.MCPServers[2].Config.URL != "https://api.example.com/mcp" {
		t.Error(*c.MCPServers[2].Config.URL)
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	c := mustDecode(t, `
http:
  endpoints:
    weather:
      method: POST
      url: https://${HOST}/v1/{city}{?units}
      headers: {X-Api-Key: "${TOKEN}", X-City: "${$input.city}", Authorization: "Bearer ${$input.token}"}
      query: {n: 1.10, list: [a, 1], ref: $input.x, api_key: "${TOKEN}", host: "${HOST}"}
      body: {z: 12345678901234567890123, a: "${$input.city}", e: 1e400, keep: "${0.NOPE}", filled: {"at ${HOST}": ["${HOST}", 1.50], b: "${NOPE:-d}"}, list: [1.0, -0, null, true, ~, ]}
      input: {type: object, properties: {city: {type: string}}}
      output: {type: object}
      description: the weather
      effect: read
      idempotent: true
      result: response
      timeoutMs: 100
    nothing: {url: "https://h/", body: null}
    scalar: {url: "https://h/", body: false}
`)
	e := c.HTTP.Endpoints[0].Config
	if *e.Method != "POST" || *e.URL != "https://api.example.com/v1/{city}{?units}" || e.Headers["X-Api-Key"] != "tok-0123456789" ||
		e.Headers["X-City"] != "${$input.city}" || string(e.Query["n"]) != "1.10" || string(e.Query["list"]) != `["a",1]` ||
		string(e.Query["ref"]) != `"$input.x"` || string(e.Query["api_key"]) != `"tok-0123456789"` ||
		string(e.Query["host"]) != `"api.example.com"` ||
		*e.Description != "the weather" || *e.Effect != "read" || !*e.Idempotent || *e.Result != "response" || *e.TimeoutMs != 100 {
		t.Errorf("%+v", e)
	}
	if got, want := string(e.Body),
		`{"z":12345678901234567890123,"a":"${$input.city}","e":1e400,"keep":"${0.NOPE}","filled":{"at ${HOST}":["api.example.com",1.50],"b":"d"},"list":[1.0,-0,null,true,null]}`; got != want {
		t.Errorf("body %s, want %s", got, want)
	}
	if got, want := string(e.Input), `{"type":"object","properties":{"city":{"type":"string"}}}`; got != want ||
		string(e.Output) != `{"type":"object"}` {
		t.Errorf("schemas %s, %s", got, e.Output)
	}
	if got := string(c.HTTP.Endpoints[1].Config.Body) + string(c.HTTP.Endpoints[2].Config.Body); got != "nullfalse" || e.Query == nil {
		t.Errorf("bodies %s", got)
	}
	if !slices.Equal(c.Secrets, []string{"tok-0123456789"}) {
		t.Errorf("secrets %q", c.Secrets)
	}
}

func TestAnchor(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "onecall.yaml")
	if err := os.WriteFile(path, []byte("mcpServers: {a: {command: ./x, cwd: sub}, b: {command: x, cwd: /abs}}\nfs: {root: .}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	c, faults := Load(path)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	a, b := c.MCPServers[0].Config, c.MCPServers[1].Config
	if *a.Command != "./x" || *a.Cwd != filepath.Join(folder, "sub") || *b.Cwd != "/abs" || *c.FS.Root != folder {
		t.Errorf("%s, %s, %s, %s", *a.Command, *a.Cwd, *b.Cwd, *c.FS.Root)
	}
}
