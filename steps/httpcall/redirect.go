package httpcall

import (
	"net/http"

	"github.com/onecall-mcp/onecall/fault"
)

// safeHeaders are the request headers that hold nothing secret: they may follow a redirect to another host, and stand
// in a recording.
var safeHeaders = map[string]bool{
	"Accept": true, "Accept-Charset": true, "Accept-Language": true, "Cache-Control": true, "Content-Language": true,
	"Content-Length": true, "Content-Type": true, "If-Match": true, "If-Modified-Since": true, "If-None-Match": true,
	"If-Range": true, "If-Unmodified-Since": true, "Pragma": true, "Prefer": true, "Range": true, "User-Agent": true,
}

// checkRedirect decides on the next request of a chain of redirects.
func (s *Source) checkRedirect(next *http.Request, via []*http.Request) error {
	first, last := via[0], via[len(via)-1]
	if len(via) > maxRedirects {
		return fault.New(fault.LimitExceeded, "%s redirects more than %d times: call the final URL", first.URL.Host, maxRedirects)
	}
	if last.URL.Scheme == "https" && next.URL.Scheme == "http" {
		return fault.New(fault.Denied, "%s redirects from https to http, which is refused", last.URL.Host)
	}
	to, problem := parseTarget(next.URL)
	if problem != "" {
		return fault.New(fault.Denied, "%s redirects to a URL that is refused: %s", last.URL.Host, problem)
	}
	if s.allow.check(to) != nil {
		return fault.New(fault.Denied, "%s redirects to %s, which is not allowed: name the host in http.allow of the configuration",
			last.URL.Host, to)
	}
	next.URL.Host = to.String()
	if next.Body != nil && next.Body != http.NoBody && !sameOrigin(next, first) {
		return fault.New(fault.Denied, "%s redirects the %s with its body to another origin, %s, which is refused: call the final URL",
			last.URL.Host, next.Method, to)
	}
	// The headers of the first request come back with every hop: one that left its host stays stripped.
	for _, hop := range append(via[1:len(via):len(via)], next) {
		if !sameOrigin(hop, first) {
			for name := range next.Header {
				if !safeHeaders[name] {
					next.Header.Del(name)
				}
			}
			break
		}
	}
	return nil
}

func sameOrigin(a, b *http.Request) bool {
	return a.URL.Scheme == b.URL.Scheme && a.URL.Host == b.URL.Host
}

// wellRedirected refuses answers that redirect to what is no URL, of which the error of net/http would show everything.
type wellRedirected struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t wellRedirected) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(request)
	if err != nil || response.StatusCode/100 != 3 {
		return response, err
	}
	if _, err := request.URL.Parse(response.Header.Get("Location")); err != nil {
		_ = response.Body.Close()
		return nil, fault.New(fault.FunctionFailed, "%s redirects to something that is not a URL", request.URL.Host)
	}
	return response, nil
}

// CloseIdleConnections is what http.Client asks of its transport.
func (t wellRedirected) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
