package egress

import (
	"net/http"
	"net/textproto"
	"net/url"

	"github.com/onecall-mcp/onecall/fault"
)

const maxRedirects = 5

// safeHeaders are request headers that contain no secrets.
var safeHeaders = map[string]bool{
	"Accept": true, "Accept-Charset": true, "Accept-Language": true, "Cache-Control": true, "Content-Language": true,
	"Content-Length": true, "Content-Type": true, "If-Match": true, "If-Modified-Since": true, "If-None-Match": true,
	"If-Range": true, "If-Unmodified-Since": true, "Pragma": true, "Prefer": true, "Range": true, "User-Agent": true,
}

// SafeHeader reports whether the value of a request header contains no secrets, so that it may follow a redirect to another host
// and be shown. Case does not matter.
func SafeHeader(name string) bool { return safeHeaders[textproto.CanonicalMIMEHeaderKey(name)] }

// checkRedirect checks the next request of a chain of redirects.
func (r *Rules) checkRedirect(next *http.Request, via []*http.Request) error {
	first, last := via[0], via[len(via)-1]
	from := Host(last.URL)
	if len(via) > maxRedirects {
		return fault.New(fault.LimitExceeded, "%s redirects more than %d times: call the final URL", Host(first.URL), maxRedirects)
	}
	if last.URL.Scheme == "https" && next.URL.Scheme == "http" {
		return fault.New(fault.Denied, "%s redirects from https to http, which is refused", from)
	}
	seeOther := next.Response != nil && next.Response.StatusCode == http.StatusSeeOther
	if next.Method != last.Method && !SafeMethod(last.Method) && !seeOther {
		f := fault.New(fault.FunctionFailed,
			"%s redirects the %s, and clients follow that with a %s, which does something else: call the final URL", from, last.Method, next.Method)
		f.Outcome = fault.SentUnknown
		return f
	}
	to, problem := parseTarget(next.URL)
	if problem != "" {
		return fault.New(fault.Denied, "%s redirects to a URL that is refused: %s", from, problem)
	}
	if !r.allows(to) {
		return fault.New(fault.Denied, "%s redirects to %s, which is not allowed: "+
			"name the host in the configuration (http.allow for http.*, baseUrl for an OpenAPI service)", from, to)
	}
	if next.Body != nil && next.Body != http.NoBody && !SameOrigin(next.URL, first.URL) {
		return fault.New(fault.Denied, "%s redirects the %s with its body to another origin, %s, which is refused: call the final URL",
			from, next.Method, to)
	}
	// net/http copies the first request's headers to every hop. Once a hop has left the first origin, headers that may hold secrets are
	// removed from it and from all later ones, even from those back at the first origin.
	for _, hop := range append(via[1:len(via):len(via)], next) {
		if !SameOrigin(hop.URL, first.URL) {
			for name := range next.Header {
				if !SafeHeader(name) {
					next.Header.Del(name)
				}
			}
			break
		}
	}
	return nil
}

// SameOrigin reports whether two http(s) URLs have the same scheme, host and port in normal form; false if one is invalid.
func SameOrigin(a, b *url.URL) bool {
	one, problem := parseTarget(a)
	other, _ := parseTarget(b)
	return problem == "" && one == other
}
