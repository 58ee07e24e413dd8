package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// bearing is an HTTP client with a token, which counts nothing and follows nothing.
func bearing(token string) *http.Client {
	return &http.Client{Transport: mcptest.Header{"Authorization": "Bearer " + token}}
}

// as connects a client with a token.
func as(t testing.TB, url, token, version string) *sdk.ClientSession {
	t.Helper()
	return mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: bearing(token)}, nil, version)
}

// TestAccess: who gets in by what, and what those are told who do not.
func TestAccess(t *testing.T) {
	t.Parallel()
	var refused atomic.Value
	s := serve(t, func(o *mcp.Options) { o.Refused = func(why string) { refused.Store(why) } })
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff, URL: "https://tools.example.com/mcp",
		Hosts:   []string{"onecall.internal:8080"},
		Issuers: []string{"https://id.example.com"}, Scopes: []string{"onecall.read", "onecall.write"}})
	const challenge = `Bearer realm="onecall", resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp", scope="onecall.read onecall.write"`
	withError := func(e string) string { return strings.Replace(challenge, ", res", `, error="`+e+`", res`, 1) }
	for name, test := range map[string]struct {
		query     string
		headers   mcptest.Header
		status    int
		challenge string
		why       string
	}{
		"good":              {"", mcptest.Header{"Authorization": "Bearer ann"}, 200, "", ""},
		"scheme in capital": {"", mcptest.Header{"Authorization": "BEARER  ann"}, 200, "", ""},
		"public host":       {"", mcptest.Header{"Authorization": "Bearer ann", "Host": "Tools.example.com"}, 200, "", ""},
		"with its port":     {"", mcptest.Header{"Authorization": "Bearer ann", "Host": "tools.example.com:443", "Origin": "https://tools.example.com"}, 200, "", ""},
		"listed host":       {"", mcptest.Header{"Authorization": "Bearer ann", "Host": "onecall.internal:8080"}, 200, "", ""},
		"other port":        {"", mcptest.Header{"Authorization": "Bearer ann", "Host": "onecall.internal:8081"}, 403, "", "host"},
		"other host":        {"", mcptest.Header{"Authorization": "Bearer ann", "Host": "evil.example.com"}, 403, "", "host"},
		"other site":        {"", mcptest.Header{"Authorization": "Bearer ann", "Origin": "https://evil.example.com"}, 403, "", "host"},
		"null origin":       {"", mcptest.Header{"Authorization": "Bearer ann", "Origin": "null"}, 403, "", "host"},
		"none":              {"", nil, 401, challenge, "token"},
		"unknown":           {"", mcptest.Header{"Authorization": "Bearer mallory"}, 401, withError("invalid_token"), "token"},
		"another scheme":    {"", mcptest.Header{"Authorization": "Basic YW5uOg=="}, 401, challenge, "token"},
		"two words":         {"", mcptest.Header{"Authorization": "Bearer ann ann"}, 401, challenge, "token"},
		"no scheme":         {"", mcptest.Header{"Authorization": "ann"}, 401, challenge, "token"},
		"two in one":        {"", mcptest.Header{"Authorization": "Bearer ann, Bearer bob"}, 401, challenge, "token"},
		"nothing":           {"", mcptest.Header{"Authorization": "Bearer "}, 401, challenge, "token"},
		"a cookie":          {"", mcptest.Header{"Cookie": "access_token=ann"}, 401, challenge, "token"},
		"an API key":        {"", mcptest.Header{"X-Api-Key": "ann", "Mcp-Name": "ann"}, 401, challenge, "token"},
		"for a proxy":       {"", mcptest.Header{"Proxy-Authorization": "Bearer ann"}, 401, challenge, "token"},
		"no scope":          {"", mcptest.Header{"Authorization": "Bearer scopeless"}, 403, withError("insufficient_scope"), "scope"},
		"no keys":           {"", mcptest.Header{"Authorization": "Bearer unknowable"}, 503, "", "keys"},
		"in the query":      {"?access_token=ann", mcptest.Header{"Authorization": "Bearer ann"}, 400, "", "request"},
		"surface":           {"?surface=flt", mcptest.Header{"Authorization": "Bearer ann"}, 400, "", "request"},
	} {
		refused.Store("")
		r, body := mcptest.Send(t, "POST", url+test.query, mcptest.Hello, test.headers)
		if r.StatusCode != test.status || r.Header.Get("WWW-Authenticate") != test.challenge || refused.Load() != test.why {
			t.Errorf("%s: %d, %q, refused for %q: %.200s", name, r.StatusCode, r.Header.Get("WWW-Authenticate"), refused.Load(), body)
		}
		if strings.Contains(body, "mallory") || strings.Contains(body, "id.example.com") {
			t.Errorf("%s: %s", name, body)
		}
	}
	for header, values := range map[string][]string{
		"Host": {"127.0.0.1.evil.example", "localhost.evil.example", "127.0.0.1@evil.example", "2130706433.evil", "0.0.0.0", "[::]", "[::1].evil",
			"127.0.0.1,evil.example", "169.254.169.254"},
		"Origin": {"file://", "http://localhost.evil.example", "http://127.0.0.1.evil.example", "https://evil.example#127.0.0.1",
			"http://127.0.0.1@evil.example", "javascript:1", "chrome-extension://abc"},
	} {
		for _, value := range values {
			r, body := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer ann", header: value,
				"X-Forwarded-Host": "127.0.0.1", "Forwarded": "host=127.0.0.1"})
			if r.StatusCode != 400 && r.StatusCode != 403 {
				t.Errorf("%s %s: %d %s", header, value, r.StatusCode, body)
			}
		}
	}
	base := strings.TrimSuffix(url, transport.Path)
	for _, path := range []string{"/mcp?surface=chain", "//mcp", "/mcp/", "/mcp/..", "/x/%2e%2e/mcp", "/mcp%2f", "/mcp%00", "/MCP", "/mcp;x",
		"/mcp%3Fa", "/elsewhere"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader(mcptest.Hello))
		if err != nil {
			t.Fatal(err)
		}
		r.Header["Authorization"] = []string{"Bearer ann", "Bearer bob"}[:1+strings.Count(path, "surface")]
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil || answer.StatusCode < 300 || answer.StatusCode >= 500 {
			t.Errorf("%s: %v, %v", path, answer, err)
		}
		answer.Body.Close()
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		r, body := mcptest.Send(t, "GET", base+path, "", nil)
		if got := gjson.GetMany(body, "resource", "authorization_servers.0", "scopes_supported.1",
			"bearer_methods_supported.0"); r.StatusCode != 200 ||
			got[0].Str != "https://tools.example.com/mcp" || got[1].Str != "https://id.example.com" || got[2].Str != "onecall.write" ||
			got[3].Str != "header" {
			t.Errorf("%s: %d %s", path, r.StatusCode, body)
		}
	}
	if r, body := mcptest.Send(t, "GET", base+"/healthz", "", mcptest.Header{"Host": "10.1.2.3:8080"}); r.StatusCode != 200 || body != "ok\n" {
		t.Errorf("/healthz: %d %s", r.StatusCode, body)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	var missing atomic.Bool
	url := s.serveAs(t, &transport.Access{Anyone: *reader, Ready: func(context.Context) error {
		if missing.Load() {
			return fault.New(fault.Unavailable, "the secret source vault is starting")
		}
		return nil
	}})
	for _, lacks := range []bool{false, true} {
		missing.Store(lacks)
		r, body := mcptest.Send(t, "GET", strings.TrimSuffix(url, transport.Path)+"/readyz", "", nil)
		if (r.StatusCode == 503) != lacks || strings.Contains(body, "vault") {
			t.Errorf("missing %v: %d %s", lacks, r.StatusCode, body)
		}
	}
}

