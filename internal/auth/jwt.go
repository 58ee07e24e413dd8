package auth

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/loopback"
	"github.com/onecall-mcp/onecall/steps"
)

// JWT configures which JWTs are accepted, and the rights of their callers (RFC 7519, RFC 8725, RFC 9068).
type JWT struct {
	// Issuer must equal the token's iss exactly. If Keys is "", it must be an https URL (http on loopback only), from which the keys are
	// found.
	Issuer string
	// Audience must be the token's aud or one of its values. It is the issuer's name for this server, usually the URL of its /mcp.
	Audience string
	// Keys is the path or URL of the issuer's JSON Web Key Set (RFC 7517); the URL is https, or http on loopback. "": the URL is found
	// through the issuer's metadata (RFC 8414, OpenID Connect Discovery). Before a token is checked, a file that has changed is read again,
	// at most once a second.
	Keys string
	// Scopes maps the scopes of a token (claims scope and scp) to tiers; the highest applies. A token with none of them is refused. At least
	// one scope is required. TierDefault means TierRead.
	Scopes map[string]steps.Tier
	// Decides is the scope of callers who may decide about runs (steps.Caller.Decides), beside one with a tier. "": nobody may.
	Decides string
}

// algorithms are the accepted signature algorithms, all asymmetric: this server holds no signing key.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

// leeway is the allowed difference between the issuer's clock and this machine's.
const leeway = time.Minute

// maxVerified bounds the cache of verified tokens.
const maxVerified = 4096

// verifier verifies the JWTs of one issuer.
type verifier struct {
	issuer, audience string
	scopes           map[string]steps.Tier
	decides          string
	now              func() time.Time
	keys             *keyring
	cache            *lru.Cache[[32]byte, *verifiedToken]
}

// newVerifier returns a verifier and the faults of o.JWT. It starts nothing.
func newVerifier(o *Options) (*verifier, []*fault.Error) {
	v := &verifier{issuer: o.JWT.Issuer, audience: o.JWT.Audience, scopes: map[string]steps.Tier{}, decides: o.JWT.Decides,
		now: o.Now}
	var faults []*fault.Error
	add := func(at string, f *fault.Error) {
		if f != nil {
			faults = append(faults, f.Under("/jwt"+at))
		}
	}
	add("/issuer", checkIssuer(o.JWT))
	if problem := checkText(v.audience); problem != "" {
		add("/audience", fault.New(fault.BadRequest, "the audience %s: write what the issuer puts into aud for this server", problem))
	}
	if len(o.JWT.Scopes) == 0 {
		add("/scopes", fault.New(fault.BadRequest, "no scope gives a tier, so no token would have rights: "+
			"add at least one, such as onecall.read: read"))
	}
	for _, scope := range slices.Sorted(maps.Keys(o.JWT.Scopes)) {
		tier := o.JWT.Scopes[scope]
		v.scopes[scope] = max(tier, steps.TierRead)
		switch at := fault.Key("/scopes", scope); {
		case !isScope(scope):
			add(at, fault.New(fault.BadRequest, "a scope is printable ASCII without blanks, quotes and backslashes"))
		case tier > steps.TierAdmin:
			add(at, fault.New(fault.BadRequest, "there is no such tier: use read, read_write, admin"))
		}
	}
	if o.JWT.Decides != "" && !isScope(o.JWT.Decides) {
		add("/console", fault.New(fault.BadRequest, "a scope is printable ASCII without blanks, quotes and backslashes"))
	}
	if o.Keys != nil {
		v.keys = o.Keys.keys
	} else {
		keys, f := newKeyring(o, algorithms)
		add("/keys", f)
		v.keys = keys
	}
	v.cache, _ = lru.New[[32]byte, *verifiedToken](maxVerified) // fails only for sizes below 1
	return v, faults
}

func checkIssuer(o *JWT) *fault.Error {
	if problem := checkText(o.Issuer); problem != "" {
		return fault.New(fault.BadRequest, "the issuer %s: write exactly what its tokens have as iss", problem)
	}
	if problem := checkIssuerURL(o.Issuer); problem != "" && o.Keys == "" {
		return fault.New(fault.BadRequest, "the issuer %s, so its keys cannot be found from it: write its URL, or set keys", problem)
	}
	return nil
}

// checkText returns what is wrong with a required text; "": nothing.
func checkText(text string) string {
	switch {
	case text == "":
		return "is missing"
	case len(text) > 2048:
		return "is longer than 2048 bytes"
	case !isVisible(text):
		return "has blanks or invisible characters"
	}
	return ""
}

// isVisible reports whether a text has no blanks, invisible characters or invalid UTF-8.
func isVisible(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c == ' ' || !unicode.IsPrint(c) || c == utf8.RuneError })
}

// isScope reports whether a text is a valid scope (RFC 6749, section 3.3).
func isScope(text string) bool {
	return text != "" && len(text) <= 256 &&
		!strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' })
}

// checkURL returns why keys must not be fetched from a URL or discovered through it; "": they may.
func checkURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return "is not a URL that begins with https://"
	case u.Scheme == "http" && !loopback.Is(u.Hostname()):
		return "begins with http:// and is not on this machine, so others on the network could replace the keys: use https://"
	case u.User != nil:
		return "holds a user name or a password"
	case u.Fragment != "":
		return "has a fragment (#)"
	}
	return ""
}

// checkIssuerURL is checkURL for an issuer, whose URL has no query (RFC 8414, section 2).
func checkIssuerURL(text string) string {
	problem := checkURL(text)
	if problem == "" && strings.Contains(text, "?") {
		return "has a query (?)"
	}
	return problem
}
