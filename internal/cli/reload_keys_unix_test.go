//go:build unix

package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// issuer gives tokens for a server of tests, which knows its key by a file.
type issuer struct {
	private *ecdsa.PrivateKey
	keys    string // the key set
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: private.Public(), KeyID: "one", Algorithm: "ES256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{private, string(keys)}
}

// token is a token of somebody.
func (i *issuer) token(t *testing.T, subject, scope string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.private, KeyID: "one"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": "ours", "aud": "tools", "sub": subject, "scope": scope, "exp": time.Now().Add(time.Hour).Unix(),
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestKeysTakenOutOfTheirFile: a token whose key is taken out of the file is refused the first time it comes, and the call of it that
// runs is cancelled though nobody comes; when the server is told to load its configuration, at once, and though that is refused.
func TestKeysTakenOutOfTheirFile(t *testing.T) {
	t.Parallel()
	for name, hangsUp := range map[string]bool{"nobody does anything": false, "it is told to load": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, slow, folder := newIssuer(t), newSlowService(t), t.TempDir()
			write(t, folder, "keys.json", i.keys)
			s := serveHTTP(t, write(t, folder, "onecall.yaml", fmt.Sprintf("access: {jwt: {issuer: ours, audience: tools, keys: keys.json, scopes: {use: read_write}}}\n"+
				"http: {allow: [%q]}\nfunctions: {http.get: {timeoutMs: 600000}}\n", strings.TrimPrefix(slow.url, "http://"))))
			token := i.token(t, "alice", "use")
			w := stateless(t, s.url).with(token)
			answered := make(chan *reply, 1)
			go func() {
				r, err := w.try(t, http.MethodPost, w.message(t, "1", "tools/call", slow.chain()), nil)
				if err != nil {
					t.Error(err)
				}
				answered <- r
			}()
			await(t, slow.arrived, "the call arrives")
			if hangsUp {
				write(t, folder, "onecall.yaml", "- no configuration\n")
			}
			write(t, folder, "keys.json", `{"keys": []}`)
			if hangsUp {
				hangUp(t, s.cmd)
				says(t, s.stderr, wasRefused, 1)
			}
			await(t, slow.ended, "the call is cancelled")
			if r := <-answered; r == nil || !strings.Contains(string(r.body), "cancelled") {
				t.Errorf("it is answered %v", r)
			}
			list := w.message(t, "2", "tools/list", nil)
			if r := w.send(t, http.MethodPost, list, nil); r.status != http.StatusUnauthorized {
				t.Errorf("the token is answered %d %s", r.status, r.body)
			}
			write(t, folder, "keys.json", i.keys)
			within(t, "the token is accepted again", s.stderr, func() bool { return w.send(t, http.MethodPost, list, nil).status == http.StatusOK })
			write(t, folder, "keys.json", `{"keys": []}`)
			time.Sleep(2 * time.Second) // what is wanted is that nobody comes for a while
			if r := w.send(t, http.MethodPost, list, nil); r.status != http.StatusUnauthorized {
				t.Errorf("the token works once more: %d %s", r.status, r.body)
			}
			w = stateless(t, s.url).with(i.token(t, "bob", "other"))
			write(t, folder, "keys.json", i.keys)
			within(t, "the token has no rights", s.stderr, func() bool { return w.send(t, http.MethodPost, list, nil).status == http.StatusForbidden })
			says(t, s.stderr, "reason=scope caller=jwt:bob@", 1)
			if said := s.stderr.String(); strings.Contains(said, token) || strings.Contains(said, strings.Split(token, ".")[1]) {
				t.Errorf("it says a token: %s", said)
			}
		})
	}
}
