package openapi

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
)

// This file has everything about kinds of authentication: how a document declares them, what their credentials need, which parts
// are secret, and how they change a request.

// scheme is one security scheme of the document.
type scheme struct {
	kind     string   // apiKey, basic, bearer, oauth2 (client credentials only), other
	in       string   // where an apiKey is sent: query, header, cookie
	name     string   // the name of an apiKey's parameter
	tokenURL string   // the token URL of oauth2; "" if the document has no client credentials flow
	scopes   []string // the scopes of oauth2: all that the document has
}

// readScheme reads a scheme of a document.
func readScheme(s value) scheme {
	switch strings.ToLower(s.get("type").text()) {
	case "apikey":
		return scheme{kind: "apiKey", in: s.get("in").text(), name: s.get("name").text()}
	case "basic":
		return scheme{kind: "basic"}
	case "http":
		switch strings.ToLower(s.get("scheme").text()) {
		case "basic":
			return scheme{kind: "basic"}
		case "bearer":
			return scheme{kind: "bearer"}
		}
	case "oauth2":
		flow := s.get("flows").get("clientCredentials")
		if word := s.get("flow").text(); word == "application" || word == "clientCredentials" {
			flow = s // Swagger 2.0
		}
		o := scheme{kind: "oauth2", tokenURL: flow.get("tokenUrl").text()}
		for scope := range flow.get("scopes").members() {
			o.scopes = append(o.scopes, scope)
		}
		return o
	}
	return scheme{kind: "other"}
}

// Credential is the credential of a security scheme. Its fields depend on the scheme:
//
//   - apiKey, http bearer: Value;
//   - http basic: Username and Password;
//   - oauth2: ClientID and ClientSecret for the client credentials flow, with TokenURL and Scopes instead of the
//     document's if they are given; or Value, a token that is renewed elsewhere;
//   - any other: Value, sent as the Authorization header.
type Credential struct {
	Value                  string
	Username, Password     string
	ClientID, ClientSecret string
	TokenURL               string   // "": the document's, if it is https and has the origin of BaseURL or Spec
	Scopes                 []string // nil: the scopes that the operation requires
}

// secrets returns the texts of a credential that must not be shown, as configured and as sent.
func (c *Credential) secrets() []string {
	list := secret.UnusualComponents(c.Value, c.Password, c.ClientSecret)
	for user, password := range map[string]string{c.Username: c.Password, url.QueryEscape(c.ClientID): url.QueryEscape(c.ClientSecret)} {
		if password != "" {
			list = append(list, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
		}
	}
	return list
}

// check returns what the credential lacks for its scheme; nil: nothing. The message follows "the credential for …".
func (a *authenticator) check() *fault.Error {
	c, lacks := &a.credential, ""
	switch a.scheme.kind {
	case "basic":
		if c.Username == "" {
			lacks = "needs username and password"
		}
	case "oauth2":
		if c.Value == "" && (c.ClientID == "" || c.ClientSecret == "") {
			lacks = "needs clientId and clientSecret, or value with a token"
		}
	default:
		if c.Value == "" {
			lacks = "needs value"
		}
	}
	switch {
	case lacks != "":
	case strings.Contains(c.Username, ":"):
		lacks = "has a username with a colon, which HTTP basic cannot send"
	case !httpguts.ValidHeaderFieldValue(c.Value) || c.Value != strings.TrimSpace(c.Value):
		lacks = "has a value with line breaks or with blanks around it"
	default:
		return nil
	}
	return fault.New(fault.BadRequest, "%s", lacks)
}

// describeScheme describes a scheme for a message: `api_key (the header X-Api-Key)`.
func describeScheme(name string, s scheme) string {
	switch s.kind {
	case "apiKey":
		return name + " (the " + s.in + " " + s.name + ")"
	case "basic", "bearer":
		return name + " (http " + s.kind + ")"
	}
	return name + " (" + s.kind + ")"
}

// sign adds the credential to a request. token is the access token that was fetched; "": none, so oauth2 uses the configured one.
func (a *authenticator) sign(r *requestBuilder, token string) {
	c := &a.credential
	switch a.scheme.kind {
	case "basic":
		r.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password)))
	case "bearer":
		r.header.Set("Authorization", "Bearer "+c.Value)
	case "oauth2":
		if token == "" {
			token = c.Value
		}
		r.header.Set("Authorization", "Bearer "+token)
	case "apiKey":
		a.signKey(r)
	default:
		r.header.Set("Authorization", c.Value)
	}
}

// signKey adds an apiKey, replacing an argument of the same name.
func (a *authenticator) signKey(r *requestBuilder) {
	name, value := a.scheme.name, a.credential.Value
	switch a.scheme.in {
	case "query":
		r.query = replacePair(r.query, escapeAll(name), escapeAll(value))
	case "cookie":
		r.cookies = replacePair(r.cookies, escapeAll(name), escapeAll(value))
	default:
		if strings.EqualFold(name, "Authorization") {
			name = "Authorization"
		}
		r.header[http.CanonicalHeaderKey(name)] = []string{value}
	}
}

// replacePair replaces all pairs with this name by one. It changes the array of pairs.
func replacePair(pairs []string, name, value string) []string {
	others := slices.DeleteFunc(pairs, func(pair string) bool {
		before, _, _ := strings.Cut(pair, "=")
		return before == name
	})
	return append(others, name+"="+value)
}
