package openapi

import (
	"net/url"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/egress"
)

// homes finds where the service of each operation is, and sums up what was found. A document is data, which may change or
// come from somewhere else than it seems: it does not say who gets credentials. They go where the configuration says
// that the service is, or back to where the document itself was had.
type homes struct {
	source   *Source
	homeless int      // operations for which no server is named that can be called
	found    int      // the others
	withheld int      // of operations that carry credentials: those whose server only the document names
	signed   int      // and those that have a home
	server   *url.URL // the first such server
}

// find is where an operation's service is, or the reason why it cannot be called. signs: its calls carry credentials.
func (h *homes) find(op *operation, signs bool) (service *url.URL, reason string) {
	service, refused := h.source.serviceOf(op, signs)
	switch {
	case service == nil && refused != nil:
		if h.withheld++; h.server == nil {
			h.server = refused
		}
		return nil, "only the document says that its credentials go to " + egress.Host(refused) + ": set baseUrl"
	case service == nil:
		h.homeless++
		return nil, "the document names no server that can be called: set baseUrl"
	case signs:
		h.signed++
	}
	h.found++
	return service, ""
}

// fault is what is wrong with all of them; nil: nothing.
func (h *homes) fault() *fault.Error {
	var f *fault.Error
	name := h.source.options.Name
	switch {
	case h.withheld > 0 && h.signed == 0:
		f = fault.New(fault.BadRequest, "%s: only the document says where the service is, and credentials are sent to no such place: set baseUrl (to %s, if that is it)",
			name, origin(h.server))
	case h.homeless > 0 && h.found == 0 && h.withheld == 0:
		f = fault.New(fault.BadRequest, "%s: the document names no server that is a whole http(s) URL: set baseUrl to where the service is", name)
	default:
		return nil
	}
	f.At = "/baseUrl"
	return f
}

// serviceOf is where an operation's service is; nil where nothing says it, or where only the document does and the call
// signs: refused is the first of such servers. Of two servers that differ in the scheme only, https is taken.
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

// trusts reports whether credentials may go to a URL of the document: to the origin of baseUrl, or of the document.
func (s *Source) trusts(u *url.URL) bool {
	return s.base != nil && egress.SameOrigin(u, s.base) || s.spec != nil && egress.SameOrigin(u, s.spec)
}

// origin is the scheme and the host of a URL, as a baseUrl begins.
func origin(u *url.URL) string { return u.Scheme + "://" + egress.Host(u) }

// resolve makes a URL of the document whole, relative to where the document is.
func (s *Source) resolve(ref string) string {
	u, err := url.Parse(ref)
	if err != nil || s.spec == nil || ref == "" {
		return ref
	}
	return s.spec.ResolveReference(u).String()
}