// TestForeign: what belongs to another caller is answered as what there is not, byte for byte.
func TestForeign(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *mcp.Options) { o.MaxTotalTokens = 400 })
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	ann, eve := as(t, url, "ann", "2025-11-25"), as(t, url, "eve", "2025-11-25")
	list := `{"method":"tools/list","jsonrpc":"2.0","id":2}`
	for _, method := range []string{"POST", "GET", "DELETE"} {
		foreign, one := mcptest.Send(t, method, url, list, mcptest.Header{"Authorization": "Bearer eve", "Mcp-Session-Id": ann.ID()})
		unknown, two := mcptest.Send(t, method, url, list, mcptest.Header{"Authorization": "Bearer eve",
			"Mcp-Session-Id": "ABCDEFGHIJKLMNOPQRSTUVWXYZ"})
		if foreign.StatusCode != 404 || unknown.StatusCode != 404 || one != two {
			t.Errorf("%s: a foreign session %d %q, an unknown one %d %q", method, foreign.StatusCode, one, unknown.StatusCode, two)
		}
	}
	if names(t, ann) == "" {
		t.Error("the session has ended")
	}
	probe, _ := mcptest.Ask(t, ann, "chain", `{"lite":true,"steps":[{"fn":"shop.item.list","args":{"limit":50}}]}`)
	token := gjson.Get(probe, "continuation_token").Str
	if token == "" {
		t.Fatalf("no probe: %s", probe)
	}
	made := token[:len(token)-4] + "AAAA"
	foreign, _ := mcptest.Ask(t, eve, "chain", `{"continuation_token":"`+token+`"}`)
	unknown, _ := mcptest.Ask(t, eve, "chain", `{"continuation_token":"`+made+`"}`)
	foreign, unknown = fleeting.ReplaceAllString(foreign, ""), fleeting.ReplaceAllString(unknown, "")
	if foreign != unknown || !strings.Contains(foreign, "token_expired") {
		t.Errorf("foreign: %s\nunknown: %s", foreign, unknown)
	}
	if answer, failed := mcptest.Ask(t, as(t, url, "ann", ""), "chain", `{"continuation_token":"`+token+`","mode":"summary"}`); failed {
		t.Errorf("the caller's other client: %s", answer)
	}
}

