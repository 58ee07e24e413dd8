package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// verifiedToken is a JWT that was verified with a key set. Before it expires, it can be revoked only by revoking its key: the set then
// changes and the token is verified again.
type verifiedToken struct {
	caller    steps.Caller
	validFrom time.Time // the token is valid from then until caller.Expires
	keys      *keySet   // the set that it was verified with
}

// verify returns the caller of a JWT, even of an expired one if late is set. It caches verified tokens, so the signature is checked only
// at a token's first request.
func (v *verifier) verify(ctx context.Context, token string, hash [sha256.Size]byte, late bool) (*steps.Caller, error) {
	if known, ok := v.cache.Get(hash); ok && v.keys.current() == known.keys {
		if now := v.now(); !now.Before(known.validFrom) && (late || now.Before(known.caller.Expires)) {
			caller := known.caller
			return &caller, nil
		}
	}
	signed, f := v.parse(token)
	if f != nil {
		return nil, f
	}
	caller, from, f := v.read(signed, late)
	if f != nil { // refused by its own content: no keys are needed
		if caller != nil {
			f.Err = &callerRefusal{f.Err, func() string { return v.signedBy(signed, caller) }}
		}
		return nil, f
	}
	keys, err := v.checkSignature(ctx, signed)
	if err != nil {
		return nil, err
	}
	if caller.Tier == steps.TierDefault {
		denied := fault.New(fault.Denied, "the bearer token has none of the scopes that give rights here")
		denied.Available = slices.Sorted(maps.Keys(v.scopes))
		denied.Err = &callerRefusal{steps.ErrScope, func() string { return caller.ID }}
		return nil, denied
	}
	v.cache.Add(hash, &verifiedToken{caller: *caller, validFrom: from, keys: keys})
	return caller, nil
}

// callerRefusal is the reason why a token was refused, along with the id of its caller.
type callerRefusal struct {
	error
	callerID func() string // returns the id of the caller; "": unknown
}

// Unwrap returns the reason.
func (r *callerRefusal) Unwrap() error { return r.error }

// CallerID returns the id of the caller whose token was refused, for logs; "": unknown. It is known if the signature is valid, but the
// token has expired or has no scope with a tier.
func (r *callerRefusal) CallerID() string { return r.callerID() }

// signedBy returns the caller's id if the token is signed with a loaded key; else "".
func (v *verifier) signedBy(signed *jose.JSONWebSignature, caller *steps.Caller) string {
	set, header := v.keys.current(), signed.Signatures[0].Protected
	if set == nil {
		return ""
	}
	for _, key := range set.find(header.KeyID, header.Algorithm) {
		if _, err := signed.Verify(key); err == nil {
			return caller.ID
		}
	}
	return ""
}

// parse parses a JWT: three segments, one signature with an accepted algorithm, and no header that changes its meaning.
func (v *verifier) parse(token string) (*jose.JSONWebSignature, *fault.Error) {
	// The decoder is more lenient: it skips line breaks.
	if strings.Count(token, ".") != 2 || strings.ContainsFunc(token, func(c rune) bool {
		return c != '.' && c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	}) {
		return nil, refuse("not in the table, and no signed JWT")
	}
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		var algorithm *jose.ErrUnexpectedSignatureAlgorithm
		if errors.As(err, &algorithm) {
			return nil, refuse("a JWT signed with an algorithm that is not accepted")
		}
		return nil, refuse("not in the table, and a malformed JWT")
	}
	header := signed.Signatures[0].Protected
	typ, err := stringHeader(header, "typ")
	// Tokens of other types are signed with the same keys for other purposes (RFC 8725, section 3.11).
	if typ = strings.TrimPrefix(strings.ToLower(typ), "application/"); err != nil || typ != "" && typ != "jwt" && typ != "at+jwt" {
		return nil, refuse("a JWT whose type (typ) is not that of an access token")
	}
	for _, name := range []jose.HeaderKey{"crit", "b64", "cty", "zip"} {
		if _, ok := header.ExtraHeaders[name]; ok {
			return nil, refuse("a JWT whose header has a parameter that access tokens must not have (" + string(name) + ")")
		}
	}
	return signed, nil
}

// stringHeader returns a header parameter; "": it is missing. It fails if the parameter is not a string.
func stringHeader(header jose.Header, name jose.HeaderKey) (string, error) {
	switch value := header.ExtraHeaders[name].(type) {
	case nil:
		return "", nil
	case string:
		return value, nil
	}
	return "", errors.New("not a string")
}

// claims are the claims of an access token (RFC 9068, section 2.2). The decoder (go-jose's fork of encoding/json) refuses duplicate claims,
// and ignores claims whose names differ in letter case.
type claims struct {
	jwt.Claims
	Scope scopeList `json:"scope"` // RFC 8693, section 4.2
	Scp   scopeList `json:"scp"`   // used instead by some issuers
}

