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

// All that is known of a kind of authentication stands in this file: how a document declares it, what its credential needs,
// what of that is secret, and how it goes into a request.

// scheme is one security scheme of the document.
type scheme struct {
	kind     string   // apiKey, basic, bearer, oauth2 (client credentials only), other
	in       string   // of an apiKey: query, header, cookie
	name     string   // of an apiKey: the parameter's name
	tokenURL string   // of oauth2; "" where the document has no client credentials flow
	scopes   []string // of oauth2: all that the document knows
}

// readScheme reads a scheme as a document declares it.
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

// Credential is what a security scheme of the document needs. Which fields count depends on the scheme:
//
//   - apiKey, http bearer: Value;
//   - http basic: Username and Password;
//   - oauth2: ClientID and ClientSecret for the client credentials flow, with TokenURL and Scopes in place of the
//     document's where they are given; or Value, a token that somebody else renews;
//   - any other: Value, sent as the Authorization header as it is.
type Credential struct {
	Value                  string
	Username, Password     string
	ClientID, ClientSecret string
	TokenURL               string   // "": the document's, where it is https and of the origin of BaseURL or Spec
	Scopes                 []string // nil: those that the operation asks for
}

// secrets are the forms of a credential that nobody may see: as it is given, and as it is sent.
func (c *Credential) secrets() []string {
	list := secret.Unusual(c.Value, c.Password, c.ClientSecret)
	for user, password := range map[string]string{c.Username: c.Password, url.QueryEscape(c.ClientID): url.QueryEscape(c.ClientSecret)} {
		if password != "" {
			list = append(list, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
		}
	}
	return list
}

// check tells what a credential lacks for its scheme. The message goes after "the credential for …".
func (a *access) check() *fault.Error {
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

// describeScheme names a scheme for a message: `api_key (the header X-Api-Key)`.
func describeScheme(name string, s scheme) string {
	switch s.kind {
	case "apiKey":
		return name + " (the " + s.in + " " + s.name + ")"
	case "basic", "bearer":
		return name + " (http " + s.kind + ")"
	}
	return name + " (" + s.kind + ")"
}

// sign adds the credential to a request.
func (a *access) sign(r *outgoing, token string) {
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

// signKey puts an apiKey in its place, and takes from there what an argument of the same name has put.
func (a *access) signKey(r *outgoing) {
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

func replacePair(pairs []string, name, value string) []string {
	kept := slices.DeleteFunc(pairs, func(pair string) bool {
		before, _, _ := strings.Cut(pair, "=")
		return before == name
	})
	return append(kept, name+"="+value)
}