// TestAllowed: a caller sees the functions that its token names, and no others.
func TestAllowed(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		bob := as(t, url+"?surface=flat", "bob", version)
		if got := names(t, bob); got != "chain info search shop_item_get shop_item_list shop_slow" {
			t.Errorf("bob sees %s", got)
		}
		hidden, _ := mcptest.Ask(t, bob, "chain", `{"steps":[{"fn":"shop.echo"}]}`)
		missing, _ := mcptest.Ask(t, bob, "chain", `{"steps":[{"fn":"shop.ecko"}]}`)
		if gjson.Get(hidden, "error").Raw != strings.ReplaceAll(gjson.Get(missing, "error").Raw, "ecko", "echo") {
			t.Errorf("a hidden function: %s\none that there is not: %s", hidden, missing)
		}
		if info, _ := mcptest.Ask(t, bob, "info", `{}`); gjson.Get(info, "tier").Str != "read" || gjson.Get(info, "caller").Str != "token:bob" ||
			gjson.Get(info, "functions").Int() != 3 {
			t.Errorf("info: %s", info)
		}
	}
}

// TestCallerLimits: what is one too many is answered with what to do, and what came before goes on.
func TestCallerLimits(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *mcp.Options) { o.MaxSessions, o.CallerCalls = 8, 1 })
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	ann := as(t, url, "ann", "2025-11-25")
	ctx, stop := context.WithCancel(t.Context())
	slow := make(chan error, 1)
	go func() {
		_, err := ann.CallTool(ctx, &sdk.CallToolParams{Name: "chain", Arguments: json.RawMessage(`{"steps":[{"fn":"shop.slow"}]}`)})
		slow <- err
	}()
	<-s.shop.started
	if text, failed := mcptest.Ask(t, ann, "info", `{}`); !failed || gjson.Get(text, "error.code").Str != "busy" {
		t.Errorf("a second call: %s", text)
	}
	if text, failed := mcptest.Ask(t, as(t, url, "eve", "2025-11-25"), "info", `{}`); failed {
		t.Errorf("another caller: %s", text)
	}
	stop()
	<-slow
	<-s.shop.ended
	as(t, url, "ann", "2025-11-25")
	if r, body := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer ann"}); r.StatusCode != 503 ||
		r.Header.Get("Retry-After") == "" {
		t.Errorf("a third session: %d %s", r.StatusCode, body)
	}
	if r, body := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer bob"}); r.StatusCode != 200 {
		t.Errorf("another caller's first: %d %s", r.StatusCode, body)
	}
}

