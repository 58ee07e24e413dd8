package openapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/sync/singleflight"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/egress"
)

// tokenTimeout bounds a request to a token endpoint.
const tokenTimeout = 30 * time.Second

// tokenCache holds the access tokens of one credential (RFC 6749, section 4.4), one for each set of scopes. A token is fetched at
// its first use, once for all waiting calls, and reused until shortly before it expires.
type tokenCache struct {
	source  string
	config  clientcredentials.Config // the client credentials, without scopes
	client  *http.Client             // sends through the source's Doer
	ended   context.Context          // ends with the source
	onToken func(secret string)      // called with each token, so that it is hidden

	fetches  singleflight.Group
	mu       sync.Mutex
	byScopes map[string]*oauth2.Token // the tokens by their scopes, joined with blanks
}

func (s *Source) newTokenCache(a *authenticator) (*tokenCache, *fault.Error) {
	c := a.credential
	address := c.TokenURL
	if address == "" {
		address = s.resolve(a.scheme.tokenURL)
	}
	u, err := url.Parse(address)
	switch {
	case address == "":
		return nil, fault.New(fault.BadRequest, "%s: the document names no token URL for %s: set tokenUrl", s.options.Name, a.name)
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil:
		return nil, fault.New(fault.BadRequest, "%s: the token URL of %s is not a whole http(s) URL: set tokenUrl", s.options.Name, a.name)
	case u.Scheme == "http" && c.TokenURL == "":
		return nil, fault.New(fault.BadRequest, "%s: the document names a token URL for %s that is not https, and the client's secret would be "+
			"sent in clear: set tokenUrl", s.options.Name, a.name)
	case c.TokenURL == "" && !s.trusts(u):
		return nil, fault.New(fault.BadRequest, "%s: only the document says that the client's secret for %s goes to %s: set tokenUrl, "+
			"if that is correct", s.options.Name, a.name, egress.Host(u))
	}
	return &tokenCache{
		source: s.options.Name,
		config: clientcredentials.Config{ClientID: c.ClientID, ClientSecret: c.ClientSecret, TokenURL: address},
		client: &http.Client{
			Transport:     doerTransport{s.options.Client},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the Doer follows redirects
		},
		ended: s.ended, onToken: s.secrets.add, byScopes: map[string]*oauth2.Token{},
	}, nil
}

// doerTransport makes an http.RoundTripper of a Doer, for a library that needs an *http.Client.
type doerTransport struct{ Doer }

// RoundTrip implements http.RoundTripper.
func (t doerTransport) RoundTrip(request *http.Request) (*http.Response, error) { return t.Do(request) }

// token returns a valid token. Every error, except the cause of a ctx that ended, says that nothing was sent to the service itself.
func (t *tokenCache) token(ctx context.Context, scopes []string) (string, error) {
	key := strings.Join(scopes, " ")
	t.mu.Lock()
	cached := t.byScopes[key]
	t.mu.Unlock()
	if cached.Valid() {
		return cached.AccessToken, nil
	}
	// The fetch is detached from the caller: other callers may wait for it after this caller has left.
	fetch := t.fetches.DoChan(key, func() (any, error) { return t.fetch(key, scopes) })
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case result := <-fetch:
		if result.Err != nil {
			return "", result.Err
		}
		return result.Val.(string), nil
	}
}

func (t *tokenCache) fetch(key string, scopes []string) (string, error) {
	ctx, cancel := context.WithTimeout(t.ended, tokenTimeout)
	defer cancel()
	config := &t.config
	if len(scopes) > 0 {
		config = &clientcredentials.Config{ClientID: t.config.ClientID, ClientSecret: t.config.ClientSecret, TokenURL: t.config.TokenURL,
			Scopes: scopes}
	}
	token, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, t.client))
	if err != nil {
		return "", t.fault(ctx, err)
	}
	t.onToken(token.AccessToken)
	t.mu.Lock()
	t.byScopes[key] = token
	t.mu.Unlock()
	return token.AccessToken, nil
}

// forget drops a token that the service refused, unless it has been replaced already.
func (t *tokenCache) forget(scopes []string, refused string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if key := strings.Join(scopes, " "); t.byScopes[key] != nil && t.byScopes[key].AccessToken == refused {
		delete(t.byScopes, key)
	}
}

// errorWord matches an error code of RFC 6749, section 5.2. Other texts of the server are not quoted, because they may repeat the request.
var errorWord = regexp.MustCompile(`^[a-z_]{1,40}$`)

func (t *tokenCache) fault(ctx context.Context, err error) *fault.Error {
	var refused *oauth2.RetrieveError
	f := &fault.Error{Outcome: fault.NotSent}
	host := ""
	if u, parseErr := url.Parse(t.config.TokenURL); parseErr == nil {
		host = egress.Host(u)
	}
	coded, ok := fault.As(err)
	switch {
	case ok:
		f.Code, f.Message = coded.Code, coded.Message
	case errors.As(err, &refused):
		f.Code, f.Status = fault.FunctionFailed, refused.Response.StatusCode
		f.Message = "it answered " + refused.Response.Status
		if errorWord.MatchString(refused.ErrorCode) {
			f.Message += ", " + refused.ErrorCode
		}
		f.Message += ": look at clientId, clientSecret and the scopes"
	case ctx.Err() != nil && t.ended.Err() != nil:
		f.Code, f.Message = fault.Unavailable, "the source is closed"
	case errors.Is(err, context.DeadlineExceeded):
		f.Code, f.Message = fault.Timeout, "no answer in time"
	default:
		f.Code, f.Message = fault.Unavailable, "no token came from it"
	}
	f.Message = t.source + ": no access token from the token endpoint " + host + ": " + f.Message
	return f
}
