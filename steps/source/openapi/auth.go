package openapi

import (
	"maps"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// authenticator adds one credential to requests, as its scheme says.
type authenticator struct {
	name       string
	scheme     scheme
	credential Credential
	tokens     *tokenCache // of the client credentials flow; nil: no token is fetched
}

// authenticators matches credentials with the document's schemes. It returns bad_request for a name that the document does
// not have, and for a credential that its scheme cannot use.
func (s *Source) authenticators(doc *document) (map[string]*authenticator, *fault.Error) {
	found := map[string]*authenticator{}
	for _, name := range slices.Sorted(maps.Keys(s.options.Auth)) {
		credential := s.options.Auth[name]
		chosen, f := findScheme(doc, name)
		if f != nil {
			return nil, f
		}
		a := &authenticator{name: chosen, scheme: doc.schemes[chosen], credential: credential}
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

// findScheme returns the scheme that a key of the configuration means.
func findScheme(doc *document, key string) (string, *fault.Error) {
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

// callSecurity holds the authenticators of a call.
type callSecurity struct {
	authenticators []*authenticator
	scopes         [][]string // parallel to authenticators
	unconfigured   []string   // schemes that would suffice but are not configured, for the error of a 401
}

// securityFor returns the first alternative whose credentials are all configured; without one the call has no credentials.
func securityFor(op *operation, doc *document, found map[string]*authenticator) callSecurity {
	var wanting []string
	for _, alternative := range op.security {
		names := slices.Sorted(maps.Keys(alternative))
		var p callSecurity
		for _, name := range names {
			if a := found[name]; a != nil {
				p.authenticators, p.scopes = append(p.authenticators, a), append(p.scopes, alternative[name])
			} else if !slices.Contains(wanting, name) {
				wanting = append(wanting, name)
			}
		}
		if len(names) > 0 && len(p.authenticators) == len(names) {
			return p
		}
	}
	for i, name := range wanting {
		if s, ok := doc.schemes[name]; ok {
			wanting[i] = describeScheme(name, s)
		}
	}
	return callSecurity{unconfigured: wanting}
}
