package auth_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
)

func TestRotation(t *testing.T) {
	t.Parallel()
	s := &keyServer{keys: jwks(rsaPair.jwk(nil))}
	bubble(t, s, func(t *testing.T, _ *auth.Table, check func(*testKey) fault.Code) {
		if code := check(rsaPair); code != "" {
			t.Fatal(code)
		}
		if code := check(ecPair); code != fault.Denied {
			t.Error("a key of nobody:", code)
		}
		s.set(func(s *keyServer) { s.keys = jwks(ecPair.jwk(nil), rsaPair.jwk(nil)) })
		if code := check(ecPair); code != fault.Denied {
			t.Error("within the time between two fetches:", code)
		}
		time.Sleep(fetchApart)
		if code := check(ecPair); code != "" {
			t.Error("a new key:", code)
		}
		s.set(func(s *keyServer) { s.keys = jwks(ecPair.jwk(nil)) })
		if code := check(rsaPair); code != "" {
			t.Error("a key that has just been taken back, and was verified before:", code)
		}
		time.Sleep(fetchEvery)
		_ = check(rsaPair) // what begins the fetch may still be accepted
		synctest.Wait()
		if code := check(rsaPair); code != fault.Denied {
			t.Error("a key that was taken back:", code)
		}
		if code := check(ecPair); code != "" {
			t.Error("the key that stays:", code)
		}
	})
}

// TestAReplacedKey has an issuer that gives a new key the id of the old.
func TestAReplacedKey(t *testing.T) {
	t.Parallel()
	s := &keyServer{keys: jwks(rsaOther.jwk(map[string]any{"kid": "rsa"}))}
	bubble(t, s, func(t *testing.T, _ *auth.Table, check func(*testKey) fault.Code) {
		if code := check(rsaPair); code != fault.Denied {
			t.Error(code)
		}
		s.set(func(s *keyServer) { s.keys = jwks(rsaPair.jwk(nil)) })
		time.Sleep(fetchApart)
		if code := check(rsaPair); code != "" {
			t.Error(code)
		}
	})
}

// TestMovedKeys looks for the keys anew where they are gone, and not where they must not be.
func TestMovedKeys(t *testing.T) {
	t.Parallel()
	s := &keyServer{keys: jwks(rsaPair.jwk(nil))}
	bubble(t, s, func(t *testing.T, _ *auth.Table, check func(*testKey) fault.Code) {
		if code := check(rsaPair); code != "" {
			t.Fatal(code)
		}
		s.set(func(s *keyServer) {
			s.keys, s.endpoint = jwks(ecPair.jwk(nil)), "https://keys.example.com/elsewhere?v=2"
		})
		time.Sleep(fetchApart)
		if code := check(ecPair); code != fault.Unavailable {
			t.Error("at the old place:", code)
		}
		time.Sleep(fetchApart)
		if code := check(ecPair); code != "" {
			t.Error("at the new place:", code)
		}
	})
	for _, endpoint := range []string{"http://keys.example.com/keys", "https://a:b@keys.example.com/keys", "/keys",
		"https://keys.example.com/keys#1"} {
		s := &keyServer{keys: jwks(rsaPair.jwk(nil)), endpoint: endpoint}
		bubble(t, s, func(t *testing.T, _ *auth.Table, check func(*testKey) fault.Code) {
			if code := check(rsaPair); code != fault.Unavailable || s.count() > 0 {
				t.Errorf("%s: %q after %d fetches", endpoint, code, s.count())
			}
		})
	}
}

