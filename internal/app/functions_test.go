package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/steps"
)

// openWith opens a configuration, in which SERVER is the URL of an MCP server with these tools, and returns the functions once the server
// has started.
func openWith(t *testing.T, text string, tools ...string) (*App, []string) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1"}, nil)
	for _, name := range tools {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{}, nil
			})
	}
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	path := filepath.Join(t.TempDir(), "onecall.yaml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "SERVER", web.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := processOf(Options{Config: path}, serverTraits{}).open(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.close() })
	var names []string
	for _, entry := range steps.Await(t.Context(), a.Catalog, nil).All() {
		if name, ok := strings.CutPrefix(entry.Spec().Name, "s."); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return a, names
}

// TestToolNames: includeTools and excludeTools take the server's own names of tools. An entry that matches none is reported with the
// nearest.
func TestToolNames(t *testing.T) {
	t.Parallel()
	tools := []string{"wipe_all", "odd name!", "odd", "a/b", "über", "list"}
	all := []string{"_ber_b51c8541", "a.b", "list", "odd", "odd_name__ddabd191", "wipe_all"}
	long := strings.Repeat("x", 200)
	tests := []struct {
		name, keys    string
		shown, unused []string
	}{
		{"none", "", all, nil},
		{"a typo", "excludeTools: [wipe_al]", all, []string{"/mcpServers/s/excludeTools/0 wipe_all"}},
		{"true names", `excludeTools: ["odd name!", a/b]`, []string{all[0], "list", "odd", "wipe_all"}, nil},
		{"patterns", `excludeTools: ["odd n*", "?xb*", "w?pe*"]`, []string{all[0], "a.b", "list", "odd"},
			[]string{"/mcpServers/s/excludeTools/1 "}},
		{"any first letter", `excludeTools: ["ü*", "*!"]`, []string{"a.b", "list", "odd", "wipe_all"}, nil},
		{"include", `includeTools: ["odd name!", wipe_al, ` + long + `]`, []string{"odd_name__ddabd191"},
			[]string{"/mcpServers/s/includeTools/1 wipe_all", "/mcpServers/s/includeTools/2 "}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a, names := openWith(t, "mcpServers:\n  s:\n    url: SERVER\n    "+test.keys+"\n", tools...)
			if !slices.Equal(names, test.shown) {
				t.Errorf("functions %q, want %q", names, test.shown)
			}
			var unused []string
			for _, f := range a.Suspects() {
				unused = append(unused, f.At+" "+strings.Join(f.Nearest, ","))
				if f.Code != fault.UnknownFunction || f.Line != 4 || !strings.Contains(f.Message, "matches no tool of s") {
					t.Errorf("got fault %+v, want %s at line 4: matches no tool of s", f, fault.UnknownFunction)
				}
			}
			if !slices.Equal(unused, test.unused) {
				t.Errorf("unused %q, want %q", unused, test.unused)
			}
		})
	}
}

// TestUnusedRules: a rule of the hook that guards a function in another spelling is used; one with a server's own name for a function is
// not, and is told the name here.
func TestUnusedRules(t *testing.T) {
	t.Parallel()
	a, names := openWith(t, `
mcpServers:
  s: {url: SERVER}
hook: {deny: [s.dropAll, s.a/b, "s.ctx:get", s.gone], ask: ["s.ctx:*"]}
`, "drop_all", "a/b", "ctx:get")
	var got []string
	for _, f := range a.Suspects() {
		got = append(got, f.At+" "+strings.Join(f.Nearest, ","))
	}
	here := "s." + names[slices.IndexFunc(names, func(name string) bool { return strings.Contains(name, "ctx") })]
	if want := []string{"/hook/ask/0 " + here, "/hook/deny/2 " + here}; len(got) != 3 || !slices.Contains(got, want[0]) ||
		!slices.Contains(got, want[1]) || !strings.HasPrefix(got[1], "/hook/deny/3") && !strings.HasPrefix(got[2], "/hook/deny/3") {
		t.Errorf("got %q, want %q and /hook/deny/3", got, want)
	}
}

