package credential

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/onecall-mcp/onecall/fault"
)

// Endpoint is a token endpoint, with onecall as its client. What it says does not change.
type Endpoint struct {
	URL             string
	ClientID        string // "": onecall is not known there
	Secret          string // "": none
	Key             *Key   // in place of a secret (RFC 7523, section 2.2); nil: none
	Scope, Audience string // of the tokens; "": what the endpoint gives
	Client          *http.Client

	style atomic.Int32 // the oauth2.AuthStyle with which a token came; 0: none has come
}

// Key signs for a client.
type Key struct {
	signer jose.Signer
}

// ParseKey reads a private key: PEM (PKCS #8, PKCS #1 or SEC 1), or a JWK. The fault does not show the text.
func ParseKey(text string) (*Key, *fault.Error) {
	jwk := jose.JSONWebKey{}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		if err := jwk.UnmarshalJSON([]byte(text)); err != nil || jwk.IsPublic() {
			return nil, fault.New(fault.BadRequest, "the text is not a private JWK")
		}
	} else if jwk.Key = keyOf(text); jwk.Key == nil {
		return nil, fault.New(fault.BadRequest, "the text is neither a private key in PEM nor a JWK")
	}
	algorithm := algorithmOf(jwk.Key)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jwk}, (&jose.SignerOptions{}).WithType("JWT"))
	if algorithm == "" || err != nil {
		return nil, fault.New(fault.BadRequest, "a private key must be RSA, Ed25519, or EC with P-256, P-384 or P-521")
	}
	return &Key{signer}, nil
}

// keyOf returns the private key in a PEM block; nil: there is none.
func keyOf(text string) any {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		return key
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key
	}
	return nil
}

// algorithmOf returns the algorithm with which a key signs; "": none.
func algorithmOf(key crypto.PrivateKey) jose.SignatureAlgorithm {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return jose.RS256
	case ed25519.PrivateKey:
		return jose.EdDSA
	case *ecdsa.PrivateKey:
		return map[elliptic.Curve]jose.SignatureAlgorithm{
			elliptic.P256(): jose.ES256, elliptic.P384(): jose.ES384, elliptic.P521(): jose.ES512,
		}[key.Curve]
	}
	return ""
}

// assertionLife is how long a signed assertion counts.
const assertionLife = time.Minute

// assertion returns what authenticates a client in place of its secret.
func (e *Endpoint) assertion() (string, error) {
	now := time.Now()
	return jwt.Signed(e.Key.signer).Claims(jwt.Claims{Issuer: e.ClientID, Subject: e.ClientID, Audience: jwt.Audience{e.URL}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(assertionLife))}).Serialize()
}

// fetch gets a token, for calls of a source. params are further ones of the request; nil: those of client credentials. The token has an
// end, which is in the future. Errors are faults with what is wrong, without secrets.
func (e *Endpoint) fetch(ctx context.Context, source string, params url.Values) (*oauth2.Token, error) {
	config := clientcredentials.Config{ClientID: e.ClientID, ClientSecret: e.Secret, TokenURL: e.URL, Scopes: strings.Fields(e.Scope),
		EndpointParams: url.Values{}}
	for name, values := range params {
		config.EndpointParams[name] = values
	}
	if e.Audience != "" {
		config.EndpointParams.Set("audience", e.Audience)
	}
	switch {
	case e.Key != nil:
		assertion, err := e.assertion()
		if err != nil {
			return nil, e.fault(source, params != nil, fault.Internal, "onecall cannot sign for it")
		}
		config.AuthStyle = oauth2.AuthStyleInParams
		config.EndpointParams.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		config.EndpointParams.Set("client_assertion", assertion)
	case e.ClientID == "":
		config.AuthStyle = oauth2.AuthStyleInParams
	}
	token, err := e.retrieve(context.WithValue(ctx, oauth2.HTTPClient, e.Client), &config)
	if err != nil {
		return nil, e.refusal(ctx, source, params != nil, err)
	}
	return e.check(source, params != nil, token)
}