// TestUnknownKeysDoNotHammer sends tokens of keys that do not exist for ten minutes.
func TestUnknownKeysDoNotHammer(t *testing.T) {
	t.Parallel()
	s := &keyServer{keys: jwks(rsaPair.jwk(nil))}
	bubble(t, s, func(t *testing.T, known *auth.Table, check func(*testKey) fault.Code) {
		const minutes = 10
		for i := range minutes * 60 {
			token := rsaOther.token(fmt.Sprintf(`{"alg":"RS256","kid":"random-%d"}`, i), goodClaims(bubbleIssuer, nil))
			if _, err := known.Verify(t.Context(), token); fault.CodeOf(err) != fault.Denied {
				t.Fatal(err)
			}
			if i%60 == 0 {
				if code := check(rsaPair); code != "" {
					t.Fatal(code)
				}
			}
			time.Sleep(time.Second)
		}
		if maximum := minutes*60/int(fetchApart/time.Second) + 1; s.count() > maximum || s.count() < maximum/2 {
			t.Errorf("%d fetches in %d minutes, at most %d are allowed", s.count(), minutes, maximum)
		}
	})
}

func TestAnUnreachableKeyServer(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	s := &keyServer{keys: jwks(rsaPair.jwk(nil)), err: down}
	forged := rsaOther.token(rsaPair.header(), goodClaims(bubbleIssuer, nil))
	bubble(t, s, func(t *testing.T, known *auth.Table, check func(*testKey) fault.Code) {
		for range 20 {
			if code := check(rsaPair); code != fault.Unavailable {
				t.Fatal("no keys at all:", code)
			}
			time.Sleep(time.Minute / 20)
		}
		s.set(func(s *keyServer) { s.err = nil })
		time.Sleep(fetchApart)
		if code := check(rsaPair); code != "" {
			t.Fatal("recovered:", code)
		}
		s.set(func(s *keyServer) { s.err = down })
		for range 30 { // a day and more
			time.Sleep(time.Hour)
			if code := check(rsaPair); code != "" {
				t.Fatal("a known key, the server down:", code)
			}
			if code := check(ecPair); code != fault.Unavailable {
				t.Fatal("an unknown key, the server down:", code)
			}
			if _, err := known.Verify(t.Context(), forged); fault.CodeOf(err) != fault.Denied {
				t.Fatal("a wrong signature, the server down:", err)
			}
		}
		s.set(func(s *keyServer) { s.err, s.keys = nil, jwks(ecPair.jwk(nil)) })
		time.Sleep(fetchApart)
		if code := check(ecPair); code != "" {
			t.Error("recovered, with a new key:", code)
		}
		if code := check(rsaPair); code != fault.Denied {
			t.Error("the old key is gone:", code)
		}
	})
}

