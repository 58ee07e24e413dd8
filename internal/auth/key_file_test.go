package auth_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
)

// keyFileOf returns the name of a file with a key set, and a function that rewrites it.
func keyFileOf(t *testing.T, text string) (name string, write func(string)) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "keys.json")
	write = func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	return name, write
}

// withKeyFile runs a test in fake time with a table whose keys are in a file.
func withKeyFile(t *testing.T, name string, test func(t *testing.T, known *auth.Table, check func(p *testKey) fault.Code),
	change ...func(*auth.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		known := table(t, "ours", name, change...)
		defer known.Close()
		test(t, known, func(p *testKey) fault.Code {
			_, err := known.Verify(t.Context(), p.plain("ours"))
			return fault.CodeOf(err)
		})
	})
}

// TestRewrittenInPlace: a file that is written twice within one tick of its clock is read again, even though its time and size are
// unchanged. That also covers a file that is read while it is being written.
func TestRewrittenInPlace(t *testing.T) {
	t.Parallel()
	one, other := jwks(rsaPair.jwk(nil)), jwks(ecPair.jwk(nil))
	longest := max(len(one), len(other))
	one += strings.Repeat(" ", longest-len(one))
	other += strings.Repeat(" ", longest-len(other))
	name, write := keyFileOf(t, one)
	synctest.Test(t, func(t *testing.T) {
		tick := time.Now()
		setModTime := func() {
			if err := os.Chtimes(name, tick, tick); err != nil {
				t.Fatal(err)
			}
		}
		setModTime()
		known := table(t, "ours", name)
		defer known.Close()
		write(other)
		setModTime()
		time.Sleep(checkFileEvery)
		for p, want := range map[*testKey]fault.Code{rsaPair: fault.Denied, ecPair: ""} {
			if _, err := known.Verify(t.Context(), p.plain("ours")); fault.CodeOf(err) != want {
				t.Errorf("%s: %v, want %q", p.alg, inner(err), want)
			}
		}
		time.Sleep(minFileAge)
		known.RefreshKeys(true)
		before := known.KeysVersion()
		write(one)
		setModTime()
		if known.RefreshKeys(true); known.KeysVersion() != before {
			t.Error("a file with the same old modification time was read again")
		}
	})
}

// TestRefreshKeys: a change of the keys is noticed without a token, from a file at once, and from a URL when it has been fetched.
func TestRefreshKeys(t *testing.T) {
	t.Parallel()
	name, write := keyFileOf(t, jwks(rsaPair.jwk(nil)))
	withKeyFile(t, name, func(t *testing.T, known *auth.Table, _ func(*testKey) fault.Code) {
		before := known.KeysVersion()
		known.RefreshKeys(true)
		if known.KeysVersion() != before {
			t.Error("the keys' version changed although the file did not")
		}
		write(jwks(ecPair.jwk(nil)))
		if known.RefreshKeys(false); known.KeysVersion() != before {
			t.Error("the file was read again within checkFileEvery")
		}
		if known.RefreshKeys(true); known.KeysVersion() == before {
			t.Error("a forced refresh did not read the changed file")
		}
		before = known.KeysVersion()
		write(`{"keys":[]}`)
		time.Sleep(checkFileEvery)
		if known.RefreshKeys(false); known.KeysVersion() == before {
			t.Error("the changed file was not read after checkFileEvery")
		}
	})
	s := &keyServer{keys: jwks(rsaPair.jwk(nil))}
	withKeyServer(t, s, func(t *testing.T, known *auth.Table, check func(*testKey) fault.Code) {
		_ = check(rsaPair)
		before := known.KeysVersion()
		s.set(func(s *keyServer) { s.keys = jwks(ecPair.jwk(nil)) })
		known.RefreshKeys(false)
		synctest.Wait()
		if known.KeysVersion() != before || s.count() != 1 {
			t.Error("recent keys were fetched again; fetches:", s.count())
		}
		known.RefreshKeys(true)
		synctest.Wait()
		if known.KeysVersion() == before || s.count() != 2 {
			t.Error("a forced refresh did not fetch the new keys; fetches:", s.count())
		}
		before = known.KeysVersion()
		s.set(func(s *keyServer) { s.keys = `{"keys":[]}` })
		time.Sleep(fetchEvery)
		known.RefreshKeys(false)
		synctest.Wait()
		if known.KeysVersion() == before {
			t.Error("old keys were not fetched again")
		}
	})
	if none := table(t, "ours", name, func(o *auth.Options) { o.JWT = nil }); none.KeysVersion() != 0 {
		t.Error("a table without JWTs has a version of keys")
	}
}

