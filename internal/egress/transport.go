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

// TransportOptions configure Transport and Client; nil and zero values take the defaults.
type TransportOptions struct {
	Dialer *net.Dialer    // for connections; nil: one that gives up after 10 s. Its ControlContext is not used
	Roots  *x509.CertPool // authorities that servers' certificates are checked against; nil: the system's

	// NoReuse has each request use a connection of its own. On one that it has used before, net/http sends a GET again by
	// itself if the connection breaks.
	NoReuse bool

	// Base takes the place of the connections, and with them of the check of resolved addresses: for tests.
	Base http.RoundTripper
}

const (
	dialTimeout      = 10 * time.Second
	maxHeaderBytes   = 64 << 10 // of a response
	idleConnsPerHost = 16
)

// Transport makes a transport that keeps the rules: it refuses a request whose URL is not allowed (bad_arguments,
// denied) and does not connect to an address that is not (denied). The host of the URL is sent in its normal spelling,
// and a Host of the request that differs is not heeded. A certificate that is not accepted is an unavailable that says
// why. Other errors are those of net/http; Failure gives them a code. Proxies of the environment are not used: a proxy
// would resolve the name itself, past the check. Redirects are the client's to follow: see Client.
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

// Client makes a client over Transport that follows at most 5 redirects, each as the rules allow it: never from https to
// http; to another origin (scheme, host, port) without the headers for which SafeHeader is false, and not with a body.
// It has no time limit of its own: the request's context has. Drop its idle connections with CloseIdleConnections.
func (r *Rules) Client(o *TransportOptions) *http.Client {
	return &http.Client{Transport: r.Transport(o), CheckRedirect: r.checkRedirect}
}

// connections makes the connections, to addresses that were checked.
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

// dial connects to address after each address that its host resolves to has passed checkResolved.
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

// guard lets through what the rules allow.
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
		// The error of net/http for such an answer would show all of it.
		if _, err := request.URL.Parse(response.Header.Get("Location")); err != nil {
			_ = response.Body.Close()
			return nil, fault.New(fault.FunctionFailed, "%s redirects to something that is not a URL", normal.URL.Host)
		}
	}
	return response, nil
}

// normal is the request with the host of its URL in normal spelling, where the rules allow it.
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
	normal := request.WithContext(request.Context()) // a copy that shares all but its own fields
	normal.URL = new(url.URL)
	*normal.URL = *request.URL
	normal.URL.Host, normal.Host = host, ""
	return normal, nil
}

// CloseIdleConnections is what http.Client asks of its transport.
func (g *guard) CloseIdleConnections() {
	if c, ok := g.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Host is the host of a URL in normal spelling, with the port where that is not the scheme's own: what errors show of a
// URL. A URL that cannot be called gives "the server".
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