// TestASlowKeyServer holds up nobody whose key is known, and those who wait share one fetch.
func TestASlowKeyServer(t *testing.T) {
	t.Parallel()
	s := &keyServer{keys: jwks(rsaPair.jwk(nil)), takes: 2 * time.Second}
	bubble(t, s, func(t *testing.T, known *auth.Table, check func(*testKey) fault.Code) {
		began := time.Now()
		var all sync.WaitGroup
		var failed atomic.Int32
		for range 50 {
			all.Go(func() {
				if check(rsaPair) != "" {
					failed.Add(1)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); failed.Load() > 0 || took != 2*s.takes || s.count() != 1 {
			t.Errorf("%d failed, after %v and %d fetches", failed.Load(), took, s.count())
		}
		s.set(func(s *keyServer) { s.takes = time.Hour })
		time.Sleep(fetchEvery)
		began = time.Now()
		if code := check(rsaPair); code != "" || time.Since(began) != 0 {
			t.Errorf("%q after %v", code, time.Since(began))
		}
		time.Sleep(fetchTimeout)
		began = time.Now()
		if code := check(ecPair); code != fault.Unavailable || time.Since(began) > fetchTimeout {
			t.Errorf("an unknown key: %q after %v", code, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.Sleep(fetchApart)
		if _, err := known.Verify(ctx, ecPair.plain(bubbleIssuer)); fault.CodeOf(err) != fault.Timeout && fault.CodeOf(err) != fault.Unavailable {
			t.Error(err)
		}
	})
}

// TestAfterALongRest waits for the keys rather than use those of a day ago.
func TestAfterALongRest(t *testing.T) {
	t.Parallel()
	s := &keyServer{keys: jwks(rsaPair.jwk(nil))}
	bubble(t, s, func(t *testing.T, _ *auth.Table, check func(*testKey) fault.Code) {
		if code := check(rsaPair); code != "" {
			t.Fatal(code)
		}
		s.set(func(s *keyServer) { s.keys = jwks(ecPair.jwk(nil)) })
		time.Sleep(tooOld)
		if code := check(rsaPair); code != fault.Denied {
			t.Error("a key that was taken back while nobody came:", code)
		}
	})
}

func TestKeyFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "keys.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name+"~", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+"~", name); err != nil {
			t.Fatal(err)
		}
	}
	for what, text := range map[string]string{
		"empty": "", "no JSON": "-----BEGIN PUBLIC KEY-----", "no keys": `{"keys":[]}`, "another object": `{}`, "too long": strings.Repeat(" ", maxKeysBytes+1),
		"a shared secret":  jwks(map[string]any{"kty": "oct", "k": "AAAA"}),
		"a private key":    jwks(edPair.jwk(map[string]any{"d": b64(make([]byte, 32))})),
		"too many":         jwks(make([]map[string]any, maxKeys+1)...),
		"a short key":      jwks(rsaShort.jwk(nil)),
		"for encryption":   jwks(rsaPair.jwk(map[string]any{"use": "enc"})),
		"for signing":      jwks(rsaPair.jwk(map[string]any{"key_ops": []string{"sign"}})),
		"other algorithms": jwks(rsaPair.jwk(map[string]any{"alg": "RSA-OAEP"})),
		"off the curve":    jwks(ecPair.jwk(map[string]any{"x": b64(make([]byte, 32))})),
	} {
		write(text)
		known, faults := auth.New(&auth.Options{JWT: &auth.JWT{Issuer: "ours", Audience: "a", Scopes: readScopes, Keys: name}})
		if known != nil || len(faults) != 1 || faults[0].At != "/jwt/keys" {
			t.Errorf("%s: %v", what, faults)
		} else if strings.Contains(faults[0].Message, "AAAA") {
			t.Errorf("%s: the fault shows the key: %v", what, faults[0])
		}
	}

	synctest.Test(t, func(t *testing.T) {
		write(jwks(rsaPair.jwk(nil)))
		known := table(t, "ours", name)
		defer known.Close()
		check := func(p *testKey) fault.Code {
			_, err := known.Verify(t.Context(), p.plain("ours"))
			return fault.CodeOf(err)
		}
		if rsa, ec := check(rsaPair), check(ecPair); rsa != "" || ec != fault.Denied {
			t.Fatal(rsa, ec)
		}
		write(jwks(ecPair.jwk(nil)))
		time.Sleep(checkFileEvery)
		if code := check(ecPair); code != "" {
			t.Error("the file has changed:", code)
		}
		if code := check(rsaPair); code != fault.Denied {
			t.Error("the old key:", code)
		}
		for _, broken := range []string{"{", ""} {
			if write(broken); broken == "" {
				_ = os.Remove(name)
			}
			time.Sleep(checkFileEvery)
			if code := check(ecPair); code != "" {
				t.Error("a known key, the file broken:", code)
			}
			if code := check(rsaPair); code != fault.Unavailable {
				t.Error("an unknown key, the file broken:", code)
			}
		}
		write(jwks(rsaPair.jwk(nil)))
		time.Sleep(checkFileEvery)
		if code := check(rsaPair); code != "" {
			t.Error("the file is whole again:", code)
		}
		write(`{"keys":[]}`)
		time.Sleep(checkFileEvery)
		if code := check(rsaPair); code != fault.Denied {
			t.Error("all keys are taken out of the file:", code)
		}
	})
}
