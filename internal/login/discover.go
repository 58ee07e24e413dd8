package login

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
)

// discovery says where to log in, for which resource, and with which scopes.
type discovery struct {
	meta     *oauthex.AuthServerMeta
	resource string
	scopes   []string // the scopes that the server names; nil: it names none
}

// discover asks the MCP server which authorization server it uses, and the authorization server for its endpoints.
func (s *server) discover(ctx context.Context) (*discovery, error) {
	if s.o.Direct {
		meta, err := s.authServerMetadata(ctx, s.o.AuthServer)
		return &discovery{meta: meta}, err
	}
	loginRequired, challenges, err := s.probe(ctx)
	if err != nil {
		return nil, err
	}
	document, err := s.resourceMetadata(ctx, challenges)
	if err != nil {
		return nil, err
	}
	p := &discovery{resource: s.endpoint}
	var issuer string
	switch {
	case document != nil:
		p.resource, p.scopes = document.Resource, document.ScopesSupported
		if len(document.AuthorizationServers) > 0 {
			issuer = document.AuthorizationServers[0]
		}
	case loginRequired:
		issuer = origin(s.endpoint) // as in the specification of 2025-03-26, which some servers still follow
	case s.o.AuthServer == "":
		return nil, fault.New(fault.BadRequest, "server %q does not ask for a login, and names no authorization server: "+
			"there is nothing to log in to", s.o.Source)
	}
	if scopes := challengeParam(challenges, "scope"); scopes != "" {
		p.scopes = strings.Fields(scopes)
	}
	if s.o.AuthServer != "" {
		issuer = s.o.AuthServer
	}
	if issuer == "" {
		return nil, s.deny("its metadata names no authorization server: name one in the configuration")
	}
	p.meta, err = s.authServerMetadata(ctx, issuer)
	return p, err
}

// initializeRequest is understood by every MCP server and, without a token, refused by those that require a login.
const initializeRequest = `{"jsonrpc":"2.0","id":1,"method":"initialize",` +
	`"params":{"protocolVersion":"` + protocol.Stateful + `","capabilities":{},"clientInfo":{"name":"onecall","version":"0"}}}`

// probe sends a request without a token. It reports whether the server requires a login, and returns the challenges in its response.
func (s *server) probe(ctx context.Context) (loginRequired bool, challenges []oauthex.Challenge, err error) {
	send := func(method, session, body string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, method, s.endpoint, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		answer, err := s.client.Do(r)
		if err == nil {
			answer.Body.Close()
		}
		return answer, err
	}
	answer, err := send(http.MethodPost, "", initializeRequest)
	if err != nil {
		return false, nil, codedError("server \""+s.o.Source+"\" could not be reached", err)
	}
	if session := answer.Header.Get("Mcp-Session-Id"); session != "" {
		_, _ = send(http.MethodDelete, session, "") // ends the session that the probe opened
	}
	if answer.StatusCode >= 500 {
		return false, nil, fault.New(fault.Unavailable, "server %q answers with status %d: try again later", s.o.Source, answer.StatusCode)
	}
	return answer.StatusCode == http.StatusUnauthorized, challengesOf(answer.Header), nil
}

// resourceMetadata finds the server's metadata (RFC 9728): at the URL in its challenge, else at the well-known URL for its path, else at
// the one for its whole host; nil without an error: there is none.
func (s *server) resourceMetadata(ctx context.Context, challenges []oauthex.Challenge) (*oauthex.ProtectedResourceMetadata, error) {
	endpoint, err := url.Parse(s.endpoint)
	if err != nil {
		return nil, fault.New(fault.BadRequest, "server %q: its URL is not valid", s.o.Source)
	}
	const wellKnown = "/.well-known/oauth-protected-resource"
	urls := []string{origin(s.endpoint) + wellKnown}
	if path := strings.TrimLeft(endpoint.EscapedPath(), "/"); path != "" {
		urls = append([]string{origin(s.endpoint) + wellKnown + "/" + path}, urls...)
	}
	if address := challengeParam(challenges, "resource_metadata"); address != "" {
		if problem := checkURLText(address, s.loopback); problem != "" {
			return nil, s.deny("the URL of its metadata is refused: %s", problem)
		}
		urls = append([]string{address}, urls...)
	}
	var last error
	for _, from := range urls {
		document, err := fetch[oauthex.ProtectedResourceMetadata](ctx, s.client, from)
		switch {
		case err != nil && fault.CodeOf(err) != fault.Unavailable:
			return nil, err
		case err != nil:
			last = err
		case document != nil && !covers(document.Resource, endpoint):
			last = s.deny("the metadata at %s is for another server, %q: onecall requests no tokens for it", hostOf(from), clean(document.Resource))
		case document != nil:
			return document, nil
		}
	}
	return nil, last
}

