package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Limits of a fetch.
const (
	requestTimeout = 5 * time.Second
	maxMetadata    = 256 << 10 // bytes of the issuer's metadata
	maxRedirects   = 3
	// discoverEvery is how long the key URL from the issuer's metadata is cached.
	discoverEvery = time.Hour
)

// issuer fetches an issuer's keys. Calls of load must not overlap; the key ring makes only one at a time.
type issuer struct {
	name     string
	client   *http.Client
	accepted []jose.SignatureAlgorithm
	fixed    string // the configured URL of the keys; "": the one in the metadata is used

	keysURL      string // the URL of the keys in the metadata; "": not known
	discoveredAt time.Time
}

func newIssuer(o *Options, accepted []jose.SignatureAlgorithm) *issuer {
	i := &issuer{name: o.JWT.Issuer, fixed: o.JWT.Keys, accepted: accepted, client: &http.Client{}}
	if o.Client != nil {
		*i.client = *o.Client
	} else {
		i.client.Transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSHandshakeTimeout:    requestTimeout,
			MaxResponseHeaderBytes: 64 << 10,
			DisableKeepAlives:      true, // the next fetch is minutes away
			ForceAttemptHTTP2:      true,
		}
	}
	i.client.Timeout, i.client.CheckRedirect, i.client.Jar = requestTimeout, checkRedirect, nil
	return i
}

// checkRedirect follows redirects only within the same host and scheme. A host that serves the keys decides which tokens are valid.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case len(via) > maxRedirects:
		return errors.New("too many redirects")
	case next.URL.Host != first.Host || next.URL.Scheme != first.Scheme:
		return errors.New("redirects to another host or scheme are not followed")
	}
	return nil
}

// load fetches the keys. It returns have, the keys loaded before (nil: none), if the document has not changed.
func (i *issuer) load(ctx context.Context, have *keySet) (*keySet, error) {
	address := i.fixed
	if address == "" {
		if i.keysURL == "" || time.Since(i.discoveredAt) >= discoverEvery {
			discovered, err := i.discover(ctx)
			if err != nil {
				return nil, err
			}
			i.keysURL, i.discoveredAt = discovered, time.Now()
		}
		address = i.keysURL
	}
	set, err := i.fetchKeys(ctx, address, have)
	if err != nil {
		i.keysURL = "" // the keys may have moved
		return nil, err
	}
	return set, nil
}

func (i *issuer) fetchKeys(ctx context.Context, address string, have *keySet) (*keySet, error) {
	text, err := i.fetch(ctx, address, maxKeysBytes)
	if err != nil {
		return nil, err
	}
	set, err := readKeys(text, i.accepted, have)
	if err != nil {
		return nil, fmt.Errorf("the keys at %s cannot be used: %w", withoutQuery(address), err)
	}
	return set, nil
}

// errUnusableAnswer is wrapped by the error of a fetch that got an answer that cannot be used.
var errUnusableAnswer = errors.New("unusable answer")

// discover reads the URL of the keys from the issuer's metadata. Metadata that names another issuer is refused (RFC 8414, section
// 3.3).
func (i *issuer) discover(ctx context.Context) (string, error) {
	var last error
	for _, address := range wellKnown(i.name) {
		keysURL, err := i.discoverAt(ctx, address)
		if err == nil {
			return keysURL, nil
		}
		last = err
		if !errors.Is(err, errUnusableAnswer) { // the host is unreachable, and the other URLs are on it too
			break
		}
	}
	return "", last
}

// discoverAt is discover for one URL of the metadata. Its error wraps errUnusableAnswer if another URL may still have usable metadata.
func (i *issuer) discoverAt(ctx context.Context, address string) (string, error) {
	text, err := i.fetch(ctx, address, maxMetadata)
	if err != nil {
		return "", err
	}
	var metadata struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	switch err := json.Unmarshal(text, &metadata); {
	case err != nil:
		return "", fmt.Errorf("%w: the metadata at %s is malformed: %w", errUnusableAnswer, address, err)
	case metadata.Issuer != i.name:
		return "", fmt.Errorf("%w: the metadata at %s does not name %s as the issuer: the two must be identical, "+
			"including a slash at the end",
			errUnusableAnswer, address, i.name)
	case metadata.JWKSURI == "":
		return "", fmt.Errorf("%w: the metadata at %s has no URL for the keys (jwks_uri)", errUnusableAnswer, address)
	}
	if problem := checkURL(metadata.JWKSURI); problem != "" {
		return "", fmt.Errorf("%w: the URL of the keys (jwks_uri) in the metadata at %s %s", errUnusableAnswer, address, problem)
	}
	return metadata.JWKSURI, nil
}

// wellKnown returns the URLs of an issuer's metadata: RFC 8414, sections 3.1 and 5, and OpenID Connect Discovery 1.0, section 4.
func wellKnown(name string) []string {
	u, err := url.Parse(name)
	if err != nil {
		return nil // New has refused such an issuer
	}
	base, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	urls := []string{base + "/.well-known/oauth-authorization-server" + path, base + "/.well-known/openid-configuration" + path}
	if path != "" {
		urls = append(urls, base+path+"/.well-known/openid-configuration")
	}
	return urls
}

// fetch reads a document of at most limit bytes.
func (i *issuer) fetch(ctx context.Context, address string, limit int64) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json, application/jwk-set+json")
	request.Header.Set("User-Agent", "onecall")
	answer, err := i.client.Do(request)
	address = withoutQuery(address)
	if err != nil {
		var with *url.Error
		if errors.As(err, &with) { // its message shows the whole URL
			err = with.Err
		}
		return nil, fmt.Errorf("%s could not be read: %w", address, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: %s answers with status %d", errUnusableAnswer, address, answer.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer of %s broke off: %w", address, err)
	case int64(len(text)) > limit:
		return nil, fmt.Errorf("%w: the answer of %s is longer than %d bytes", errUnusableAnswer, address, limit)
	}
	return text, nil
}

// withoutQuery returns a URL without its query, which may contain a secret.
func withoutQuery(address string) string {
	address, _, _ = strings.Cut(address, "?")
	return address
}
