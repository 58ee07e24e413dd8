//go:build e2e && unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/console"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// consoleBrowser is a browser without script that looks at the console of a server.
type consoleBrowser struct {
	t    testing.TB
	base string
	*http.Client
}

// browse logs in with a token.
func (s *httpServer) browse(t testing.TB, token string) *consoleBrowser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := httpClient(t)
	client.Jar = jar
	b := &consoleBrowser{t, strings.TrimSuffix(s.url, "/mcp") + console.Path, client}
	if status, page := b.read(b.PostForm(b.base+"login", url.Values{"token": {token}})); status != http.StatusOK {
		t.Fatalf("logging in: status %d: %s", status, page)
	}
	return b
}

func (b *consoleBrowser) get(path string) (status int, page string) {
	return b.read(b.Get(b.base + path))
}

func (b *consoleBrowser) read(r *http.Response, err error) (int, string) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

// TestConsoleOfServer: callers see their own runs, administrators those of all, with the rights of the moment. With approveBy: person a
// token that may approve in the console is no MCP client's.
func TestConsoleOfServer(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const ann, bob, boss = "oc_token-of-ann", "oc_token-of-bob", "oc_token-of-the-boss"
	configure := func(tierOfBob, more string) string {
		return clitest.Write(t, folder, "onecall.yaml", fmt.Sprintf("%saccess:\n  tokens:\n    - {name: ann, sha256: %q}\n"+
			"    - {name: bob, sha256: %q, tier: %s}\n    - {name: boss, sha256: %q, tier: admin, console: approve}\n",
			more, tokenHash(ann), tokenHash(bob), tierOfBob, tokenHash(boss)))
	}
	s := serveHTTP(t, configure("read", ""), "--console")
	waitForLog(t, s.stderr, "the console is at http://127.0.0.1:", 1)
	for name, token := range map[string]string{"anns-chain": ann, "bobs-chain": bob, "boss-chain": boss} {
		if text, failed := stateless(t, s.url).with(token).tool(t, "chain", map[string]any{"name": name,
			"steps": []any{map[string]any{"expr": "6*7"}}}); failed {
			t.Fatal(text)
		}
	}
	pages := map[string]*consoleBrowser{ann: s.browse(t, ann), bob: s.browse(t, bob), boss: s.browse(t, boss)}
	sees := func(token string) (list []string) {
		_, page := pages[token].get("")
		for _, name := range []string{"anns-chain", "bobs-chain", "boss-chain"} {
			if strings.Contains(page, name) {
				list = append(list, name)
			}
		}
		return list
	}
	all := []string{"anns-chain", "bobs-chain", "boss-chain"}
	for token, want := range map[string][]string{ann: all[:1], bob: all[1:2], boss: all} {
		polltest.Until(t, "the runs are listed", func() bool { return len(sees(token)) >= len(want) }, s.stderr)
		if got := sees(token); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s sees %q, want %q", token, got, want)
		}
	}
	_, list := pages[boss].get("")
	for _, id := range regexp.MustCompile(`runs/(run_\w+)`).FindAllStringSubmatch(list, -1) {
		_, page := pages[bob].get("runs/" + id[1])
		if strings.Contains(page, "anns-chain") || strings.Contains(page, "boss-chain") {
			t.Errorf("bob sees another's run: %s", page)
		}
	}
	configure("admin", "approveBy: person\n")
	hangUp(t, s.cmd)
	waitForLog(t, s.stderr, logReloaded, 1)
	if got := sees(bob); len(got) != 3 {
		t.Errorf("as an administrator bob sees %q, want all", got)
	}
	for token, want := range map[string]int{bob: http.StatusOK, boss: http.StatusForbidden} {
		w := stateless(t, s.url).with(token)
		if r := w.send(t, http.MethodPost, w.message(t, "1", "tools/list", nil), nil); r.status != want {
			t.Errorf("an MCP client with %s: status %d, want %d: %s", token, r.status, want, r.body)
		}
	}
	if got := sees(boss); len(got) != 3 {
		t.Errorf("the boss sees %q, want all", got)
	}
	clitest.Write(t, folder, "onecall.yaml", fmt.Sprintf("access: {tokens: [{name: ann, sha256: %q}]}\n", tokenHash(ann)))
	hangUp(t, s.cmd)
	waitForLog(t, s.stderr, logReloaded, 2)
	if _, page := pages[bob].get(""); !strings.Contains(page, "Your token") || strings.Contains(page, "bobs-chain") {
		t.Errorf("bob's page when its token is gone: %s", page)
	}
	clitest.Write(t, folder, "onecall.yaml", "access: {http: admin}\n")
	hangUp(t, s.cmd)
	waitForLog(t, s.stderr, "--console shows each caller its runs", 1)
}

