package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

func decodeConfig(name, text string) (*File, []*fault.Error) {
	return Parse(name, []byte(text), os.LookupEnv)
}

// shownFaults returns faults as shown to a person: each with its line of the configuration.
func shownFaults(c *File, faults []*fault.Error) string {
	lines := strings.Split(string(c.Text), "\n")
	var b strings.Builder
	for _, f := range faults {
		fmt.Fprintf(&b, "%d:%d: %s: %s\n", f.Line, f.Column, f.Code, f.Message)
		if f.Line > 0 && f.Line <= len(lines) && c.Text != nil {
			fmt.Fprintln(&b, lines[f.Line-1])
		}
	}
	return b.String()
}

func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// exampleConfig is the example of the contract, as far as this version supports it.
const exampleConfig = `
surface: chain            # chain dispatch flat hybrid
groups: {dcim: [device, rack], ipam: {resources: [prefix], description: "addresses"}}
autodispatch: false
ungrouped: flat           # flat hide
hoist: [repoId]
aliases: {repo_id: repoId}
access:  {stdio: read_write, http: read}
http:       {allow: [api.example.com]}
fs:         {root: ., write: []}
lite: false
budget:  {maxTotalTokens: 10000, maxSteps: 1000, maxCalls: 200000, maxDurationMs: 300000}   # maxTotalTokens: MCP; command line: none
limits:  {maxSteps: 1000, maxConcurrency: 16, maxResultBytes: 64MiB, maxChainBytes: 256MiB, maxRequestBytes: 4MiB, maxElements: 100000}
results: {store: memory, ttl: 5m, maxTtl: 1h, maxBytes: 1GiB, pageSize: 20, probeAbove: 0, leanAbove: 100}
tokens:  {encoding: o200k_base, factor: 1.0}
`

func TestConfigExample(t *testing.T) {
	t.Parallel()
	c, faults := decodeConfig("onecall.yaml", exampleConfig)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if *c.Limits.MaxResultBytes != 64<<20 || *c.Results.MaxBytes != 1<<30 || *c.Results.TTL != 5*time.Minute ||
		*c.Tokens.Factor != 1 || c.HTTP.Allow[0] != "api.example.com" || *c.Lite || *c.Budget.MaxCalls != 200000 {
		t.Errorf("read %+v", c.Config)
	}
	if groups := c.Groups; len(groups) != 2 || groups[0].Name != "dcim" ||
		!slices.Equal(groups[0].Config.Resources, []string{"device", "rack"}) ||
		groups[0].Config.Description != nil || !slices.Equal(groups[1].Config.Resources, []string{"prefix"}) ||
		*groups[1].Config.Description != "addresses" {
		t.Errorf("read the groups %+v", groups)
	}
	if *c.Surface != "chain" || *c.Autodispatch || *c.Ungrouped != "flat" || !slices.Equal(c.Hoist, []string{"repoId"}) ||
		c.Aliases["repo_id"] != "repoId" || *c.Access.Stdio != "read_write" || *c.Access.HTTP != "read" || *c.Results.LeanAbove != 100 {
		t.Errorf("read %+v", c.Config)
	}
}