// TestReverify: Reverify accepts a token that has expired, but not one that is invalid otherwise.
func TestReverify(t *testing.T) {
	t.Parallel()
	s := &keyServer{keys: jwks(rsaPair.jwk(nil))}
	synctest.Test(t, func(t *testing.T) {
		at := now
		open := func() *auth.Table {
			return table(t, bubbleIssuer, "", func(o *auth.Options) {
				o.Client = &http.Client{Transport: s}
				o.Now = func() time.Time { return at }
			})
		}
		known, fresh := open(), open()
		defer known.Close()
		defer fresh.Close()
		token := rsaPair.plain(bubbleIssuer)
		first, err := known.Verify(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		at = now.Add(24 * time.Hour)
		for _, known := range []*auth.Table{known, fresh} {
			if _, err := known.Verify(t.Context(), token); fault.CodeOf(err) != fault.Denied {
				t.Errorf("Verify of an expired token: %v, want denied", err)
			}
			if caller, err := known.Reverify(t.Context(), token); err != nil || caller.ID != first.ID || caller.Rights != first.Rights {
				t.Errorf("Reverify of an expired token: %+v, %v, want the same caller", caller, inner(err))
			}
		}
		for name, bad := range map[string]string{
			"a wrong signature": rsaOther.token(rsaPair.header(), goodClaims(bubbleIssuer, nil)),
			"another audience":  rsaPair.token(rsaPair.header(), goodClaims(bubbleIssuer, map[string]any{"aud": "a"})),
			"no scope":          rsaPair.token(rsaPair.header(), goodClaims(bubbleIssuer, map[string]any{"scope": "openid"})),
			"not yet":           rsaPair.token(rsaPair.header(), goodClaims(bubbleIssuer, map[string]any{"nbf": now.Add(48 * time.Hour).Unix(), "exp": now.Add(72 * time.Hour).Unix()})),
			"junk":              "junk",
		} {
			if _, err := known.Reverify(t.Context(), bad); fault.CodeOf(err) != fault.Denied {
				t.Errorf("Reverify, %s: %v, want denied", name, err)
			}
		}
		s.set(func(s *keyServer) { s.keys = jwks(ecPair.jwk(nil)) })
		known.RefreshKeys(true)
		synctest.Wait()
		if _, err := known.Reverify(t.Context(), token); fault.CodeOf(err) != fault.Denied {
			t.Errorf("Reverify after its key was revoked: %v, want denied", err)
		}
	})
}

// TestRefusedCallerID: an error names the caller of a refused token only if the issuer has signed the token.
func TestRefusedCallerID(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t, rsaPair.jwk(nil))
	known := table(t, s.URL, "")
	caller, err := known.Verify(t.Context(), rsaPair.plain(s.URL))
	if err != nil {
		t.Fatal(inner(err))
	}
	type m = map[string]any
	old, ann := m{"exp": now.Add(-time.Hour).Unix(), "iat": nil}, caller.ID
	for name, test := range map[string]struct{ token, id string }{
		"no scope":             {rsaPair.token(rsaPair.header(), goodClaims(s.URL, m{"scope": "openid"})), ann},
		"expired":              {rsaPair.token(rsaPair.header(), goodClaims(s.URL, old)), ann},
		"expired, forged":      {rsaOther.token(rsaPair.header(), goodClaims(s.URL, old)), ""},
		"expired, unknown key": {ecPair.token(ecPair.header(), goodClaims(s.URL, old)), ""},
		"no scope, forged":     {rsaOther.token(rsaPair.header(), goodClaims(s.URL, m{"scope": "openid"})), ""},
		"another audience":     {rsaPair.token(rsaPair.header(), goodClaims(s.URL, m{"aud": "a"})), ""},
		"expired, bad subject": {rsaPair.token(rsaPair.header(), goodClaims(s.URL, m{"exp": 1, "iat": nil, "sub": "a\nb"})), ""},
		"junk":                 {"junk", ""},
	} {
		_, err := known.Verify(t.Context(), test.token)
		id := ""
		var holder interface {
			error
			CallerID() string
		}
		if errors.As(err, &holder) {
			id = holder.CallerID()
		}
		if fault.CodeOf(err) != fault.Denied || id != test.id {
			t.Errorf("%s: %v with caller %q, want %q", name, err, id, test.id)
		}
	}
}
