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

// verified is a token that has been verified with the keys of a set. A JWT cannot be taken back before it expires, other
// than by taking back its key: then the set is another one, and the token is verified anew.
type verified struct {
	caller steps.Caller
	from   time.Time // it is accepted from then on, until caller.Expires
	by     *keySet
}

// verify tells whose JWT this is; late: also where it has expired. Remembering takes the verification of a signature off all
// requests with a token but the first.
func (v *verifier) verify(ctx context.Context, token string, hash [sha256.Size]byte, late bool) (*steps.Caller, error) {
	if known, ok := v.verified.Get(hash); ok && v.keys.current() == known.by {
		if now := v.now(); !now.Before(known.from) && (late || now.Before(known.caller.Expires)) {
			caller := known.caller
			return &caller, nil
		}
	}
	signed, f := v.parse(token)
	if f != nil {
		return nil, f
	}
	caller, from, f := v.read(signed, late)
	if f != nil { // what refuses itself needs no keys
		if caller != nil {
			f.Err = &ownRefusal{f.Err, func() string { return v.whose(signed, caller) }}
		}
		return nil, f
	}
	by, err := v.checkSignature(ctx, signed)
	if err != nil {
		return nil, err
	}
	if caller.Tier == steps.TierDefault {
		denied := fault.New(fault.Denied, "the bearer token has none of the scopes that give rights here")
		denied.Available = slices.Sorted(maps.Keys(v.scopes))
		denied.Err = &ownRefusal{steps.ErrScope, func() string { return caller.ID }}
		return nil, denied
	}
	v.verified.Add(hash, &verified{caller: *caller, from: from, by: by})
	return caller, nil
}

// ownRefusal is why a token is refused that is its caller's own.
type ownRefusal struct {
	error
	whose func() string // "": that cannot be told
}

// Unwrap gives what is told of it.
func (o *ownRefusal) Unwrap() error { return o.error }

// Whose is the id of the caller whose token was refused, for logs; "": that is not known. It is known if the token's signature
// holds, and it has expired or none of its scopes gives a tier.
func (o *ownRefusal) Whose() string { return o.whose() }

// whose is the id of a caller, if the token that tells it is signed with a key that is there.
func (v *verifier) whose(signed *jose.JSONWebSignature, caller *steps.Caller) string {
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

// parse takes a JWT apart: three parts, one signature by an accepted algorithm, and nothing in its header that would have
// to be understood.
func (v *verifier) parse(token string) (*jose.JSONWebSignature, *fault.Error) {
	// The decoder of the parts is more lenient: it skips line breaks.
	if strings.Count(token, ".") != 2 || strings.ContainsFunc(token, func(c rune) bool {
		return c != '.' && c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	}) {
		return nil, refuse("not in the table, and no signed JWT")
	}
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		var algorithm *jose.ErrUnexpectedSignatureAlgorithm
		if errors.As(err, &algorithm) {
			return nil, refuse("a JWT signed by an algorithm that is not accepted")
		}
		return nil, refuse("not in the table, and a malformed JWT")
	}
	header := signed.Signatures[0].Protected
	typ, err := word(header, "typ")
	// Tokens of other types are signed with the same keys for other purposes (RFC 8725, section 3.11).
	if typ = strings.TrimPrefix(strings.ToLower(typ), "application/"); err != nil || typ != "" && typ != "jwt" && typ != "at+jwt" {
		return nil, refuse("a JWT whose type (typ) is not that of an access token")
	}
	for _, name := range []jose.HeaderKey{"crit", "b64", "cty", "zip"} {
		if _, ok := header.ExtraHeaders[name]; ok {
			return nil, refuse("a JWT whose header asks for what access tokens do not have (" + string(name) + ")")
		}
	}
	return signed, nil
}

// word is a header that is a string, "" where there is none.
func word(header jose.Header, name jose.HeaderKey) (string, error) {
	switch value := header.ExtraHeaders[name].(type) {
	case nil:
		return "", nil
	case string:
		return value, nil
	}
	return "", errors.New("not a string")
}

