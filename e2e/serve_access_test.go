//go:build e2e && unix

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// tokenTransport sends a token with each request.
type tokenTransport struct {
	token string
	next  http.RoundTripper
}

func (b tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// with returns a copy of the client that sends a token.
func (w *rawClient) with(token string) *rawClient {
	client := *w.client
	client.Transport = tokenTransport{token, client.Transport}
	return &rawClient{url: w.url, client: &client, version: w.version}
}

// issuedToken is the output of `onecall auth token --json`.
type issuedToken struct{ Name, Token, SHA256 string }

// issueToken runs onecall auth token and returns the new token.
func issueToken(t *testing.T, name string) issuedToken {
	t.Helper()
	out, err := clitest.Command(t, t.TempDir(), "auth", "token", name, "--json").Output()
	var token issuedToken
	if err == nil {
		err = json.Unmarshal(out, &token)
	}
	if err != nil {
		t.Fatalf("auth token: %v: %s", err, out)
	}
	return token
}

// visibleFunctions returns which of some functions a client may use.
func visibleFunctions(t *testing.T, w *rawClient, functions ...string) (visible []string) {
	t.Helper()
	for _, function := range functions {
		text, failed := w.tool(t, "chain", map[string]any{"dryRun": true,
			"steps": []any{map[string]any{"fn": function, "args": map[string]any{}}}})
		if !failed || gjson.Get(text, "error.faults.0.code").String() != "unknown_function" {
			visible = append(visible, function)
		}
	}
	return visible
}

// TestServeByToken checks that a token of onecall auth token admits its client with the rights of its entry, and that clients without a
// token are refused.
func TestServeByToken(t *testing.T) {
	t.Parallel()
	reader, admin := issueToken(t, "reader"), issueToken(t, "the admin")
	config := clitest.Write(t, t.TempDir(), "onecall.yaml",
		fmt.Sprintf("fs: {root: .}\nfunctions: {fs.list: {tier: read_write}, expr.eval: {tier: admin}}\n"+
			"access:\n  tokens:\n    - {name: reader, sha256: %q, functions: [fs.*, 'expr.*', http.post]}\n    - {name: the admin, "+
			"sha256: %q, tier: admin}\n", reader.SHA256, admin.SHA256))
	s := serveHTTP(t, config)
	anonymous := stateless(t, s.url)
	list := anonymous.message(t, "1", "tools/list", nil)
	for name, w := range map[string]*rawClient{"none": anonymous, "guessed": anonymous.with(issueToken(t, "x").Token),
		"a hash": anonymous.with(admin.SHA256)} {
		if r := w.send(t, http.MethodPost, list, nil); r.status != http.StatusUnauthorized ||
			!strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("token %s: status %d, want 401: %v %s", name, r.status, r.header, r.body)
		}
	}
	inURL := stateless(t, s.url+"?access_token="+admin.Token)
	if r := inURL.send(t, http.MethodPost, list, nil); r.status != http.StatusBadRequest || strings.Contains(string(r.body), admin.Token) {
		t.Errorf("a token in the URL: status %d, want 400 without the token: %s", r.status, r.body)
	}
	functions := []string{"fs.find", "fs.list", "expr.eval", "http.get", "text.replace"}
	if got := visibleFunctions(t, anonymous.with(reader.Token), functions...); !slices.Equal(got, []string{"fs.find"}) {
		t.Errorf("the reader sees %q, want fs.find", got)
	}
	if got := visibleFunctions(t, anonymous.with(admin.Token), functions...); !slices.Equal(got, functions) {
		t.Errorf("the admin sees %q, want %q", got, functions)
	}
	if log := s.stderr.String(); strings.Contains(log, reader.Token) || strings.Contains(log, admin.Token) {
		t.Errorf("a token is logged: %s", log)
	}
}

// TestServeUnmatchedFunctions checks that patterns of a token that match no function are logged when the sources are ready.
func TestServeUnmatchedFunctions(t *testing.T) {
	t.Parallel()
	config := clitest.Write(t, t.TempDir(), "onecall.yaml", "fs: {root: .}\nmcpServers: {gone: {command: no-such-program}}\n"+
		"access: {tokens: [{name: ci, sha256: "+strings.Repeat("0123456789abcdef", 4)+", functions: [fs.*, fs.gerp, gone.tool, 'netbox.*']}]}\n")
	s := serveHTTP(t, config)
	waitForLog(t, s.stderr, "/access/tokens/0/functions/3: \"netbox.*\" matches no function, so it lets the token ci call nothing", 1)
	waitForLog(t, s.stderr, "/access/tokens/0/functions/1: \"fs.gerp\" matches no function", 1)
	waitForLog(t, s.stderr, "did you mean fs.grep", 1)
	if log := s.stderr.String(); strings.Contains(log, "functions/0") || strings.Contains(log, "functions/2") {
		t.Errorf("the log reports patterns that match, or whose source is down: %s", log)
	}
}

