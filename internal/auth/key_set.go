package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// Limits of a key set: bytes of its document, keys, bytes of a key's id, and bits of an RSA key (at least 2048 by RFC 7518, section 3.3).
// maxTried is the maximum number of keys that are tried for one token.
const (
	maxKeysBytes             = 1 << 20
	maxKeys                  = 100
	maxKeyID                 = 256
	minRSA, maxRSA, maxTried = 2048, 8192, 4
)

// keySet is a JSON Web Key Set, as read at one time. It is immutable.
type keySet struct {
	document   [sha256.Size]byte // the hash of the document
	keys       []signingKey
	skipped    int   // how many unusable keys were left out
	skipReason error // why the last of them is unusable; nil: none were left out
}

// signingKey is a public key for verifying signatures.
type signingKey struct {
	id         string
	public     any      // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
	algorithms []string // the accepted algorithms that it can verify
}

// leftOut describes the keys that were left out, for logs; "": none were.
func (s *keySet) leftOut() string {
	if s.skipReason == nil {
		return ""
	}
	return fmt.Sprintf("%d (the last: %s)", s.skipped, s.skipReason)
}

// find returns the keys that may have signed a token, at most maxTried. If the token has no key id, it returns a key only if no other
// key can verify the token's algorithm (OpenID Connect Core 1.0, section 10.1).
func (s *keySet) find(id, algorithm string) []any {
	var matching []any
	for _, key := range s.keys {
		if (id == "" || key.id == id) && slices.Contains(key.algorithms, algorithm) {
			matching = append(matching, key.public)
		}
	}
	if id == "" && len(matching) > 1 {
		return nil
	}
	return matching[:min(len(matching), maxTried)]
}

// errNoKeys reports a valid key set without keys.
var errNoKeys = errors.New("it has no keys")

// readKeys parses a key set that replaces have (nil: none). It returns have itself if the document has not changed. A set that has become
// empty is valid, and so revokes all tokens; the first set must not be empty.
func readKeys(text []byte, accepted []jose.SignatureAlgorithm, have *keySet) (*keySet, error) {
	if have != nil && have.document == sha256.Sum256(text) {
		return have, nil
	}
	set, err := parseKeys(text, accepted)
	if errors.Is(err, errNoKeys) && have != nil {
		return &keySet{document: sha256.Sum256(text)}, nil
	}
	return set, err
}

// parseKeys parses a key set. It leaves out keys without an accepted algorithm (RFC 7517, section 5), and fails if none remain.
func parseKeys(text []byte, accepted []jose.SignatureAlgorithm) (*keySet, error) {
	if len(text) > maxKeysBytes {
		return nil, fmt.Errorf("it is longer than %d bytes", maxKeysBytes)
	}
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	switch err := json.Unmarshal(text, &document); {
	case err != nil:
		return nil, fmt.Errorf("it is not a JSON Web Key Set: %w", err)
	case document.Keys == nil:
		return nil, fmt.Errorf(`it is not a JSON Web Key Set: it has no "keys"`)
	case len(document.Keys) > maxKeys:
		return nil, fmt.Errorf("it has more than %d keys", maxKeys)
	}
	set := &keySet{document: sha256.Sum256(text)}
	for i, raw := range document.Keys {
		key, err := parseKey(raw, accepted)
		if err != nil {
			set.skipped, set.skipReason = set.skipped+1, fmt.Errorf("key %d: %w", i, err)
			continue
		}
		set.keys = append(set.keys, key)
	}
	if len(set.keys) == 0 {
		if set.skipReason == nil {
			return nil, errNoKeys
		}
		return nil, fmt.Errorf("none of its %d keys can be used (%w)", set.skipped, set.skipReason)
	}
	return set, nil
}

// parseKey parses one key. Its errors contain nothing of the key.
func parseKey(raw []byte, accepted []jose.SignatureAlgorithm) (signingKey, error) {
	var purpose struct {
		Operations []string `json:"key_ops"`
	}
	var key jose.JSONWebKey
	switch {
	case json.Unmarshal(raw, &purpose) != nil || key.UnmarshalJSON(raw) != nil:
		return signingKey{}, fmt.Errorf("it is malformed, or of an unknown type")
	case !key.Valid() || !key.IsPublic():
		return signingKey{}, fmt.Errorf("it is not a public key: whoever can read it can sign tokens")
	case key.Use != "" && key.Use != "sig" || purpose.Operations != nil && !slices.Contains(purpose.Operations, "verify"):
		return signingKey{}, fmt.Errorf("it is not for signatures")
	case len(key.KeyID) > maxKeyID:
		return signingKey{}, fmt.Errorf("its id is longer than %d bytes", maxKeyID)
	}
	one := signingKey{id: key.KeyID, public: key.Key}
	supported := algorithmsOf(key.Key)
	if supported == nil {
		return signingKey{}, fmt.Errorf("it is too short, too long, or of an unknown type")
	}
	for _, algorithm := range supported {
		if slices.Contains(accepted, algorithm) && (key.Algorithm == "" || key.Algorithm == string(algorithm)) {
			one.algorithms = append(one.algorithms, string(algorithm))
		}
	}
	if len(one.algorithms) == 0 {
		return signingKey{}, fmt.Errorf("it is for algorithms that are not accepted")
	}
	return one, nil
}

// algorithmsOf returns the algorithms that a key can be used with (RFC 7518, section 3.1; RFC 8037, section 3.1); nil: none.
func algorithmsOf(public any) []jose.SignatureAlgorithm {
	switch key := public.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSA || bits > maxRSA {
			return nil
		}
		return []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return []jose.SignatureAlgorithm{jose.ES256}
		case elliptic.P384():
			return []jose.SignatureAlgorithm{jose.ES384}
		case elliptic.P521():
			return []jose.SignatureAlgorithm{jose.ES512}
		}
	case ed25519.PublicKey:
		return []jose.SignatureAlgorithm{jose.EdDSA}
	}
	return nil
}
