package openapi

import (
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/onecall-mcp/onecall/fault"
)

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

// access is a scheme with its credential.
type access struct {
	name       string
	scheme     scheme
	credential Credential
	tokens     *tokens // of the client credentials flow; nil: none is fetched
}

// accesses matches credentials with the document's schemes. bad_request for a name that the document does not have, and
// for a credential that its scheme cannot use.
func (s *Source) accesses(doc *document) (map[string]*access, *fault.Error) {
	found := map[string]*access{}
	for _, name := range slices.Sorted(maps.Keys(s.options.Auth)) {
		credential := s.options.Auth[name]
		chosen, f := schemeNamed(doc, name)
		if f != nil {
			return nil, f
		}
		a := &access{name: chosen, scheme: doc.schemes[chosen], credential: credential}
		if f := a.check(); f != nil {
			f.Message = s.options.Name + ": the credential for " + describeScheme(chosen, a.scheme) + " " + f.Message
			return nil, f.Under(fault.Key("/auth", name))
		}
		if found[chosen] != nil {
			f := fault.New(fault.BadRequest, "%s: the scheme %s has two credentials: leave one out", s.options.Name, chosen)
			f.At = fault.Key("/auth", name)
			return nil, f
		}
		if a.scheme.kind == "oauth2" && credential.Value == "" {
			var f *fault.Error
			if a.tokens, f = s.newTokens(a); f != nil {
				return nil, f.Under(fault.Key("/auth", name))
			}
		}
		found[chosen] = a
	}
	return found, nil
}

// schemeNamed finds the scheme that a key of the configuration means.
func schemeNamed(doc *document, key string) (string, *fault.Error) {
	if _, ok := doc.schemes[key]; ok {
		return key, nil
	}
	names := slices.Sorted(maps.Keys(doc.schemes))
	if (key == "" || key == "default") && len(names) == 1 {
		return names[0], nil
	}
	var f *fault.Error
	switch {
	case len(names) == 0:
		f = fault.New(fault.BadRequest, "the document %q has no security schemes: give the credential in headers", doc.title)
	case key == "" || key == "default":
		f = fault.New(fault.BadRequest, "the document %q has several security schemes: name one of %s", doc.title, strings.Join(names, ", "))
	default:
		f = fault.New(fault.BadRequest, "the document %q has no security scheme %q: it has %s", doc.title, key, strings.Join(names, ", "))
	}
	f.At, f.Available, f.Nearest = fault.Key("/auth", key), names, fault.Nearest(key, names, 1)
	return "", f
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

// plan are the schemes that a call satisfies.
type plan struct {
	accesses []*access
	scopes   [][]string // as accesses
	wanting  []string   // the schemes of which one would be needed and none is configured, for the error of a 401
}

// planFor chooses the first alternative that asks for credentials and has them all; without one the call goes bare.
func planFor(op *operation, doc *document, found map[string]*access) plan {
	var wanting []string
	for _, alternative := range op.security {
		names := slices.Sorted(maps.Keys(alternative))
		var p plan
		for _, name := range names {
			if a := found[name]; a != nil {
				p.accesses, p.scopes = append(p.accesses, a), append(p.scopes, alternative[name])
			} else if !slices.Contains(wanting, name) {
				wanting = append(wanting, name)
			}
		}
		if len(names) > 0 && len(p.accesses) == len(names) {
			return p
		}
	}
	for i, name := range wanting {
		if s, ok := doc.schemes[name]; ok {
			wanting[i] = describeScheme(name, s)
		}
	}
	return plan{wanting: wanting}
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
