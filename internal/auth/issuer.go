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

// The bounds of a fetch.
const (
	requestTime  = 5 * time.Second
	maxMetadata  = 256 << 10
	maxRedirects = 3
	// findEvery is how long the place of the keys, which the issuer's metadata names, is taken for known.
	findEvery = time.Hour
)

// issuer fetches an issuer's keys. One load runs at a time.
type issuer struct {
	name     string
	client   *http.Client
	accepted []jose.SignatureAlgorithm
	fixed    string // where the keys are; "": the metadata says it

	found   string // by the metadata
	foundAt time.Time
}

func newIssuer(o *Options, accepted []jose.SignatureAlgorithm) *issuer {
	i := &issuer{name: o.JWT.Issuer, fixed: o.JWT.Keys, accepted: accepted, client: &http.Client{}}
	if o.Client != nil {
		*i.client = *o.Client
	} else {
		i.client.Transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSHandshakeTimeout:    requestTime,
			MaxResponseHeaderBytes: 64 << 10,
			DisableKeepAlives:      true, // the next fetch is minutes away
			ForceAttemptHTTP2:      true,
		}
	}
	i.client.Timeout, i.client.CheckRedirect, i.client.Jar = requestTime, checkRedirect, nil
	return i
}

// checkRedirect follows redirects within a host only: another one would be trusted with the keys of all callers.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case len(via) > maxRedirects:
		return errors.New("too many redirects")
	case next.URL.Host != first.Host || next.URL.Scheme != first.Scheme:
		return errors.New("a redirect to another host, or away from https, is not followed")
	}
	return nil
}

// load fetches the keys.
func (i *issuer) load(ctx context.Context, have *keySet) (*keySet, error) {
	where := i.fixed
	if where == "" {
		if i.found == "" || time.Since(i.foundAt) >= findEvery {
			found, err := i.find(ctx)
			if err != nil {
				return nil, err
			}
			i.found, i.foundAt = found, time.Now()
		}
		where = i.found
	}
	set, err := i.fetchKeys(ctx, where, have)
	if err != nil {
		i.found = "" // they may have moved
		return nil, err
	}
	return set, nil
}

func (i *issuer) fetchKeys(ctx context.Context, where string, have *keySet) (*keySet, error) {
	text, err := i.fetch(ctx, where, maxKeysBytes)
	if err != nil {
		return nil, err
	}
	set, err := readKeys(text, i.accepted, have)
	if err != nil {
		return nil, fmt.Errorf("what %s has as keys cannot be used: %w", place(where), err)
	}
	return set, nil
}

// errAnswer is inside the error of a fetch that was answered, with something else than what was asked for.
var errAnswer = errors.New("answered")

// find reads the issuer's metadata, and gives the place of its keys. Metadata that names another issuer is not believed
// (RFC 8414, section 3.3).
func (i *issuer) find(ctx context.Context) (string, error) {
	var last error
	for _, where := range wellKnown(i.name) {
		found, err := i.findAt(ctx, where)
		if err == nil {
			return found, nil
		}
		last = err
		if !errors.Is(err, errAnswer) { // the host cannot be reached: the other places are on it too
			break
		}
	}
	return "", last
}

func (i *issuer) findAt(ctx context.Context, where string) (string, error) {
	text, err := i.fetch(ctx, where, maxMetadata)
	if err != nil {
		return "", err
	}
	var metadata struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	switch err := json.Unmarshal(text, &metadata); {
	case err != nil:
		return "", fmt.Errorf("%w: the metadata at %s is malformed: %w", errAnswer, where, err)
	case metadata.Issuer != i.name:
		return "", fmt.Errorf("%w: the metadata at %s is that of another issuer than %s: the two must be equal to the letter, a slash at the end included",
			errAnswer, where, i.name)
	case metadata.JWKSURI == "":
		return "", fmt.Errorf("%w: the metadata at %s does not tell where the keys are (jwks_uri)", errAnswer, where)
	}
	if problem := checkURL(metadata.JWKSURI); problem != "" {
		return "", fmt.Errorf("%w: the place of the keys, as the metadata at %s has it, %s", errAnswer, where, problem)
	}
	return metadata.JWKSURI, nil
}

// wellKnown are the places of an issuer's metadata: RFC 8414, sections 3.1 and 5, and OpenID Connect Discovery 1.0,
// section 4.
func wellKnown(name string) []string {
	u, err := url.Parse(name)
	if err != nil {
		return nil // not of an issuer that New has accepted
	}
	base, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{base + "/.well-known/oauth-authorization-server" + path, base + "/.well-known/openid-configuration" + path}
	if path != "" {
		places = append(places, base+path+"/.well-known/openid-configuration")
	}
	return places
}

// fetch gets a document of at most so many bytes.
func (i *issuer) fetch(ctx context.Context, where string, most int64) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json, application/jwk-set+json")
	request.Header.Set("User-Agent", "onecall")
	answer, err := i.client.Do(request)
	where = place(where)
	if err != nil {
		var with *url.Error
		if errors.As(err, &with) { // it shows the whole URL
			err = with.Err
		}
		return nil, fmt.Errorf("%s could not be read: %w", where, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: %s answers with status %d", errAnswer, where, answer.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer of %s broke off: %w", where, err)
	case int64(len(text)) > most:
		return nil, fmt.Errorf("%w: the answer of %s is longer than %d bytes", errAnswer, where, most)
	}
	return text, nil
}

// place is a URL without its query, which may hold a secret.
func place(where string) string {
	where, _, _ = strings.Cut(where, "?")
	return where
}