// TestApprovalOnPage: an MCP client that opens pages sends its user to the console, whose login leads to the page of the run. Its call goes on
// with what is decided there, by an administrator or by whoever decides for the agent. A client that opens none is told the page.
func TestApprovalOnPage(t *testing.T) {
	t.Parallel()
	const agent, boss, lead = "oc_token-of-agent", "oc_token-of-the-boss", "oc_token-of-the-lead"
	config := clitest.Write(t, t.TempDir(), "onecall.yaml", fmt.Sprintf("approve: write\napproveBy: person\n"+
		"functions: {text.replace: {effect: write}}\naccess:\n  tokens:\n    - {name: agent, sha256: %q, tier: read_write}\n"+
		"    - {name: boss, sha256: %q, tier: admin, console: approve}\n"+
		"    - {name: lead, sha256: %q, tier: read_write, console: approve, approves: [agent]}\n", tokenHash(agent), tokenHash(boss), tokenHash(lead)))
	s := serveHTTP(t, config, "--console")
	const request = `{"lite":true,"steps":[{"text.replace":{"text":"abc","pattern":"b","with":"x"}}]}`
	for version, person := range map[string]string{"2025-11-25": boss, statelessVersion: lead} {
		o := &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{
			Elicitation: &sdk.ElicitationCapabilities{URL: &sdk.URLElicitationCapabilities{}}}}
		o.ElicitationHandler = func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			go approveAt(t, r.Params.URL, person)
			return &sdk.ElicitResult{Action: "accept"}, nil
		}
		c, err := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, o).Connect(t.Context(),
			&sdk.StreamableClientTransport{Endpoint: s.url, HTTPClient: &http.Client{Transport: tokenTransport{agent, http.DefaultTransport}}},
			&sdk.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		result, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "chain",
			Arguments: json.RawMessage(request)})
		if err != nil || result.IsError || result.Content[0].(*sdk.TextContent).Text != `"axc"` {
			t.Errorf("%s: %v, %+v, want the call to be made", version, err, result)
		}
	}
	text, _ := stateless(t, s.url).with(agent).tool(t, "chain", json.RawMessage(request))
	page := regexp.MustCompile(`in the console, /console/(runs/run_\w+/approve)`).FindStringSubmatch(text)
	if page == nil {
		t.Fatalf("a client that opens no page is answered %s, want the page of the run", text)
	}
	if status, shown := s.browse(t, lead).get(page[1]); status != http.StatusOK || !strings.Contains(shown, "text.replace") {
		t.Errorf("the page: status %d: %s", status, shown)
	}
}

// approveAt opens a page of the console as a browser without a login does, logs in where that leads, and approves all calls of the page.
func approveAt(t *testing.T, page, token string) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Error(err)
		return
	}
	b := &http.Client{Jar: jar}
	read := func(r *http.Response, err error) (path, text string) {
		if err != nil {
			t.Error(err)
			return "", ""
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		return r.Request.URL.String(), string(body)
	}
	login, _ := read(b.Get(page))
	at, text := read(b.PostForm(login, url.Values{"token": {token}}))
	form := url.Values{"decision": {"approve-all"}}
	for _, name := range []string{"form", "digest"} {
		if found := regexp.MustCompile(`name="` + name + `" value="([^"]+)"`).FindStringSubmatch(text); found != nil {
			form.Set(name, found[1])
		}
	}
	if at != page {
		t.Errorf("the login leads to %s, want %s", at, page)
	}
	if _, text = read(b.PostForm(page, form)); !strings.Contains(text, "approved") {
		t.Errorf("the page after the approval: %s", text)
	}
}