func TestConfigValues(t *testing.T) {
	t.Parallel()
	c, faults := decodeConfig("onecall.json", "{\n\t\"limits\": {\"maxResultBytes\": 4096, \"maxChainBytes\": \"3 MB\"},\n\t"+
		`"fs": {"root": "a\/b \u00e9 \ud83d\ude00"}, "http": null, "lite": true, "tokens": {"factor": 2}}`)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if *c.Limits.MaxResultBytes != 4096 || *c.Limits.MaxChainBytes != 3e6 || *c.FS.Root != "a/b é 😀" || !*c.Lite || *c.Tokens.Factor != 2 {
		t.Errorf("read %+v", c.Config)
	}
	c, faults = decodeConfig("onecall.yaml", "\ufefflimits:\n  maxSteps: &n 7\n  maxElements: *n\nbudget:\n")
	if len(faults) > 0 || *c.Limits.MaxElements != 7 {
		t.Errorf("anchors: %+v, %v", c.Config, faults)
	}
	for _, empty := range []string{"", "# nothing\n", "{}", "---\n"} {
		if _, faults := decodeConfig("onecall.yaml", empty); len(faults) > 0 {
			t.Errorf("%q: %v", empty, faults)
		}
	}
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string // line:column code pointer
	}{
		{"all at once",
			"fs:\n  rot: .\nbudgte: {}\nlimits:\n  maxSteps: many\n  maxResultBytes: 64MB!\nresults: {ttl: 5, store: disc, leanAbove: " +
				"-1}\nsession: {maxTokens: -1}\nlite: yes\n", []string{
				"2:3 unknown_field /fs/rot", "3:1 unknown_field /budgte", "5:13 bad_request /limits/maxSteps",
				"6:19 bad_request /limits/maxResultBytes", "7:16 bad_request /results/ttl", "7:26 bad_request /results/store",
				"7:43 bad_request /results/leanAbove", "8:22 bad_request /session/maxTokens", "9:7 bad_request /lite"}},
		{"values", "budget: {maxTotalTokens: 149, maxSteps: 0, maxCalls: -1}\ntokens: {factor: 0, encoding: cl100k}\nfs: {write: [a]}\n",
			[]string{
				"1:26 budget_too_small /budget/maxTotalTokens", "1:41 bad_request /budget/maxSteps", "1:54 bad_request /budget/maxCalls",
				"2:18 bad_request /tokens/factor", "2:31 bad_request /tokens/encoding", "3:13 not_supported /fs/write"}},
		{"types", "fs: [1]\nhttp: {allow: x, endpoints: []}\nlimits: {maxSteps: 1.5, maxElements: 99999999999}\ntokens: {factor: x}\n", []string{
			"1:5 bad_request /fs", "2:15 bad_request /http/allow", "2:29 bad_request /http/endpoints", "3:20 bad_request /limits/maxSteps",
			"3:38 bad_request /limits/maxElements", "4:18 bad_request /tokens/factor"}},
		{"items", "http:\n  allow:\n    - a\n    - 1\n", []string{"4:7 bad_request /http/allow/1"}},
		{"the face", "surface: chian\nungrouped: show\nautodispatch: 1\nhoist: repoId\naliases: {a: a, b: [c]}\naccess: {stdio: none, " +
			"http: Read, token: [], jwt: {}, sdtio: read}\nsession: {maxToken: 1}\n", []string{
			"1:10 bad_request /surface", "2:12 bad_request /ungrouped", "3:15 bad_request /autodispatch", "4:8 bad_request /hoist",
			"5:14 bad_request /aliases/a", "5:20 bad_request /aliases/b", "6:17 bad_request /access/stdio", "6:29 bad_request /access/http",
			"6:35 unknown_field /access/token", "6:51 bad_request /access/jwt", "6:55 unknown_field /access/sdtio",
			"7:11 unknown_field /session/maxToken"}},
		{"groups", "groups:\n  a: []\n  b: {description: x}\n  c: {resource: [x]}\n  d: [x, 1]\n  e: x\n  f:\n", []string{
			"2:3 bad_request /groups/a", "3:3 bad_request /groups/b", "4:3 bad_request /groups/c", "4:7 unknown_field /groups/c/resource",
			"5:10 bad_request /groups/d/1", "6:3 bad_request /groups/e", "6:6 bad_request /groups/e", "7:3 bad_request /groups/f"}},
		{"store", "results: {store: 'mysql://h'}", []string{"1:18 bad_request /results/store"}},
		{"ttl", "results: {ttl: 2h, maxTtl: 1h}", []string{"1:28 bad_request /results/maxTtl"}},
		{"duplicate", "lite: true\nlite: false\n", []string{"2:1 bad_json "}},
		{"syntax", "fs: {root: .\n", []string{"1:5 bad_json "}},
		{"list", "- 1\n", []string{"1:1 bad_request "}},
		{"text", "onecall", []string{"1:1 bad_request "}},
		{"two documents", "lite: true\n---\nlite: false\n", []string{"3:1 bad_request "}},
		{"deep", strings.Repeat("[", 100000), []string{"0:0 bad_json "}},
		{"deep lists", strings.Repeat("- ", 100000), []string{"0:0 bad_json "}},
		{"not text", "lite: \xff", []string{"0:0 bad_json "}},
		{"alias to itself", "fs: &a\n  root: *a\n", []string{"2:9 bad_request /fs/root"}},
		{"unknown alias", "fs: *nowhere\n", []string{"1:5 bad_request /fs"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, faults := decodeConfig("onecall.yaml", test.text)
			var got []string
			for _, f := range faults {
				got = append(got, fmt.Sprintf("%d:%d %s %s", f.Line, f.Column, f.Code, f.At))
				if f.Message == "" {
					t.Errorf("%s has no message", f.At)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

func TestConfigNearest(t *testing.T) {
	t.Parallel()
	_, faults := decodeConfig("onecall.yaml", "limits: {maxStep: 1}\nmcpServer: {}\n")
	if len(faults) != 2 || !slices.Equal(faults[0].Nearest, []string{"maxSteps"}) || !slices.Equal(faults[1].Nearest, []string{"mcpServers"}) {
		t.Errorf("faults %+v", faults)
	}
}

func TestFindConfig(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	user := filepath.Join(dir, "user")
	t.Setenv("XDG_CONFIG_HOME", user)
	t.Setenv("HOME", dir)
	t.Setenv("AppData", user)
	expect := func(want string) {
		t.Helper()
		if got, f := Find(""); got != want || f != nil {
			t.Errorf("found %q, %v; want %q", got, f, want)
		}
	}
	expect("")
	folder, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	folder = filepath.Join(folder, "onecall")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	expect("")
	inUser := writeFile(t, folder, "onecall.json", "{}")
	expect(inUser)
	writeFile(t, dir, "onecall.json", `{"fs":{"root":"sub"}}`)
	expect("onecall.json")
	if c, faults := Load(filepath.Join(dir, "onecall.json")); len(faults) > 0 || *c.FS.Root != filepath.Join(dir, "sub") {
		t.Errorf("the root is relative to the file: %+v, %v", c.FS, faults)
	}
	writeFile(t, dir, "onecall.yaml", "")
	if _, f := Find(""); f == nil || f.Code != fault.BadRequest {
		t.Errorf("two configurations: %v", f)
	}
	if got, f := Find("x.yaml"); got != "x.yaml" || f != nil {
		t.Errorf("named: %q, %v", got, f)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add(exampleConfig)
	f.Add("fs: &a {root: *a}\n")
	f.Add("\"a\": [1, {b: |\n x}]")
	f.Add("mcpServers: {a: {command: x, args: ['${A}', 1.10], env: {A_TOKEN: 'abc ${B:-c}'}}}\nopenapi: {b: {spec: x, auth: {k: " +
		"{value: '${C}'}}}}\n")
	f.Add("http: {endpoints: {e: {url: 'https://h/{x}', body: {a: [1e5, ~, '$input.x']}}}}\nfunctions: {'a.*': {defaults: {a: 0x1}}}\n")
	f.Add("groups: &g {a: [x, y], b: {resources: [*g], description: d}}\naccess: {stdio: none}\nhoist: [a]\naliases: {a: b}\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 {
			t.Skip()
		}
		for _, name := range []string{"onecall.yaml", "onecall.json"} {
			c, faults := decodeConfig(name, text)
			for _, f := range faults {
				if !slices.Contains(fault.Codes(), f.Code) || f.Message == "" {
					t.Errorf("%q: %+v", text, f)
				}
			}
			_ = shownFaults(c, faults)
		}
	})
}

// TestTextsWithColons: a colon without a blank after it is part of a text, also in a flow list.
func TestTextsWithColons(t *testing.T) {
	t.Parallel()
	path := writeFile(t, t.TempDir(), "onecall.yaml", "http: {allow: [localhost:8177, 'a.example:1', b.example]}\n"+
		"mcpServers: {s: {command: c, args: [x, a:b, redis:7.2, http://u:80/y]}}\n"+
		"functions: {s.t: {defaults: {list: [a:b, {k: v}, c: d]}}}\n")
	c, faults := Load(path)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if got := strings.Join(c.HTTP.Allow, " "); got != "localhost:8177 a.example:1 b.example" {
		t.Errorf("%s", got)
	}
	if got := strings.Join(c.MCPServers[0].Config.Args, " "); got != "x a:b redis:7.2 http://u:80/y" {
		t.Errorf("%s", got)
	}
	if got := string(c.Functions[0].Config.Defaults); got != `{"list":["a:b",{"k":"v"},{"c":"d"}]}` {
		t.Errorf("%s", got)
	}
}
