package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp/transport"
)

// TestLimitDefaults compares the limits in the schema with the server's.
func TestLimitDefaults(t *testing.T) {
	t.Parallel()
	var o transport.Options
	if err := o.ApplyDefaults(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"access.properties.limits.properties.calls": o.Limits(true).Calls,
		"limits.properties.maxSessions": o.MaxSessions} {
		if got := gjson.GetBytes(schema, "properties."+path+".default").Int(); got != int64(want) {
			t.Errorf("%s: the default is %d, the schema says %d", path, want, got)
		}
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0B": 0, "12B": 12, "1KB": 1000, "1KiB": 1024, "64MiB": 64 << 20, "2 GB": 2e9,
		"1GiB": 1 << 30, "8589934591GiB": 8589934591 << 30} {
		if got, ok := parseSize(text); got != want || !ok {
			t.Errorf("%s: %d, %v; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "5", "-1B", "1.5MB", "1mb", "1TB", "1 MB ", "9223372036854775808B", "8589934592GiB", "B"} {
		if got, ok := parseSize(text); ok {
			t.Errorf("%q is accepted as %d", text, got)
		}
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	v := &variables{folder: "/etc/onecall", lookup: func(name string) (string, bool) {
		value, ok := testEnvironment[name]
		return value, ok
	}}
	for written, want := range map[string]string{
		"": "", "plain $TOKEN $ {x} }": "plain $TOKEN $ {x} }", "${SHORT}": "abc", "a${SHORT}b${SHORT}": "aabcbabc",
		"${NONE:-x y}": "x y", "${NONE:-}": "", "${EMPTY:-x}": "", "${SHORT:-x}": "abc", "${env:SHORT}": "abc", "${env:NONE:-d}": "d",
		"${env:ProgramFiles(x86)}": "C:\\Programs",
		"$${SHORT}":                "$abc", "${": "${", "${SHORT": "${SHORT", "${}": "${}", "${$input.x}": "${$input.x}", "${0.a}": "${0.a}",
		"${a.b} ${SHORT}": "${a.b} abc",
		"${a-b}":          "${a-b}", "${env:}": "${env:}", "${workspaceFolder}/x": "/etc/onecall/x", "${/}": string('/'), "x${${SHORT}": "x${abc",
	} {
		if got, f := v.fill(written); f != nil || got.text != want {
			t.Errorf("%q gives %q, %v; want %q", written, got.text, f, want)
		}
	}
	for written, want := range map[string]string{
		"${NONE}": "NONE", "x${SHORT}${env:NONE}": "NONE", "${input:x}": "${input:", "${A:-${B}}": "${A:-", "${command:x}": "${NAME}",
		"${config:a.b}": "${NAME}", "${file:/x}": "${NAME}",
	} {
		got, f := v.fill(written)
		if f == nil || !strings.Contains(f.Message, want) || got.text != "" {
			t.Errorf("%q gives %q, %v", written, got.text, f)
		}
	}
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
			t.Errorf("%s\nis %s\nnot %s", text, got, want)
		}
	}
	if got := string(maskSecrets([]byte("x: |\n  one two\n  three\n"), []string{"one two\nthree\n"})); got != "x: |\n  *******\n  *****\n" {
		t.Error(got)
	}
}

func TestServices(t *testing.T) {
	t.Parallel()
	c := mustDecode(t, `
openapi:
  netbox:
    spec: ./netbox.yaml
    baseUrl: https://${HOST}/api
    headers: {Authorization: "Token ${TOKEN}", Accept: application/json, X-Flag: true}
    auth:
      key: {value: "${TOKEN}"}
      bearer: {token: "${TOKEN}"}
      basic: {username: me, password: "${PASSWORD}"}
      client: {clientId: "${NAME_OF}", clientSecret: "${TOKEN}", tokenUrl: "https://${HOST}/token", scopes: [a]}
    include: ["dcim.*"]
    exclude: ["*.delete"]
  remote: {spec: "https://${HOST}/openapi.json"}
http:
  allow: ["${HOST}", "*.example.org"]
`)
	netbox := c.OpenAPI[0].Config
	if *netbox.BaseURL != "https://api.example.com/api" || netbox.Headers["Authorization"] != "Token tok-0123456789" ||
		netbox.Headers["X-Flag"] != "true" ||
		!slices.Equal(netbox.Include, []string{"dcim.*"}) || !slices.Equal(netbox.Exclude, []string{"*.delete"}) {
		t.Errorf("netbox: %+v", netbox)
	}
	key, bearer, basic, client := netbox.Auth[0].Config, netbox.Auth[1].Config, netbox.Auth[2].Config, netbox.Auth[3].Config
	if *key.Value != "tok-0123456789" || *bearer.Value != *key.Value || *basic.Username != "me" || *basic.Password != "pass word 1" ||
		*client.ClientID != "visible-name" || *client.ClientSecret != "tok-0123456789" ||
		*client.TokenURL != "https://api.example.com/token" || client.Scopes[0] != "a" {
		t.Errorf("auth: %+v", netbox.Auth)
	}
	if !slices.Equal(c.HTTP.Allow, []string{"api.example.com", "*.example.org"}) {
		t.Errorf("http: %+v", c.HTTP)
	}
	c.resolvePaths()
	if *c.OpenAPI[0].Config.Spec != filepath.FromSlash("/etc/onecall/netbox.yaml") ||
		*c.OpenAPI[1].Config.Spec != "https://api.example.com/openapi.json" {
		t.Errorf("specs: %s, %s", *c.OpenAPI[0].Config.Spec, *c.OpenAPI[1].Config.Spec)
	}
}
