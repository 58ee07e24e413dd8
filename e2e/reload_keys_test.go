//go:build e2e && unix

package e2e

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

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// issuer issues tokens for a test server, which reads its key from a file.
type issuer struct {
	private *ecdsa.PrivateKey
	keys    string // JSON of the key set
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: private.Public(), KeyID: "one", Algorithm: "ES256",
		Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{private, string(keys)}
}

// token returns a token of a subject.
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

// TestRemovedKeys checks that a token whose key was removed is refused at its next use, and that its running call is cancelled even without
// another use. A reload must do both at once, even if it is refused.
func TestRemovedKeys(t *testing.T) {
	t.Parallel()
	for name, reload := range map[string]bool{"without reload": false, "reload": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, slow, folder := newIssuer(t), newSlowService(t), t.TempDir()
			clitest.Write(t, folder, "keys.json", i.keys)
			s := serveHTTP(t, clitest.Write(t, folder, "onecall.yaml",
				fmt.Sprintf("access: {jwt: {issuer: ours, audience: tools, keys: keys.json, scopes: {use: read_write}}}\n"+
					"http: {allow: [%q]}\nfunctions: {http.get: {timeoutMs: 600000}}\n", strings.TrimPrefix(slow.url, "http://"))))
			token := i.token(t, "alice", "use")
			w := stateless(t, s.url).with(token)
			replies := make(chan *reply, 1)
			go func() {
				r, err := w.try(t, http.MethodPost, w.message(t, "1", "tools/call", slow.chain()), nil)
				if err != nil {
					t.Error(err)
				}
				replies <- r
			}()
			await(t, slow.arrived, "the call arrives")
			if reload {
				clitest.Write(t, folder, "onecall.yaml", "- no configuration\n")
			}
			clitest.Write(t, folder, "keys.json", `{"keys": []}`)
			if reload {
				hangUp(t, s.cmd)
				waitForLog(t, s.stderr, logRefused, 1)
			}
			await(t, slow.ended, "the call is cancelled")
			if r := <-replies; r == nil || !strings.Contains(string(r.body), "cancelled") {
				t.Errorf("the running call was answered %v, want cancelled", r)
			}
			list := w.message(t, "2", "tools/list", nil)
			if r := w.send(t, http.MethodPost, list, nil); r.status != http.StatusUnauthorized {
				t.Errorf("a token with a removed key: status %d, want 401: %s", r.status, r.body)
			}
			clitest.Write(t, folder, "keys.json", i.keys)
			polltest.Until(t, "the token is accepted again", func() bool {
				return w.send(t, http.MethodPost, list, nil).status == http.StatusOK
			}, s.stderr)
			clitest.Write(t, folder, "keys.json", `{"keys": []}`)
			polltest.Until(t, "the token is refused again", func() bool {
				return w.send(t, http.MethodPost, list, nil).status == http.StatusUnauthorized
			}, s.stderr)
			w = stateless(t, s.url).with(i.token(t, "bob", "other"))
			clitest.Write(t, folder, "keys.json", i.keys)
			polltest.Until(t, "the token has no rights", func() bool {
				return w.send(t, http.MethodPost, list, nil).status == http.StatusForbidden
			}, s.stderr)
			waitForLog(t, s.stderr, "reason=scope caller=jwt:bob@", 1)
			if log := s.stderr.String(); strings.Contains(log, token) || strings.Contains(log, strings.Split(token, ".")[1]) {
				t.Errorf("the log contains a token: %s", log)
			}
		})
	}
}
