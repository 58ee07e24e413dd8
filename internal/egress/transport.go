package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// TransportOptions configure Transport and Client; zero values mean the defaults.
type TransportOptions struct {
	Dialer *net.Dialer    // its ControlContext is replaced; nil: a dialer with a timeout of 10 s
	Roots  *x509.CertPool // trusted authorities; nil: the system's

	// NoReuse uses a new connection for each request. On a reused one that breaks, net/http repeats a GET by itself.
	NoReuse bool

	// Base replaces the connections and thereby the check of resolved addresses, for tests.
	Base http.RoundTripper
}

const (
	dialTimeout      = 10 * time.Second
	maxHeaderBytes   = 64 << 10 // the most bytes of a response's headers
	idleConnsPerHost = 16
)

// Transport returns a transport that enforces the rules: it refuses URLs that are invalid (bad_arguments) or not allowed
// (denied), and does not connect to forbidden addresses (denied). It sends the host of the URL in normal form and ignores a
// differing Host. An untrusted certificate is an unavailable error with the reason. Other errors are those of net/http; Failure gives them
// a code. It ignores proxies in the environment, because a proxy resolves names itself, which bypasses the check. Redirects are followed
// by the client: see Client.
func (r *Rules) Transport(o *TransportOptions) http.RoundTripper {
	var c TransportOptions
	if o != nil {
		c = *o
	}
	if c.Base == nil {
		c.Base = r.connections(&c)
	}
	return &guard{rules: r, next: c.Base}
}

// Client returns a client over Transport that follows at most 5 redirects if the rules allow each: never from https to http; to
// another origin (scheme, host, port) without headers that SafeHeader does not allow, and never with a body. It has no timeout other than
// the request's context. CloseIdleConnections closes its idle connections.
func (r *Rules) Client(o *TransportOptions) *http.Client {
	return &http.Client{Transport: r.Transport(o), CheckRedirect: r.checkRedirect}
}

// connections returns a transport that checks resolved addresses.
func (r *Rules) connections(o *TransportOptions) *http.Transport {
	dialer := cmp.Or(o.Dialer, &net.Dialer{Timeout: dialTimeout})
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return r.dial(ctx, *dialer, network, address)
		},
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      o.NoReuse,
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConnsPerHost:    idleConnsPerHost,
		MaxIdleConns:           100,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    dialTimeout,
		ExpectContinueTimeout:  time.Second,
	}
	if o.Roots != nil {
		t.TLSClientConfig = &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12}
	}
	return t
}

// dial connects to address if checkResolved accepts the resolved address.
func (r *Rules) dial(ctx context.Context, dialer net.Dialer, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dialer.ControlContext = func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
		return r.checkResolved(host, resolved)
	}
	return dialer.DialContext(ctx, network, address)
}

// guard enforces the rules.
type guard struct {
	rules *Rules
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	normal, err := g.normal(request)
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	response, err := g.next.RoundTrip(normal)
	if err != nil {
		if f := certificateFault(normal.URL.Host, err); f != nil {
			return nil, f
		}
		return nil, err
	}
	response.Request = request
	if response.StatusCode/100 == 3 {
		// net/http's error for such a response would show its whole Location.
		if _, err := request.URL.Parse(response.Header.Get("Location")); err != nil {
			_ = response.Body.Close()
			return nil, fault.New(fault.FunctionFailed, "%s redirects to something that is not a URL", normal.URL.Host)
		}
	}
	return response, nil
}

// normal returns the request with the host of its URL in normal form, if the rules allow it.
func (g *guard) normal(request *http.Request) (*http.Request, error) {
	if request.URL == nil {
		return nil, fault.New(fault.BadArguments, "the request has no URL")
	}
	if err := g.rules.Check(request.URL); err != nil {
		return nil, err
	}
	host := Host(request.URL)
	if request.URL.Host == host && (request.Host == "" || request.Host == host) {
		return request, nil
	}
	normal := request.WithContext(request.Context()) // a shallow copy
	normal.URL = new(url.URL)
	*normal.URL = *request.URL
	normal.URL.Host, normal.Host = host, ""
	return normal, nil
}

// CloseIdleConnections is called by http.Client.
func (g *guard) CloseIdleConnections() {
	if c, ok := g.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Host returns the host of a URL in normal form, with the port unless it is the scheme's default, for messages. An invalid URL
// gives "the server".
func Host(u *url.URL) string {
	if u == nil {
		return noHost
	}
	to, problem := parseTarget(u)
	if problem != "" {
		return noHost
	}
	return to.String()
}

const noHost = "the server"