// covers reports whether the resource in metadata is the endpoint, or a path above it on the same origin. RFC 9728, section 3.3,
// requires equality, but many servers publish metadata for their whole host. That is safe: tokens are sent to the endpoint only,
// which has the same owner.
func covers(resource string, endpoint *url.URL) bool {
	u, err := url.Parse(resource)
	if err != nil || u.User != nil || u.Fragment != "" || u.RawQuery != "" && u.RawQuery != endpoint.RawQuery ||
		origin(canonical(u)) != origin(canonical(endpoint)) {
		return false
	}
	above := strings.TrimSuffix(u.EscapedPath(), "/")
	return above == strings.TrimSuffix(endpoint.EscapedPath(), "/") || strings.HasPrefix(endpoint.EscapedPath(), above+"/")
}

// authServerMetadata reads the authorization server's metadata and refuses unsafe metadata: for another issuer, without PKCE with S256, or
// with unsafe URLs of endpoints.
func (s *server) authServerMetadata(ctx context.Context, issuer string) (*oauthex.AuthServerMeta, error) {
	if problem := checkURLText(issuer, s.loopback); problem != "" {
		return nil, s.deny("its authorization server is refused: %s", problem)
	}
	meta, err := auth.GetAuthServerMetadata(ctx, strings.TrimSuffix(issuer, "/"), &s.client.Client)
	switch answered := s.client.guard.status.Load(); {
	case ctx.Err() != nil:
		return nil, codedError("the metadata of "+hostOf(issuer)+" was not read", ctx.Err())
	case err != nil && (answered == 0 || answered >= 500):
		return nil, codedError("the metadata of "+hostOf(issuer)+" was not read", err)
	case err != nil:
		return nil, s.deny("the metadata of its authorization server %s is refused: %s", hostOf(issuer), clean(err.Error()))
	case meta == nil:
		return nil, s.deny("%s has no metadata of an authorization server, so PKCE cannot be relied on: "+
			"name another one in the configuration", hostOf(issuer))
	case !slices.Contains(meta.CodeChallengeMethodsSupported, "S256"):
		return nil, s.deny("its authorization server %s does not offer PKCE with S256, without which codes can be stolen", hostOf(issuer))
	case meta.AuthorizationEndpoint == "" || meta.TokenEndpoint == "":
		return nil, s.deny("the metadata of its authorization server %s lacks an endpoint", hostOf(issuer))
	}
	for name, endpoint := range map[string]string{"authorization": meta.AuthorizationEndpoint, "token": meta.TokenEndpoint,
		"registration": meta.RegistrationEndpoint, "revocation": meta.RevocationEndpoint} {
		if endpoint == "" {
			continue
		}
		if problem := checkURLText(endpoint, s.loopback); problem != "" {
			return nil, s.deny("the %s endpoint of %s is refused: %s", name, hostOf(issuer), problem)
		}
	}
	return meta, nil
}

// challengesOf parses the WWW-Authenticate headers and ignores malformed ones.
func challengesOf(h http.Header) []oauthex.Challenge {
	var all []oauthex.Challenge
	for _, line := range h.Values("WWW-Authenticate") {
		if some, err := oauthex.ParseWWWAuthenticate([]string{line}); err == nil {
			all = append(all, some...)
		}
	}
	return all
}

// challengeParam returns a parameter of the first Bearer challenge that has it; "": none.
func challengeParam(all []oauthex.Challenge, name string) string {
	for _, c := range all {
		if c.Scheme == "bearer" && c.Params[name] != "" {
			return c.Params[name]
		}
	}
	return ""
}

// origin returns the scheme, host and port of a URL; "" if the URL cannot be parsed.
func origin(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// drain reads a little of a body, so that its connection can be reused, and closes it.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	body.Close()
}
