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

// place is what discovery finds: where to log in, for what, and with which scopes.
type place struct {
	meta     *oauthex.AuthServerMeta
	resource string
	scopes   []string // that the server names; nil where it names none
}

// discover asks the MCP server who its authorization server is, and that one for its endpoints.
func (s *server) discover(ctx context.Context) (*place, error) {
	asks, challenges, err := s.probe(ctx)
	if err != nil {
		return nil, err
	}
	document, err := s.resourceMetadata(ctx, challenges)
	if err != nil {
		return nil, err
	}
	p := &place{resource: s.endpoint}
	var issuer string
	switch {
	case document != nil:
		p.resource, p.scopes = document.Resource, document.ScopesSupported
		if len(document.AuthorizationServers) > 0 {
			issuer = document.AuthorizationServers[0]
		}
	case asks:
		issuer = origin(s.endpoint) // as the specification of 2025-03-26 has it, which servers still follow
	case s.o.AuthServer == "":
		return nil, fault.New(fault.BadRequest, "server %q does not ask for a login, and names no authorization server: nothing is to be done", s.o.Source)
	}
	if scopes := challenged(challenges, "scope"); scopes != "" {
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

// hello is a request that every MCP server understands, and that those with a login refuse.
const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + protocol.Stateful + `","capabilities":{},` +
	`"clientInfo":{"name":"onecall","version":"0"}}}`

// probe sends a request without a token, and tells whether the server asks for a login and with which words.
func (s *server) probe(ctx context.Context) (asks bool, challenges []oauthex.Challenge, err error) {
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
	answer, err := send(http.MethodPost, "", hello)
	if err != nil {
		return false, nil, trouble("server \""+s.o.Source+"\" could not be reached", err)
	}
	if session := answer.Header.Get("Mcp-Session-Id"); session != "" {
		_, _ = send(http.MethodDelete, session, "") // it was opened by the question alone
	}
	if answer.StatusCode >= 500 {
		return false, nil, fault.New(fault.Unavailable, "server %q answers with status %d: try again later", s.o.Source, answer.StatusCode)
	}
	return answer.StatusCode == http.StatusUnauthorized, challengesOf(answer.Header), nil
}

// resourceMetadata finds the server's own metadata (RFC 9728): where its answer says, at its path, at the root of its
// host; nil where there is none.
func (s *server) resourceMetadata(ctx context.Context, challenges []oauthex.Challenge) (*oauthex.ProtectedResourceMetadata, error) {
	endpoint, err := url.Parse(s.endpoint)
	if err != nil {
		return nil, fault.New(fault.BadRequest, "server %q: its URL is not valid", s.o.Source)
	}
	const wellKnown = "/.well-known/oauth-protected-resource"
	places := []string{origin(s.endpoint) + wellKnown}
	if path := strings.TrimLeft(endpoint.EscapedPath(), "/"); path != "" {
		places = append([]string{origin(s.endpoint) + wellKnown + "/" + path}, places...)
	}
	if named := challenged(challenges, "resource_metadata"); named != "" {
		if problem := refusedText(named, s.loopback); problem != "" {
			return nil, s.deny("the URL of its metadata is refused: %s", problem)
		}
		places = append([]string{named}, places...)
	}
	var last error
	for _, from := range places {
		document, err := fetch[oauthex.ProtectedResourceMetadata](ctx, s.client, from)
		switch {
		case err != nil && fault.CodeOf(err) != fault.Unavailable:
			return nil, err
		case err != nil:
			last = err
		case document != nil && !covers(document.Resource, endpoint):
			last = s.deny("the metadata at %s is of another server, %q: tokens for it are not asked for", hostOf(from), words(document.Resource))
		case document != nil:
			return document, nil
		}
	}
	return nil, last
}

// covers tells whether the resource that metadata speaks of is the endpoint, or a path above it on the same origin.
// RFC 9728 (section 3.3) asks for the same string; servers with the metadata of their whole host are many, and nothing is
// given away by them: the token goes to the endpoint alone, which has the same owner.
func covers(resource string, endpoint *url.URL) bool {
	u, err := url.Parse(resource)
	if err != nil || u.User != nil || u.Fragment != "" || u.RawQuery != "" && u.RawQuery != endpoint.RawQuery ||
		origin(canonical(u)) != origin(canonical(endpoint)) {
		return false
	}
	above := strings.TrimSuffix(u.EscapedPath(), "/")
	return above == strings.TrimSuffix(endpoint.EscapedPath(), "/") || strings.HasPrefix(endpoint.EscapedPath(), above+"/")
}

// authServerMetadata reads the authorization server's metadata and refuses what must not be used: another issuer, no PKCE
// with S256, endpoints that are not safe to be called or opened.
func (s *server) authServerMetadata(ctx context.Context, issuer string) (*oauthex.AuthServerMeta, error) {
	if problem := refusedText(issuer, s.loopback); problem != "" {
		return nil, s.deny("its authorization server is refused: %s", problem)
	}
	meta, err := auth.GetAuthServerMetadata(ctx, strings.TrimSuffix(issuer, "/"), &s.client.Client)
	switch answered := s.client.guard.answered.Load(); {
	case ctx.Err() != nil:
		return nil, trouble("the metadata of "+hostOf(issuer)+" was not read", ctx.Err())
	case err != nil && (answered == 0 || answered >= 500):
		return nil, trouble("the metadata of "+hostOf(issuer)+" was not read", err)
	case err != nil:
		return nil, s.deny("the metadata of its authorization server %s is refused: %s", hostOf(issuer), words(err.Error()))
	case meta == nil:
		return nil, s.deny("%s has no metadata of an authorization server, so that PKCE cannot be relied on: name another one in the configuration", hostOf(issuer))
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
		if problem := refusedText(endpoint, s.loopback); problem != "" {
			return nil, s.deny("the %s endpoint of %s is refused: %s", name, hostOf(issuer), problem)
		}
	}
	return meta, nil
}

// challengesOf reads the WWW-Authenticate headers; what cannot be read is no challenge.
func challengesOf(h http.Header) []oauthex.Challenge {
	var all []oauthex.Challenge
	for _, line := range h.Values("WWW-Authenticate") {
		if some, err := oauthex.ParseWWWAuthenticate([]string{line}); err == nil {
			all = append(all, some...)
		}
	}
	return all
}

// challenged is a parameter of the first Bearer challenge that has it.
func challenged(all []oauthex.Challenge, name string) string {
	for _, c := range all {
		if c.Scheme == "bearer" && c.Params[name] != "" {
			return c.Params[name]
		}
	}
	return ""
}

// origin is the scheme, host and port of a URL that is known to be valid.
func origin(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// drain reads a little of a body, so that its connection can be used again, and closes it.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	body.Close()
}
