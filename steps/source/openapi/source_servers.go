package openapi

import (
	"net/url"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/egress"
)

// serviceFinder finds the service of each operation and counts the results. A document is data that may change or come from
// elsewhere, so it does not decide who receives credentials. They go only to the service that the configuration names, or back to
// the origin of the document.
type serviceFinder struct {
	source     *Source
	unresolved int      // operations without a usable server
	resolved   int      // operations with a usable server
	withheld   int      // operations with credentials whose server only the document names
	signed     int      // operations with credentials and a trusted server
	server     *url.URL // the first server that only the document names
}

// find returns an operation's service, or the reason why it cannot be called. signs: its calls carry credentials.
func (s *serviceFinder) find(op *operation, signs bool) (service *url.URL, reason string) {
	service, refused := s.source.serviceOf(op, signs)
	switch {
	case service == nil && refused != nil:
		if s.withheld++; s.server == nil {
			s.server = refused
		}
		return nil, "only the document says that its credentials go to " + egress.Host(refused) + ": set baseUrl"
	case service == nil:
		s.unresolved++
		return nil, "the document names no server that can be called: set baseUrl"
	case signs:
		s.signed++
	}
	s.resolved++
	return service, ""
}

// fault returns why the source cannot be used: no operation with credentials has a server that may receive them, or no operation has a
// usable server at all. It returns nil if the source can be used.
func (s *serviceFinder) fault() *fault.Error {
	var f *fault.Error
	name := s.source.options.Name
	switch {
	case s.withheld > 0 && s.signed == 0:
		f = fault.New(fault.BadRequest,
			"%s: credentials are not sent to a host that only the document names: set baseUrl (to %s, if that is correct)",
			name, origin(s.server))
	case s.unresolved > 0 && s.resolved == 0 && s.withheld == 0:
		f = fault.New(fault.BadRequest, "%s: the document names no server that is a whole http(s) URL: set baseUrl to where the service is", name)
	default:
		return nil
	}
	f.At = "/baseUrl"
	return f
}

// serviceOf returns an operation's service. If only the document names its servers and the call carries credentials, service is nil and
// refused is the first of these servers, or the first with https. If no server is usable, both are nil. Of two servers that differ only in
// the scheme, https is used.
func (s *Source) serviceOf(op *operation, signs bool) (service, refused *url.URL) {
	if s.base != nil {
		return s.base, nil
	}
	servers := op.servers
	if len(servers) == 0 {
		servers = []string{"/"} // OpenAPI 3.0.4, section 4.8.1.1: the default
	}
	for _, server := range servers {
		u, problem := serviceURL(s.resolve(server))
		switch {
		case problem != "":
		case signs && !s.trusts(u):
			if refused == nil || refused.Scheme == "http" && u.Scheme == "https" {
				refused = u
			}
		case service == nil:
			service = u
		case service.Scheme == "http" && u.Scheme == "https" && u.Hostname() == service.Hostname() && u.Path == service.Path:
			return u, nil
		}
	}
	return service, refused
}

// trusts reports whether credentials may go to a URL of the document, because it has the origin of baseUrl or of the document.
func (s *Source) trusts(u *url.URL) bool {
	return s.base != nil && egress.SameOrigin(u, s.base) || s.spec != nil && egress.SameOrigin(u, s.spec)
}

// origin returns the scheme and the host of a URL, in the form in which a baseUrl begins.
func origin(u *url.URL) string { return u.Scheme + "://" + egress.Host(u) }

// resolve makes a URL of the document absolute, relative to the document's URL. It returns ref unchanged if the document is a file, and
// if ref is empty or not a URL.
func (s *Source) resolve(ref string) string {
	u, err := url.Parse(ref)
	if err != nil || s.spec == nil || ref == "" {
		return ref
	}
	return s.spec.ResolveReference(u).String()
}
