package openapi

import (
	"maps"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// authenticator adds one credential to requests, as its scheme requires.
type authenticator struct {
	name       string
	scheme     scheme
	credential Credential
	tokens     *tokenCache // the tokens of the client credentials flow; nil: no token is fetched
}

// authenticators matches credentials with the document's schemes. It returns bad_request for a name that the document lacks, and
// for a credential that its scheme cannot use.
func (s *Source) authenticators(doc *document) (map[string]*authenticator, *fault.Error) {
	byScheme := map[string]*authenticator{}
	for _, name := range slices.Sorted(maps.Keys(s.options.Auth)) {
		credential := s.options.Auth[name]
		scheme, f := findScheme(doc, name)
		if f != nil {
			return nil, f
		}
		a := &authenticator{name: scheme, scheme: doc.schemes[scheme], credential: credential}
		if f := a.check(); f != nil {
			f.Message = s.options.Name + ": the credential for " + describeScheme(scheme, a.scheme) + " " + f.Message
			return nil, f.Under(fault.Key("/auth", name))
		}
		if byScheme[scheme] != nil {
			f := fault.New(fault.BadRequest, "%s: the scheme %s has two credentials: leave one out", s.options.Name, scheme)
			f.At = fault.Key("/auth", name)
			return nil, f
		}
		if a.scheme.kind == "oauth2" && credential.Value == "" {
			var f *fault.Error
			if a.tokens, f = s.newTokenCache(a); f != nil {
				return nil, f.Under(fault.Key("/auth", name))
			}
		}
		byScheme[scheme] = a
	}
	return byScheme, nil
}

// findScheme returns the name of the scheme for a key of the configuration: the key itself, or for "default" and "" the only scheme.
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
	unconfigured   []string   // schemes without a credential, for the message of a 401
}

// securityFor returns the first alternative whose credentials are all configured. Without one, the call has no credentials.
func securityFor(op *operation, doc *document, byScheme map[string]*authenticator) callSecurity {
	var missing []string
	for _, alternative := range op.security {
		names := slices.Sorted(maps.Keys(alternative))
		var security callSecurity
		for _, name := range names {
			if a := byScheme[name]; a != nil {
				security.authenticators, security.scopes = append(security.authenticators, a), append(security.scopes, alternative[name])
			} else if !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
		if len(names) > 0 && len(security.authenticators) == len(names) {
			return security
		}
	}
	for i, name := range missing {
		if s, ok := doc.schemes[name]; ok {
			missing[i] = describeScheme(name, s)
		}
	}
	return callSecurity{unconfigured: missing}
}