// TestUnusedUndoes: an undo that cannot be called is reported at its place, unless its source is absent.
func TestUnusedUndoes(t *testing.T) {
	t.Parallel()
	a, _ := openWith(t, `
mcpServers:
  s: {url: SERVER}
  off: {command: x, disabled: true}
functions:
  s.make: {undo: {fn: s.wipe}}
  s.list: {undo: {fn: s.wippe}}
  s.wipe: {undo: {fn: off.any}}
`, "make", "wipe", "list")
	var got []string
	for _, f := range a.Suspects() {
		got = append(got, fmt.Sprintf("%d %s %s %v %s", f.Line, f.Code, f.At, f.Nearest, f.Message))
	}
	want := []string{"7 unknown_function /functions/s.list/undo/fn [s.wipe] nothing is undone: there is no function \"s.wippe\": did you mean s.wipe?"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestUnusedSettingsAbsentSource: an absent source silences only the patterns that may match its functions.
func TestUnusedSettingsAbsentSource(t *testing.T) {
	t.Parallel()
	a, _ := openWith(t, `
mcpServers:
  s: {url: SERVER, excludeTools: [lst]}
  off: {command: x, disabled: true, excludeTools: [y]}
functions:
  fs.gerp: {hide: true}
  s.lisst: {hide: true}
  "s.x*": {hide: true}
  "f*.nothing": {hide: true}
  off.x: {hide: true}
  "of*x": {hide: true}
  "*.nothing": {hide: true}
  "off.?": {hide: true}
  offer.x: {hide: true}
  "?ff": {hide: true}
`, "list")
	var got []string
	for _, f := range a.Suspects() {
		got = append(got, f.At)
	}
	if want := []string{"/mcpServers/s/excludeTools/0", "/functions/fs.gerp", "/functions/s.lisst", "/functions/s.x*",
		"/functions/f*.nothing", "/functions/offer.x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// faultsOf returns the faults of a configuration as a command reports them.
func faultsOf(t *testing.T, text string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "onecall.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := processOf(Options{Config: path}, serverTraits{}).open(nil)
	if err == nil {
		t.Fatalf("the configuration has no faults: %s (close: %v)", text, a.close())
	}
	var refused *config.Error
	if !errors.As(err, &refused) {
		t.Fatalf("got error %v, want one of the configuration", err)
	}
	return faultPositions(refused.Faults)
}

// TestFaultsOnce: all faults are reported together, in order, once, and with their position, whichever package finds them.
func TestFaultsOnce(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"functions:\n  a.b: {cacheTtl: -1s, heavy: x, defaults: [1]}\nfs: {rot: x}\n": {
			"2:19 bad_request /functions/a.b/cacheTtl", "2:31 bad_request /functions/a.b/heavy", "2:44 bad_request /functions/a.b/defaults",
			"3:6 unknown_field /fs/rot"},
		"mcpServers:\n  a: {command: x}\n  b: {command: x, concurrency: -5}\n": {"3:32 bad_request /mcpServers/b/concurrency"},
		"http:\n  allow: ['ftp://x']\n  endpoints:\n    e: {url: 'http://h/{', method: get}\n    f: {}\n": {
			"2:11 bad_request /http/allow/0", "4:14 bad_request /http/endpoints/e/url", "4:36 bad_request /http/endpoints/e/method",
			"5:5 bad_request /http/endpoints/f"},
		"functions:\n  a.b: {rename: 'x y'}\nfs: {root: /no/such/folder}\nopenapi:\n  o: {spec: x, auth: {}, include: ['[']}\nhttp: " +
			"{allow: ['${NO_SUCH_VARIABLE}']}\n": {
			"2:17 bad_request /functions/a.b/rename", "3:12 bad_request /fs/root", "6:16 bad_request /http/allow/0"},
		"tokens: {factor: 0}\n": {"1:18 bad_request /tokens/factor"},
		"functions:\n  a.b: {rename: x.y}\n  a.c: {rename: X_y}\n  a.d: {rename: fs.grep}\n  a.e: {rename: HTTP.get}\n  a.f: {rename: " +
			"text.other}\n  expr.eval: {rename: expr.other}\n  fs.grep: {rename: fs.list}\n  a.g: {rename: a.g}\n": {
			"3:17 bad_request /functions/a.c/rename", "4:17 bad_request /functions/a.d/rename", "5:17 bad_request /functions/a.e/rename",
			"6:17 bad_request /functions/a.f/rename",
			"8:21 bad_request /functions/fs.grep/rename"},
	} {
		if got := faultsOf(t, text); !slices.Equal(got, want) {
			t.Errorf("%s\ngot\n%s\nwant\n%s", text, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestFunctionSettings(t *testing.T) {
	t.Parallel()
	c, faults := config.Parse("onecall.yaml", []byte(`
mcpServers:
  a b: {command: x, includeTools: [one, t*], excludeTools: [two]}
  every: {command: x, tools: ["*"]}
openapi: {o: {spec: x}}
functions:
  "o.*": {tier: admin, timeoutMs: 250, defaults: {b: 1.10, a: x}, aliases: {q: query}, heavy: always, cacheTtl: 7s}
  "a_b.*": {cacheTtl: 5s}
  o.get: {effect: destroy, rename: o.fetch, description: d, cacheTtl: 0s}
  a_b.hidden: {hide: false}
  nothing.fits: {hide: true}
`), os.LookupEnv)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	settings, faults := functionSettings(c)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	apply := func(name string) (steps.Function, bool) {
		return settings.Apply(steps.Function{Spec: steps.Spec{Name: name}})
	}
	for name, hidden := range map[string]bool{"a_b.one": false, "a_b.three": false, "a_b.two": true, "a_b.other": true,
		"a_b.hidden": false, "every.x": false, "o.list": false} {
		if _, got := apply(name); got != hidden {
			t.Errorf("%s: hidden is %t, want %t", name, got, hidden)
		}
	}
	fn, _ := apply("o.get")
	if fn.Name != "o.fetch" || fn.Effect != steps.Destroy || fn.Tier != steps.TierAdmin || fn.Timeout != 250*time.Millisecond ||
		fn.CacheTTL != 0 ||
		fn.Description != "d" || fn.Heavy != "always" || string(fn.Defaults) != `{"b":1.10,"a":"x"}` || fn.Aliases["q"] != "query" {
		t.Errorf("o.get: got %+v, want all settings of the configuration", fn)
	}
	one, _ := apply("a_b.one")
	list, _ := apply("o.list")
	if one.CacheTTL != 5*time.Second || list.CacheTTL != 7*time.Second {
		t.Errorf("cacheTtl %v and %v, want 5s and 7s", one.CacheTTL, list.CacheTTL)
	}
	unused := unusedSettings(c, settings, []string{"nothing.fit"}, func(string) []string { return []string{"one", "two"} }, nil)
	if len(unused) != 1 || unused[0].At != "/functions/nothing.fits" || unused[0].Line != 11 ||
		!slices.Equal(unused[0].Nearest, []string{"nothing.fit"}) {
		t.Errorf("unused %+v, line %d, nearest %q, want one, line 11, nearest nothing.fit", unused, unused[0].Line, unused[0].Nearest)
	}

	c, faults = config.Parse("onecall.yaml", []byte("functions:\n  'a.*': {rename: b.c}\n  a.b: {rename: 'b c'}\n"), os.LookupEnv)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if _, faults = functionSettings(c); !slices.Equal(faultPositions(faults),
		[]string{"2:19 bad_request /functions/a.*/rename", "3:17 bad_request /functions/a.b/rename"}) {
		t.Errorf("got the faults %q, want one for each rename", faultPositions(faults))
	}
}

func faultPositions(faults []*fault.Error) []string {
	var got []string
	for _, f := range faults {
		got = append(got, fmt.Sprintf("%d:%d %s %s", f.Line, f.Column, f.Code, f.At))
	}
	return got
}

// TestIdleApprovals checks the warning about settings that ask for approval of calls that their functions never make.
func TestIdleApprovals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ functions, want string }{
		{"fs.cat: {approve: write}", "/functions/fs.cat/approve fs.cat only reads"},
		{`"fs.*": {approve: destroy}`, "/functions/fs.*/approve each of the 6 functions only reads"},
		{"http.request: {approve: destroy}", "/functions/http.request/approve http.request destroys nothing"},
		{`"*": {approve: write}`, ""},
		{"http.request: {approve: write}", ""},
		{"fs.cat: {approve: always}", ""},
		{"fs.cat: {approve: never}", ""},
		{"fs.cat: {approve: write, effect: write}", ""},
		{`"fs.*": {approve: write}, fs.cat: {effect: destroy}`, ""},
	} {
		a, _ := openWith(t, "functions: {"+test.functions+"}\n")
		got := ""
		for _, f := range a.Suspects() {
			what, _, _ := strings.Cut(strings.TrimPrefix(f.Message, "nothing asks for approval: "), ". ")
			got += f.At + " " + what
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.functions, got, test.want)
		}
	}
}

// TestEndpointDefaults: an argument that a call of an endpoint leaves out has the default of the configuration's functions, else that of
// the endpoint's own schema.
func TestEndpointDefaults(t *testing.T) {
	t.Parallel()
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"query":%q,"sent":`, r.URL.RawQuery)
		_, _ = io.Copy(w, r.Body)
		fmt.Fprint(w, "}")
	}))
	t.Cleanup(echo.Close)
	path := filepath.Join(t.TempDir(), "onecall.yaml")
	text := `
http:
  endpoints:
    order:
      url: "` + echo.URL + `/orders{?size}"
      method: POST
      body: {who: $input.who, rush: $input.rush, count: $input.count}
      input:
        type: object
        required: [count, rush]
        properties:
          count: {type: integer}
          rush: {type: boolean, default: false}
          who: {type: string, default: nobody}
          size: {type: integer, default: 5}
functions:
  http.order: {defaults: {who: me}}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := processOf(Options{Config: path}, serverTraits{}).open(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.close() })
	for args, want := range map[string]string{
		`{"count":1}`: `{"query":"size=5","sent":{"who":"me","rush":false,"count":1}}`,
		`{"count":1,"rush":true,"who":"you","size":7}`: `{"query":"size=7","sent":{"who":"you","rush":true,"count":1}}`,
	} {
		answer := a.Run(t.Context(), []byte(`{"lite":true,"steps":[{"http.order":`+args+`}]}`), &chain.Caller{})
		if string(answer.JSON) != want {
			t.Errorf("http.order(%s): got %s, want %s", args, answer.JSON, want)
		}
	}
}
