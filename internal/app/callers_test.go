package app

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// TestReloadKeepsIssuerKeys: a reload that changes the rights of tokens but not the location of their issuer's keys fetches no keys.
func TestReloadKeepsIssuerKeys(t *testing.T) {
	t.Parallel()
	var fetched atomic.Int64
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		// The example key of RFC 8037, appendix A.2.
		fmt.Fprint(w, `{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "one", "alg": "EdDSA", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`)
	}))
	defer issuer.Close()
	folder := t.TempDir()
	path := write(t, folder, "onecall.yaml", "")
	p := processOf(Options{Config: path}, serverTraits{serve: true, overHTTP: true, log: slog.New(slog.DiscardHandler)})
	defer p.close()
	open := func(before *App, keys, audience, scope string) *App {
		t.Helper()
		write(t, folder, "onecall.yaml",
			fmt.Sprintf("access: {jwt: {issuer: ours, audience: %s, keys: %q, scopes: {%s: read}}}\n", audience, issuer.URL+keys, scope))
		a, err := p.open(before)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first := open(nil, "/keys", "one", "use")
	polltest.Until(t, "the keys are fetched", func() bool { return first.callers.KeysVersion() == 1 })
	second := open(first, "/keys", "two", "other")
	if err := first.close(); err != nil {
		t.Error(err)
	}
	if keys, n := second.callers.KeysVersion(), fetched.Load(); keys != 1 || n != 1 {
		t.Errorf("after a change of scopes and audience: keys version %d, fetched %d times; want 1 and 1", keys, n)
	}
	third := open(second, "/others", "two", "other")
	polltest.Until(t, "other keys are fetched", func() bool { return fetched.Load() == 2 && third.callers.KeysVersion() == 1 })
	for _, a := range []*App{second, third} {
		if err := a.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestIdleApprovers: if only people approve, a token that may approve but sees nobody's runs is warned of.
func TestIdleApprovers(t *testing.T) {
	t.Parallel()
	const tokens = "access: {tokens: [{name: boss, sha256: %[1]q, tier: admin, console: approve}, " +
		"{name: ann, sha256: %[2]q, tier: read_write, console: approve, approves: [ann]}, {name: part, sha256: %[3]q, tier: admin, functions: [fs.*], console: approve}, " +
		"{name: agent, sha256: %[4]q}, {name: lead, sha256: %[5]q, tier: read_write, console: approve, approves: [agent]}]}\n"
	text := fmt.Sprintf(tokens, strings.Repeat("a", 64), strings.Repeat("b", 64), strings.Repeat("c", 64),
		strings.Repeat("d", 64), strings.Repeat("e", 64))
	const rule = "flows: {rules: [{from: a, to: b, do: approve}]}\n"
	idle := []string{"/access/tokens/1/console", "/access/tokens/2/console"}
	for before, want := range map[string][]string{"": nil, "approveBy: person\n": idle, rule: idle} {
		var got []string
		for _, f := range (&subject{App: appOf(t, before+text, serverTraits{serve: true})}).idleApprovers() {
			got = append(got, f.At)
			if strings.Contains(f.Message, "approveBy: person") == (before == rule) {
				t.Errorf("%q: the message names another setting: %s", before, f.Message)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: found %q, want %q", before, got, want)
		}
	}
}

// TestPeopleAreNoAgents: an MCP client with a token that may approve in the console is told which setting makes it a person's.
func TestPeopleAreNoAgents(t *testing.T) {
	t.Parallel()
	for before, want := range map[string]string{
		"approveBy: person\n":                               "with approveBy: person it is",
		"flows: {rules: [{from: a, to: b, do: approve}]}\n": "with a flow rule that says do: approve it is",
	} {
		text := fmt.Sprintf("access: {tokens: [{name: ann, sha256: %q, console: approve}]}\n", fmt.Sprintf("%x", sha256.Sum256([]byte("secret"))))
		a := appOf(t, before+text, serverTraits{serve: true, overHTTP: true})
		if faults := a.openCallers(&a.config.Access); len(faults) > 0 {
			t.Fatal(faults)
		}
		t.Cleanup(a.callers.Close)
		caller, err := (&server{}).access(a).Callers.Verify(t.Context(), "secret")
		if caller != nil || err == nil || !strings.Contains(fault.Message(err), want) {
			t.Errorf("%q: got %v, %v, want %q", before, caller, err, want)
		}
	}
}
