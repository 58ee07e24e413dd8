package openapi

import (
	"maps"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

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
