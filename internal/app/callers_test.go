package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// TestIssuerKeysStay: a reload that changes what tokens may do, and not where their issuer's keys are, fetches no keys.
func TestIssuerKeysStay(t *testing.T) {
	t.Parallel()
	var fetched atomic.Int64
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		fmt.Fprint(w, `{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "one", "alg": "EdDSA", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`) // RFC 8037
	}))
	defer issuer.Close()
	folder := t.TempDir()
	path := write(t, folder, "onecall.yaml", "")
	p := processOf(Options{Config: path}, serving{serve: true, anySurface: true, log: slog.New(slog.DiscardHandler)})
	defer p.close()
	open := func(before *App, keys, audience, scope string) *App {
		t.Helper()
		write(t, folder, "onecall.yaml", fmt.Sprintf("access: {jwt: {issuer: ours, audience: %s, keys: %q, scopes: {%s: read}}}\n", audience, issuer.URL+keys, scope))
		a, err := p.open(before)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	until := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(tooLong); !is(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	first := open(nil, "/keys", "one", "use")
	until("the keys are not fetched", func() bool { return first.callers.Keys() == 1 })
	second := open(first, "/keys", "two", "other")
	if err := first.close(); err != nil {
		t.Error(err)
	}
	if keys, n := second.callers.Keys(), fetched.Load(); keys != 1 || n != 1 {
		t.Errorf("after a change of scopes and audience the keys are at %d, fetched %d times", keys, n)
	}
	third := open(second, "/others", "two", "other")
	until("other keys are not fetched", func() bool { return fetched.Load() == 2 && third.callers.Keys() == 1 })
	for _, a := range []*App{second, third} {
		if err := a.close(); err != nil {
			t.Error(err)
		}
	}
}
