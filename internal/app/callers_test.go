package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

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