// retrieve asks for a token. With a secret it does so in the header and, as some endpoints want it, in the form, until it knows how.
func (e *Endpoint) retrieve(ctx context.Context, config *clientcredentials.Config) (token *oauth2.Token, err error) {
	styles := []oauth2.AuthStyle{cmp.Or(config.AuthStyle, oauth2.AuthStyle(e.style.Load()))}
	if styles[0] == oauth2.AuthStyleAutoDetect {
		styles = []oauth2.AuthStyle{oauth2.AuthStyleInHeader, oauth2.AuthStyleInParams}
	}
	for _, config.AuthStyle = range styles {
		if token, err = config.Token(ctx); err == nil {
			e.style.Store(int32(config.AuthStyle))
		}
		if err == nil || !doubtsClient(err) {
			break
		}
	}
	return token, err
}

// doubtsClient reports whether a request for a token may have failed since the endpoint does not know the client. The codes of RFC 6749,
// section 5.2, and RFC 8693, section 2.2.2, that say more of the request mean that it does.
func doubtsClient(err error) bool {
	var refused *oauth2.RetrieveError
	return errors.As(err, &refused) && refused.Response != nil && refused.Response.StatusCode < http.StatusInternalServerError &&
		!slices.Contains([]string{"invalid_grant", "invalid_target", "invalid_scope", "unsupported_grant_type"}, refused.ErrorCode)
}

// check returns a token with its end, unless calls cannot carry it.
func (e *Endpoint) check(source string, own bool, token *oauth2.Token) (*oauth2.Token, error) {
	checked := *token
	if checked.Expiry.IsZero() {
		checked.Expiry = time.Now().Add(unknownLife)
	}
	if parsed, err := jwt.ParseSigned(token.AccessToken, algorithms); err == nil { // it need not be a JWT, and is none of onecall's to verify
		var claims jwt.Claims
		if parsed.UnsafeClaimsWithoutVerification(&claims) == nil {
			if e.Audience != "" && len(claims.Audience) > 0 && !slices.Contains(claims.Audience, e.Audience) {
				return nil, e.fault(source, own, fault.Denied, "it gave a token for another audience than audience says")
			}
			if claims.Expiry != nil && claims.Expiry.Time().Before(checked.Expiry) {
				checked.Expiry = claims.Expiry.Time()
			}
		}
	}
	switch {
	case !strings.EqualFold(token.Type(), "Bearer"):
		return nil, e.fault(source, own, fault.Denied, "it gave a token that calls cannot carry: its type is not Bearer")
	case !time.Now().Before(checked.Expiry):
		return nil, e.fault(source, own, fault.Denied, "it gave a token that has ended already")
	}
	return &checked, nil
}

// algorithms are those of JWTs that are looked at.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384,
	jose.ES512, jose.EdDSA, jose.HS256, jose.HS384, jose.HS512}

// errorWord matches an error code of RFC 6749, section 5.2. Other texts of the endpoint are not quoted: they may repeat the request.
var errorWord = regexp.MustCompile(`^[a-z_]{1,40}$`)

// refusal returns the fault of a request for a token that failed.
func (e *Endpoint) refusal(ctx context.Context, source string, own bool, err error) *fault.Error {
	var refused *oauth2.RetrieveError
	coded, isCoded := fault.As(err)
	switch {
	case isCoded && coded != nil:
		return e.fault(source, own, coded.Code, coded.Message)
	case errors.As(err, &refused) && refused.Response != nil && refused.Response.StatusCode >= http.StatusInternalServerError:
		return e.fault(source, own, fault.Unavailable, "it answered "+refused.Response.Status)
	case errors.As(err, &refused) && refused.Response != nil:
		why := "it answered " + refused.Response.Status
		if errorWord.MatchString(refused.ErrorCode) {
			why += ", " + refused.ErrorCode
		}
		return e.fault(source, own, fault.Denied, why)
	case ctx.Err() != nil:
		return e.fault(source, own, fault.Timeout, "no answer in time")
	}
	return e.fault(source, own, fault.Unavailable, "what it answered is no token")
}

// fault returns the fault of a token that did not come. The message names the host of the endpoint only if the token is onecall's own.
func (e *Endpoint) fault(source string, own bool, code fault.Code, why string) *fault.Error {
	what := "no token for its calls came from the token endpoint"
	if own {
		return unsent(fault.New(code, "%s: your token could not be exchanged for one of its own at the token endpoint: %s", source, why), true)
	}
	if u, err := url.Parse(e.URL); err == nil {
		what += " at " + u.Host
	}
	return unsent(fault.New(code, "%s: %s: %s", source, what, why), false)
}
