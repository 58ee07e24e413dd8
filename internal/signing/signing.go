// Package signing signs plans with Ed25519 (RFC 8032), and verifies such signatures. What of a plan is signed, chain.SignedForm says.
package signing

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// format is that of a signature. It is a part of what is signed, so that a signature means nothing in another one.
const format = "onecall-plan-1"

// Key is a public key.
type Key struct {
	ID     string // the first 16 hex digits of the SHA-256 of its SubjectPublicKeyInfo (RFC 5280)
	Text   string // its SubjectPublicKeyInfo in base64, as ParseKey reads it
	public ed25519.PublicKey
}

func newKey(public ed25519.PublicKey) (*Key, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(der)
	return &Key{ID: hex.EncodeToString(hash[:8]), Text: base64.StdEncoding.EncodeToString(der), public: public}, nil
}

const makeOne = "openssl genpkey -algorithm ed25519 -out plans.key makes a private key, and onecall sign shows its public one"

// ParseKey reads a public key: PEM, as `openssl pkey -pubout` writes it, or only its base64. Its fault shows nothing of the text, which may
// be a private key.
func ParseKey(text string) (*Key, *fault.Error) {
	der, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if block, _ := pem.Decode([]byte(text)); block != nil {
		der, err = block.Bytes, nil
	}
	if err == nil {
		var public any
		if public, err = x509.ParsePKIXPublicKey(der); err == nil {
			if ed, ok := public.(ed25519.PublicKey); ok {
				if key, err := newKey(ed); err == nil {
					return key, nil
				}
			}
		}
	}
	return nil, fault.New(fault.BadRequest, "this is no public key of Ed25519, in PEM or base64: %s", makeOne)
}

// Signer signs with a private key.
type Signer struct {
	Key     *Key // the public one
	private ed25519.PrivateKey
}

// ParseSigner reads a private key, PKCS #8 in PEM. Its fault shows nothing of the text.
func ParseSigner(text []byte) (*Signer, *fault.Error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fault.New(fault.BadRequest, "this is no key in PEM: %s", makeOne)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := parsed.(ed25519.PrivateKey)
	switch {
	case strings.Contains(block.Type, "ENCRYPTED"):
		return nil, fault.New(fault.BadRequest, "the key is encrypted: decrypt it into a file of its own with openssl pkey")
	case err != nil || !ok:
		return nil, fault.New(fault.BadRequest, "this is no private key of Ed25519: %s", makeOne)
	}
	key, err := newKey(private.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, fault.New(fault.BadRequest, "the key cannot be used: %v", err)
	}
	return &Signer{key, private}, nil
}

// signature is the content of a signature's file.
type signature struct {
	Format    string `json:"format"`
	Key       string `json:"key"`
	Signature []byte `json:"signature"`
}

// message returns what is signed of a form.
func message(key string, form []byte) []byte {
	return append([]byte(format+"\n"+key+"\n"), form...)
}

// Sign returns the signature of a plan's form, as a file holds it.
func (s *Signer) Sign(form []byte) ([]byte, error) {
	signed, err := s.private.Sign(nil, message(s.Key.ID, form), crypto.Hash(0))
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(signature{format, s.Key.ID, signed})
	return append(text, '\n'), err
}

// MaxBytes bounds the file of a signature.
const MaxBytes = 4 << 10

// Verify returns the key, one of keys, that has signed a plan's form.
func Verify(text, form []byte, keys []*Key) (*Key, *fault.Error) {
	var s signature
	switch err := json.Unmarshal(text, &s); {
	case err != nil || len(text) > MaxBytes:
		return nil, fault.New(fault.BadRequest, "this is no signature of a plan: onecall sign writes one")
	case s.Format != format:
		return nil, fault.New(fault.NotSupported, "the signature is of the format %s, and not %s", fault.Quote(fault.ClipRunes(s.Format, 40)), format)
	}
	for _, key := range keys {
		if key.ID != s.Key {
			continue
		}
		if ed25519.Verify(key.public, message(key.ID, form), s.Signature) {
			return key, nil
		}
		return nil, fault.New(fault.Denied, "the signature is of another content: review the plan, and sign it again")
	}
	return nil, fault.New(fault.Denied, "the key that has signed it, %s, is not in access.plans", fault.Quote(fault.ClipRunes(s.Key, 40)))
}
