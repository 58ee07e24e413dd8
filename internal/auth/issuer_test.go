package auth_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
	"github.com/onecall-mcp/onecall/steps"
)

// The limits that the package holds to.
const (
	checkFileEvery   = time.Second
	minFileAge       = 5 * time.Second
	fetchEvery       = 5 * time.Minute
	minFetchInterval = 10 * time.Second
	fetchTimeout     = 10 * time.Second
	tooOld           = time.Hour
	leeway           = time.Minute

	maxToken     = 16 << 10
	maxName      = 100
	maxSubject   = 255
	maxKeys      = 100
	maxKeyID     = 256
	maxKeysBytes = 1 << 20
)

// now is the time of the tests' tokens.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// testKey is a key of the tests' issuer. Keys, signatures and tokens are made here without the library under test.
type testKey struct {
	kid, alg string
	private  crypto.Signer
}

var (
	rsaPair    = newPair("rsa", "RS256", 2048)
	rsaOther   = newPair("rsa-2", "RS256", 2048)
	rsaShort   = newPair("short", "RS256", 1024)
	ecPair     = newPair("ec", "ES256", 0)
	edPair     = newPair("ed", "EdDSA", 0)
	b64        = base64.RawURLEncoding.EncodeToString
	readScopes = map[string]steps.Tier{"onecall.read": steps.TierRead, "onecall.write": steps.TierReadWrite, "onecall.admin": steps.TierAdmin}
)

func newPair(kid, alg string, bits int) *testKey {
	var private crypto.Signer
	var err error
	switch alg {
	case "RS256":
		private, err = rsa.GenerateKey(rand.Reader, bits)
	case "ES256":
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "EdDSA":
		_, private, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		panic(err)
	}
	return &testKey{kid: kid, alg: alg, private: private}
}

// jwk returns the public key. more overrides its members; nil removes one.
func (p *testKey) jwk(more map[string]any) map[string]any {
	key := map[string]any{"kid": p.kid, "alg": p.alg, "use": "sig"}
	switch public := p.private.Public().(type) {
	case *rsa.PublicKey:
		key["kty"], key["n"], key["e"] = "RSA", b64(public.N.Bytes()), "AQAB"
	case *ecdsa.PublicKey:
		point, err := public.Bytes() // the byte 4, then x and y
		if err != nil {
			panic(err)
		}
		key["kty"], key["crv"], key["x"], key["y"] = "EC", "P-256", b64(point[1:33]), b64(point[33:])
	case ed25519.PublicKey:
		key["kty"], key["crv"], key["x"] = "OKP", "Ed25519", b64(public)
	}
	for name, value := range more {
		if key[name] = value; value == nil {
			delete(key, name)
		}
	}
	return key
}

// sign signs text with the algorithm.
func (p *testKey) sign(alg string, text []byte) []byte {
	sum := sha256.Sum256(text)
	switch alg {
	case "RS256":
		return must(p.private.Sign(rand.Reader, sum[:], crypto.SHA256))
	case "PS256":
		return must(p.private.Sign(rand.Reader, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}))
	case "ES256":
		r, s, err := ecdsa.Sign(rand.Reader, p.private.(*ecdsa.PrivateKey), sum[:])
		if err != nil {
			panic(err)
		}
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case "EdDSA":
		return must(p.private.Sign(rand.Reader, text, crypto.Hash(0)))
	}
	panic("no such algorithm: " + alg)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func hs256(secret, text []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write(text)
	return mac.Sum(nil)
}

// token returns a JWT of a header and claims in JSON, signed with the header's algorithm.
func (p *testKey) token(header, claims string) string {
	var h struct{ Alg string }
	if json.Unmarshal([]byte(header), &h) != nil || h.Alg == "" {
		h.Alg = p.alg
	}
	text := b64([]byte(header)) + "." + b64([]byte(claims))
	return text + "." + b64(p.sign(h.Alg, []byte(text)))
}

// plain returns a token with a valid header and valid claims.
func (p *testKey) plain(issuer string) string {
	return p.token(p.header(), goodClaims(issuer, nil))
}

func (p *testKey) header() string {
	return fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":"at+jwt"}`, p.alg, p.kid)
}