// claims are those of an access token (RFC 9068, section 2.2). A claim that stands twice is an error, as its spelling is
// in any other case.
type claims struct {
	jwt.Claims
	Scope words `json:"scope"` // RFC 8693, section 4.2
	Scp   words `json:"scp"`   // what some issuers have in its place
}

// words are strings: those of an array, or those between the blanks of a string.
type words []string

// UnmarshalJSON implements json.Unmarshaler.
func (w *words) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*w = strings.Fields(one)
		return nil
	}
	return json.Unmarshal(text, (*[]string)(w))
}

// read gives what the claims say, whoever has signed them, and from when on they hold; late: also where they hold no more. A tier
// of TierDefault: no scope gives one. Of a token that is refused for its end alone the caller is given, too.
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
		refused = refuse("a JWT that does not hold: " + strings.TrimPrefix(err.Error(), "go-jose/go-jose/jwt: "))
	}
	if err != nil && !errors.Is(err, jwt.ErrExpired) {
		return nil, from, refused
	}
	if !isSubject(c.Subject) {
		return nil, from, refuse("a JWT whose subject (sub) is missing, too long, or has characters that cannot be seen")
	}
	caller := &steps.Caller{ID: v.idOf(c.Subject), Expires: instant(c.Expiry).Add(leeway)}
	for _, scope := range slices.Concat(c.Scope, c.Scp) {
		caller.Tier = max(caller.Tier, v.scopes[scope])
	}
	for _, start := range []*jwt.NumericDate{c.NotBefore, c.IssuedAt} {
		if start != nil && instant(start).Add(-leeway).After(from) {
			from = instant(start).Add(-leeway)
		}
	}
	return caller, from, refused
}

// idOf is the id of the caller with this subject, which is one issuer's word for it (RFC 7519, section 4.1.2): with the
// beginning of the SHA-256 of the issuer's name, so that another issuer's caller of an equal subject is another caller.
func (v *verifier) idOf(subject string) string {
	issuer := sha256.Sum256([]byte(v.issuer))
	return "jwt:" + subject + "@" + hex.EncodeToString(issuer[:4])
}

// instant is a time as a token gives it, not later than the last that can be written (RFC 3339).
func instant(date *jwt.NumericDate) time.Time {
	return time.Unix(min(int64(*date), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).Unix()), 0)
}

// maxSubject bounds a subject in bytes, as OpenID Connect does (Core 1.0, section 2).
const maxSubject = 255

func isSubject(text string) bool {
	return text != "" && len(text) <= maxSubject &&
		!strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) || c == utf8.RuneError })
}

// checkSignature finds the key that a token is signed with, and says to which set it belongs. Where no key fits, the
// issuer may have a new one: the keys are fetched again, as often as the ring allows that.
func (v *verifier) checkSignature(ctx context.Context, signed *jose.JSONWebSignature) (*keySet, error) {
	header := signed.Signatures[0].Protected
	if len(header.KeyID) > maxKeyID || !isSeen(header.KeyID) {
		return nil, refuse("a JWT whose key id (kid) is too long, or has characters that cannot be seen")
	}
	set, err := v.keys.first(ctx)
	if err != nil {
		return nil, err
	}
	for again := false; ; again = true {
		fitting := set.find(header.KeyID, header.Algorithm)
		for _, key := range fitting {
			if _, err := signed.Verify(key); err == nil {
				return set, nil
			}
		}
		wrong := refuse("a JWT signed with a key that the issuer has not")
		if len(fitting) > 0 {
			wrong = refuse("a JWT with a wrong signature")
		}
		if again {
			return nil, wrong
		}
		newer, err := v.keys.newer(ctx, set)
		switch {
		case err != nil && len(fitting) == 0:
			return nil, err
		case err != nil || newer == set:
			return nil, wrong
		}
		set = newer
	}
}

// unavailable is what is answered while keys cannot be had.
func unavailable(cause error) *fault.Error {
	return &fault.Error{Code: fault.Unavailable, Err: fmt.Errorf("the issuer's keys: %w", cause),
		Message: "the bearer token cannot be checked, because the keys of its issuer cannot be had at the moment: try again later"}
}