// TestRightsChange: a caller whose rights are others begins a new session, one without a token any more gets nothing, and
// what it was told by ends.
func TestRightsChange(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	stream := func(token, id string) chan error {
		r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Accept": "text/event-stream", "Authorization": "Bearer " + token, "Mcp-Session-Id": id} {
			r.Header.Set(name, value)
		}
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil || response.StatusCode != 200 {
			t.Fatal(response, err)
		}
		t.Cleanup(func() { response.Body.Close() })
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, response.Body)
			ended <- err
		}()
		return ended
	}
	begin := func(token string) string {
		r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer " + token})
		return r.Header.Get("Mcp-Session-Id")
	}
	ids, ended := map[string]string{}, map[string]chan error{}
	for _, token := range []string{"ann", "bob", "eve"} {
		ids[token] = begin(token)
		ended[token] = stream(token, ids[token])
	}
	s.SetAccess(t, &transport.Access{Callers: mcptest.Callers{"ann": mcptest.Staff["ann"],
		"bob": {ID: "token:bob", Rights: steps.Rights{Tier: steps.TierAdmin}}}})
	<-ended["bob"]
	<-ended["eve"]
	select {
	case err := <-ended["ann"]:
		t.Errorf("ann's stream has ended: %v", err)
	default:
	}
	for token, status := range map[string]int{"ann": 200, "bob": 404, "eve": 401} {
		r, body := mcptest.Send(t, "POST", url, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
			mcptest.Header{"Authorization": "Bearer " + token, "Mcp-Session-Id": ids[token]})
		if r.StatusCode != status {
			t.Errorf("%s: %d %s", token, r.StatusCode, body)
		}
	}
	s.Close() // ends ann's stream
}

// TestStreamExpires: a stream does not outlive the token that it was opened with.
func TestStreamExpires(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	callers := mcptest.Callers{"ann": mcptest.Staff["ann"]}
	url := s.serveAs(t, &transport.Access{Callers: callers})
	r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer ann"})
	soon := *mcptest.Staff["ann"]
	soon.Expires = time.Now().Add(time.Second)
	s.SetAccess(t, &transport.Access{Callers: mcptest.Callers{"ann": &soon}})
	// It is read to its end, which is that of the token: on a very slow machine that has come before.
	r, body := mcptest.Send(t, "GET", url, "", mcptest.Header{"Authorization": "Bearer ann", "Mcp-Session-Id": r.Header.Get("Mcp-Session-Id")})
	if late := time.Since(soon.Expires); r.StatusCode != 200 && r.StatusCode != 401 || late < 0 {
		t.Errorf("%d %s, %v after the end", r.StatusCode, body, late)
	}
	if r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer ann"}); r.StatusCode != 401 {
		t.Errorf("after its end: %d", r.StatusCode)
	}
}

// TestMetadataPath: the metadata stands where the challenge says, whatever the public URL's path.
func TestMetadataPath(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff, URL: "https://tools.example.com/team/mcp",
		Issuers: []string{"https://id.example.com"}})
	r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, nil)
	challenge := r.Header.Get("WWW-Authenticate")
	if !strings.Contains(challenge, `resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/team/mcp"`) {
		t.Fatal(challenge)
	}
	base := strings.TrimSuffix(url, transport.Path)
	for path, status := range map[string]int{"/team/mcp": 200, "": 200, "/mcp": 404, "/team": 404, "/../../mcp": 404} {
		r, body := mcptest.Send(t, "GET", base+"/.well-known/oauth-protected-resource"+path, "", mcptest.Header{"Host": "tools.example.com"})
		if r.StatusCode != status && r.StatusCode/100 != 3 || status == 200 &&
			gjson.Get(body, "resource").Str != "https://tools.example.com/team/mcp" {
			t.Errorf("%s: %d %s", path, r.StatusCode, body)
		}
	}
}