// scopeList is a list of scopes. In JSON it is an array of strings, or one string with the scopes separated by blanks.
type scopeList []string

// UnmarshalJSON implements json.Unmarshaler.
func (w *scopeList) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*w = strings.Fields(one)
		return nil
	}
	return json.Unmarshal(text, (*[]string)(w))
}

// read returns the caller in the claims and the time from which they are valid. It does not check the signature. If late is set, it
// accepts expired claims. The caller's tier is TierDefault if no scope has a tier. The caller is also returned for a token that is refused
// only because it has expired.
func (v *verifier) read(signed *jose.JSONWebSignature, late bool) (_ *steps.Caller, from time.Time, _ *fault.Error) {
	var c claims
	if json.Unmarshal(signed.UnsafePayloadWithoutVerification(), &c) != nil {
		return nil, from, refuse("a JWT with malformed claims")
	}
	if c.Expiry == nil {
		return nil, from, refuse("a JWT that never expires (no exp)")
	}
	now := v.now()
	if end := instant(c.Expiry); late && now.After(end) {
		now = end
	}
	err := c.ValidateWithLeeway(jwt.Expected{Issuer: v.issuer, AnyAudience: jwt.Audience{v.audience}, Time: now}, leeway)
	var refused *fault.Error
	if err != nil {
		refused = refuse("an invalid JWT: " + strings.TrimPrefix(err.Error(), "go-jose/go-jose/jwt: "))
	}
	if err != nil && !errors.Is(err, jwt.ErrExpired) {
		return nil, from, refused
	}
	if !isSubject(c.Subject) {
		return nil, from, refuse("a JWT whose subject (sub) is missing, too long, or has invisible characters")
	}
	caller := &steps.Caller{ID: v.idOf(c.Subject), Expires: instant(c.Expiry).Add(leeway)}
	for _, scope := range slices.Concat(c.Scope, c.Scp) {
		caller.Tier = max(caller.Tier, v.scopes[scope])
		caller.Decides = caller.Decides || scope != "" && scope == v.decides
	}
	for _, start := range []*jwt.NumericDate{c.NotBefore, c.IssuedAt} {
		if start != nil && instant(start).Add(-leeway).After(from) {
			from = instant(start).Add(-leeway)
		}
	}
	return caller, from, refused
}

// idOf returns the caller id for a subject. Subjects are unique per issuer (RFC 7519, section 4.1.2), so the id contains the beginning of
// the SHA-256 of the issuer's name.
func (v *verifier) idOf(subject string) string {
	issuer := sha256.Sum256([]byte(v.issuer))
	return "jwt:" + subject + "@" + hex.EncodeToString(issuer[:4])
}

// instant converts a time in a token. Times after the start of the year 9999 become that time, which RFC 3339 can still express.
func instant(date *jwt.NumericDate) time.Time {
	return time.Unix(min(int64(*date), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).Unix()), 0)
}

// maxSubject bounds a subject in bytes, as OpenID Connect does (Core 1.0, section 2).
const maxSubject = 255

func isSubject(text string) bool {
	return text != "" && len(text) <= maxSubject &&
		!strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) || c == utf8.RuneError })
}

// checkSignature returns the key set that verifies a token. If no key verifies it, the issuer may have a new key: checkSignature then has
// the keys loaded again once, unless the last load was too recent.
func (v *verifier) checkSignature(ctx context.Context, signed *jose.JSONWebSignature) (*keySet, error) {
	header := signed.Signatures[0].Protected
	if len(header.KeyID) > maxKeyID || !isVisible(header.KeyID) {
		return nil, refuse("a JWT whose key id (kid) is too long, or has blanks or invisible characters")
	}
	set, err := v.keys.await(ctx)
	if err != nil {
		return nil, err
	}
	for again := false; ; again = true {
		matching := set.find(header.KeyID, header.Algorithm)
		for _, key := range matching {
			if _, err := signed.Verify(key); err == nil {
				return set, nil
			}
		}
		wrong := refuse("a JWT signed with a key that the issuer does not have")
		if len(matching) > 0 {
			wrong = refuse("a JWT with a wrong signature")
		}
		if again {
			return nil, wrong
		}
		newer, err := v.keys.newer(ctx, set)
		switch {
		case err != nil && len(matching) == 0:
			return nil, err
		case err != nil || newer == set:
			return nil, wrong
		}
		set = newer
	}
}

// unavailable returns the fault for keys that cannot be loaded.
func unavailable(cause error) *fault.Error {
	return &fault.Error{Code: fault.Unavailable, Err: fmt.Errorf("the issuer's keys: %w", cause),
		Message: "the bearer token cannot be checked, because the keys of its issuer cannot be loaded at the moment: try again later"}
}