// TestServeNoFiles checks that clients with tokens cannot use the server's working directory unless the configuration sets fs.root.
func TestServeNoFiles(t *testing.T) {
	t.Parallel()
	issued := issueToken(t, "ci")
	entry := fmt.Sprintf("access: {tokens: [{name: ci, sha256: %q, tier: admin}]}\n", issued.SHA256)
	for text, offered := range map[string]bool{entry: false, entry + "fs: {root: .}\n": true, "access: {http: admin}\n": true} {
		s := serveHTTP(t, clitest.Write(t, t.TempDir(), "onecall.yaml", text))
		w := stateless(t, s.url).with(issued.Token)
		answer := string(w.send(t, http.MethodPost, w.message(t, "1", "tools/call",
			map[string]any{"name": "search", "arguments": map[string]any{"query": "read a file"}}), nil).body)
		if strings.Contains(answer, "fs.cat") != offered || strings.Contains(s.stderr.String(), `level=INFO msg="fs.* is left out because callers `) == offered {
			t.Errorf("%s: want fs.cat found %v, logged as left out %v: %s\n%s", text, offered, !offered, answer, s.stderr.String())
		}
	}
}

// TestServeOtherMachines checks that a server with tokens can listen on any address, and serves clients that use a known host name.
func TestServeOtherMachines(t *testing.T) {
	t.Parallel()
	issued := issueToken(t, "ci")
	entry := fmt.Sprintf("tokens: [{name: ci, sha256: %q}]", issued.SHA256)
	s := serveHTTP(t, clitest.Write(t, t.TempDir(), "onecall.yaml",
		"access: {"+entry+", hosts: [tools.internal:7000, plain.internal]}\n"), "--http", "0.0.0.0:0")
	waitForLog(t, s.stderr, "is served without TLS: others on the network can read tokens", 1)
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	w := stateless(t, "http://127.0.0.1:"+u.Port()+u.Path).with(issued.Token)
	list := w.message(t, "1", "tools/list", nil)
	for host, want := range map[string]int{"": http.StatusOK, "tools.internal:7000": http.StatusOK, "Plain.Internal": http.StatusOK,
		"tools.internal:7001": http.StatusForbidden, "evil.example": http.StatusForbidden, "0.0.0.0:" + u.Port(): http.StatusForbidden} {
		r := w.send(t, http.MethodPost, list, func(r *http.Request) { r.Host = host })
		if r.status != want {
			t.Errorf("the host %q: status %d, want %d: %s", host, r.status, want, r.body)
		}
	}
	safe := serveHTTP(t, clitest.Write(t, t.TempDir(), "onecall.yaml", "access: {"+entry+", url: 'https://tools.example.com/mcp'}\n"),
		"--http", "[::]:0")
	if log := safe.stderr.String(); strings.Contains(log, "TLS") {
		t.Errorf("the log warns of a lack of TLS despite the https URL: %s", log)
	}
}

// TestServeOtherMachinesNeedTokens checks that a configuration that admits other machines without tokens is refused over HTTP.
func TestServeOtherMachinesNeedTokens(t *testing.T) {
	t.Parallel()
	for text, position := range map[string]string{
		"access: {url: 'https://tools.example.com/mcp'}\n":                ":1:15: bad_request at /access/url: ",
		"access: {hosts: [localhost:80, '192.0.2.7:8080'], http: read}\n": ":1:32: bad_request at /access/hosts/1: ",
	} {
		config := clitest.Write(t, t.TempDir(), "onecall.yaml", text)
		out, err := clitest.Command(t, t.TempDir(), "serve", "--http", "127.0.0.1:0", "--config", config).CombinedOutput()
		if clitest.ExitCode(err) != "4" || !strings.Contains(string(out),
			config+position+"this setting is for clients on other machines, which need tokens") {
			t.Errorf("%s%v, want exit status 4 and the fault: %s", text, err, out)
		}
		if out, err := clitest.Command(t, t.TempDir(), "serve", "--config", config).CombinedOutput(); err != nil {
			t.Errorf("over stdio, %s%v, want exit status 0: %s", text, err, out)
		}
	}
}