// goodClaims returns the claims of an accepted token. more overrides them; nil removes one.
func goodClaims(issuer string, more map[string]any) string {
	claims := map[string]any{"iss": issuer, "sub": "ann", "aud": "https://tools.example.com/mcp", "scope": "openid onecall.read",
		"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Hour).Unix()}
	for name, value := range more {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	return string(must(json.Marshal(claims)))
}

// jwks returns a key set.
func jwks(keys ...map[string]any) string {
	return string(must(json.Marshal(map[string]any{"keys": slices.Clip(keys)})))
}

// authServer is an issuer on loopback. A real identity provider cannot run in a test, so the answers follow the RFCs.
type authServer struct {
	*httptest.Server
	fetched atomic.Int32 // the number of requests of /keys

	mu      sync.Mutex
	answers map[string]http.HandlerFunc // the handlers of the documents, by path
}

func newAuthServer(t testing.TB, keys ...map[string]any) *authServer {
	s := &authServer{answers: map[string]http.HandlerFunc{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			s.fetched.Add(1)
		}
		s.mu.Lock()
		answer := s.answers[r.URL.Path]
		s.mu.Unlock()
		if answer == nil {
			http.NotFound(w, r)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	s.answer("/.well-known/oauth-authorization-server", fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, s.URL, s.URL+"/keys"))
	s.answer("/keys", jwks(keys...))
	return s
}

// answer sets the document at a path; "" removes it.
func (s *authServer) answer(path, body string) {
	var handler http.HandlerFunc
	if body != "" {
		handler = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
	}
	s.handle(path, handler)
}

func (s *authServer) handle(path string, answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[path] = answer
}

// table makes a table for the tokens of an issuer whose keys are at keys.
func table(t testing.TB, issuer, keys string, change ...func(*auth.Options)) *auth.Table {
	t.Helper()
	o := &auth.Options{Now: func() time.Time { return now },
		JWT: &auth.JWT{Issuer: issuer, Audience: "https://tools.example.com/mcp", Keys: keys, Scopes: readScopes}}
	for _, c := range change {
		c(o)
	}
	known, faults := auth.New(o)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	t.Cleanup(known.Close)
	return known
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	const oauth, openid = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	for name, test := range map[string]struct {
		path, at, issuer, keys string // the contents of the metadata at a path; "": the correct value
		bad                    bool
	}{
		"RFC 8414":                   {at: oauth},
		"OpenID Connect":             {at: openid},
		"a trailing slash":           {path: "/", at: openid},
		"RFC 8414, path":             {path: "/realms/one", at: oauth + "/realms/one"},
		"RFC 8414, section 5, path":  {path: "/realms/one", at: openid + "/realms/one"},
		"OpenID Connect, path":       {path: "/realms/one", at: "/realms/one" + openid},
		"OpenID Connect, path/":      {path: "/realms/one/", at: "/realms/one" + openid},
		"another issuer":             {at: oauth, issuer: "https://evil.example", bad: true},
		"another issuer by a slash":  {path: "/", at: oauth, issuer: "-", bad: true},
		"keys without https":         {at: oauth, keys: "http://keys.example/keys", bad: true},
		"keys in a file":             {at: oauth, keys: "file:///etc/keys", bad: true},
		"keys with a password":       {at: oauth, keys: "https://a:b@keys.example", bad: true},
		"no metadata":                {at: "/elsewhere", bad: true},
		"metadata of a path at root": {path: "/realms/one", at: oauth, issuer: "-", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAuthServer(t, rsaPair.jwk(nil))
			s.answer(oauth, "")
			issuer, keys := s.URL+test.path, s.URL+"/keys"
			stated := issuer
			switch test.issuer {
			case "":
			case "-":
				stated = s.URL
			default:
				stated = test.issuer
			}
			if test.keys != "" {
				keys = test.keys
			}
			s.answer(test.at, fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, stated, keys))
			caller, err := table(t, issuer, "").Verify(t.Context(), rsaPair.plain(issuer))
			switch {
			case test.bad && fault.CodeOf(err) != fault.Unavailable:
				t.Errorf("%+v, %v: want unavailable", caller, err)
			case !test.bad && err != nil:
				t.Error(err, inner(err))
			}
		})
	}
}

// inner returns what a log would show of an error.
func inner(err error) error {
	if f, ok := fault.As(err); ok {
		return f.Err
	}
	return err
}

// TestSilentIssuer: an issuer that does not answer delays neither the start nor a caller beyond its context, and leaves nothing behind.
func TestSilentIssuer(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	arrived := make(chan struct{}, 10)
	s.handle("/keys", func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	known := table(t, s.URL, s.URL+"/keys", func(o *auth.Options) { o.Tokens = []auth.Token{{Name: "ci", SHA256: hashOf("secret")}} })
	<-arrived
	if _, err := known.Verify(t.Context(), "secret"); err != nil {
		t.Errorf("a token of the table while the issuer is silent: got error %v, want none", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := known.Verify(ctx, rsaPair.plain(s.URL)); fault.CodeOf(err) != fault.Cancelled {
		t.Errorf("after cancel: got error %v, want cancelled", err)
	}
	late, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := known.Verify(late, rsaPair.plain(s.URL)); fault.CodeOf(err) != fault.Timeout {
		t.Errorf("after the deadline: got error %v, want timeout", err)
	}
	known.Close()
	if _, err := known.Verify(t.Context(), rsaPair.plain(s.URL)); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("after Close: got error %v, want unavailable", err)
	}
	if _, err := known.Verify(t.Context(), "secret"); err != nil {
		t.Errorf("a token of the table after Close: got error %v, want none", err)
	}
}