// TestServeJWT checks that tokens of an authorization server with keys in a file are accepted, and that clients learn where to get
// one.
func TestServeJWT(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const issuer, audience = "https://id.example.com", "https://tools.example.com/mcp"
	folder := t.TempDir()
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "one", Algorithm: "ES256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	clitest.Write(t, folder, "keys.json", string(keys))
	config := clitest.Write(t, folder, "onecall.yaml",
		fmt.Sprintf("access: {jwt: {issuer: %q, audience: %q, keys: keys.json, scopes: {onecall.read: read, onecall.admin: admin}}, url: %q}\n"+
			"fs: {root: .}\nfunctions: {fs.list: {tier: admin}}\n", issuer, audience, audience))
	sign := func(audience, scope string) string {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
			(&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", "one"))
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		token, err := jwt.Signed(signer).Claims(map[string]any{"iss": issuer, "aud": audience, "sub": "alice", "scope": scope,
			"iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	s := serveHTTP(t, config)
	w := stateless(t, s.url)
	list := w.message(t, "1", "tools/list", nil)
	r := w.send(t, http.MethodPost, list, nil)
	if want := "https://tools.example.com/.well-known/oauth-protected-resource/mcp"; r.status != http.StatusUnauthorized ||
		!strings.Contains(r.header.Get("WWW-Authenticate"), want) {
		t.Errorf("without a token: status %d, want 401 and %s: %v", r.status, want, r.header)
	}
	metadata := &rawClient{url: strings.TrimSuffix(s.url, "/mcp") + "/.well-known/oauth-protected-resource/mcp", client: w.client}
	if got := gjson.ParseBytes(metadata.send(t, http.MethodGet, nil, nil).body); got.Get("resource").String() != audience ||
		got.Get("authorization_servers.0").String() != issuer || got.Get("scopes_supported.#").Int() != 2 {
		t.Errorf("got metadata %s, want resource %s, server %s and 2 scopes", got.Raw, audience, issuer)
	}
	if got := visibleFunctions(t, w.with(sign(audience, "openid onecall.read")), "fs.find", "fs.list"); !slices.Equal(got,
		[]string{"fs.find"}) {
		t.Errorf("the reader sees %q, want fs.find", got)
	}
	if got := visibleFunctions(t, w.with(sign(audience, "onecall.admin onecall.read")), "fs.find", "fs.list"); len(got) != 2 {
		t.Errorf("the admin sees %q, want both", got)
	}
	for token, want := range map[string]int{sign("https://other.example.com", "onecall.read"): http.StatusUnauthorized,
		sign(audience, "openid"): http.StatusForbidden} {
		if r := w.with(token).send(t, http.MethodPost, list, nil); r.status != want {
			t.Errorf("status %d %s, want %d", r.status, r.body, want)
		}
	}
}

// TestServeLimits checks that the server enforces the configuration's limit of sessions, for all callers and for one.
func TestServeLimits(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	issued := issueToken(t, "ci")
	for name, text := range map[string]string{"all": "limits: {maxSessions: 1}\n",
		"caller": "limits: {maxSessions: 4}\naccess: {tokens: [{name: ci, sha256: " + issued.SHA256 + "}]}\n"} {
		s := serveHTTP(t, clitest.Write(t, folder, name+".yaml", text))
		first, second := stateless(t, s.url).with(issued.Token), stateless(t, s.url).with(issued.Token)
		first.begin(t)
		if err := second.open(t); err == nil {
			t.Errorf("%s: a second session was opened despite the limit", name)
		}
	}
}

// TestReloadNeedsTokens checks that while other machines have access, a configuration without tokens is refused.
func TestReloadNeedsTokens(t *testing.T) {
	t.Parallel()
	issued, folder := issueToken(t, "ci"), t.TempDir()
	config := clitest.Write(t, folder, "onecall.yaml", "access: {hosts: [tools.internal], tokens: [{name: ci, sha256: "+issued.SHA256+"}]}\n")
	s := serveHTTP(t, config, "--http", "0.0.0.0:0")
	clitest.Write(t, folder, "onecall.yaml", "access: {hosts: [tools.internal], http: admin}\n")
	hangUp(t, s.cmd)
	waitForLog(t, s.stderr, "their clients need tokens: write access.tokens", 1)
	clitest.Write(t, folder, "onecall.yaml", "access: {hosts: [], tokens: [{name: ci, sha256: "+issued.SHA256+"}]}\n")
	hangUp(t, s.cmd)
	waitForLog(t, s.stderr, "requests are answered only for hosts that are known", 1)
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	anonymous := stateless(t, "http://127.0.0.1:"+u.Port()+u.Path)
	list := anonymous.message(t, "1", "tools/list", nil)
	if r := anonymous.send(t, http.MethodPost, list, nil); r.status != http.StatusUnauthorized {
		t.Errorf("without a token: status %d, want 401: %s", r.status, r.body)
	}
	if r := anonymous.with(issued.Token).send(t, http.MethodPost, list, nil); r.status != http.StatusOK {
		t.Errorf("with a token of the served configuration: status %d, want 200: %s", r.status, r.body)
	}
}
