package egress

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

func rulesFor(t *testing.T, urls ...string) *Rules {
	t.Helper()
	rules, err := new(Rules).WithURLs(urls...)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestProxyVariablesAreIgnored(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:9")
	t.Setenv("http_proxy", "http://127.0.0.1:9")
	if AnyPublic().connections(&TransportOptions{}).Proxy != nil {
		t.Fatal("the transport has a proxy, want none")
	}
}

// certificate returns a certificate for a name; nil signer: self-signed.
func certificate(t *testing.T, name string, from, to time.Time, signer *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	plan := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: to, IsCA: signer == nil, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	if ip := net.ParseIP(name); ip != nil {
		plan.IPAddresses = []net.IP{ip}
	} else {
		plan.DNSNames = []string{name}
	}
	parent, by := plan, any(key)
	if signer != nil {
		parent, by = signer.Leaf, signer.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, plan, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	now, day := time.Now(), 24*time.Hour
	authority := certificate(t, "authority.example", now.Add(-100*day), now.Add(100*day), nil)
	roots := x509.NewCertPool()
	roots.AddCert(authority.Leaf)
	tests := []struct {
		name, want string
		of         tls.Certificate
	}{
		{"good", "", certificate(t, "127.0.0.1", now.Add(-day), now.Add(day), &authority)},
		{"expired", "has expired", certificate(t, "127.0.0.1", now.Add(-3*day), now.Add(-day), &authority)},
		{"in the future", "not valid yet", certificate(t, "127.0.0.1", now.Add(day), now.Add(3*day), &authority)},
		{"another name", "other names", certificate(t, "elsewhere.example", now.Add(-day), now.Add(day), &authority)},
		{"self-signed", "SSL_CERT_FILE", certificate(t, "127.0.0.1", now.Add(-day), now.Add(day), nil)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				if test.want != "" {
					t.Error("the request was sent to a server with a bad certificate")
				}
			}))
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.TLS = &tls.Config{Certificates: []tls.Certificate{test.of}}
			server.StartTLS()
			defer server.Close()
			client := rulesFor(t, server.URL).Client(&TransportOptions{Roots: roots})
			response, err := client.Post(server.URL+"/?token=topsecret", "text/plain", strings.NewReader("x"))
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				return
			}
			f, ok := fault.As(err)
			if !ok || f.Code != fault.Unavailable || f.Outcome != fault.NotSent || !strings.Contains(f.Message, test.want) ||
				!strings.Contains(f.Message, server.Listener.Addr().String()) || strings.Contains(f.Message, "topsecret") {
				t.Errorf("got %v, want unavailable, not sent, with the address and %q", err, test.want)
			}
		})
	}
}

func TestPlainHTTPServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	secure := strings.Replace(server.URL, "http:", "https:", 1)
	_, err := rulesFor(t, secure).Client(nil).Get(secure)
	if f, ok := fault.As(err); !ok || f.Code != fault.Unavailable || !strings.Contains(f.Message, "plain HTTP") {
		t.Errorf("got %v, want unavailable because of plain HTTP", err)
	}
}

// roundTrip is a transport made of a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTransportChecksRules(t *testing.T) {
	t.Parallel()
	var sent *http.Request
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = r
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, nil
	})
	transport := rulesFor(t, "https://a.example").Transport(&TransportOptions{Base: base})
	body := &closeRecorder{Reader: strings.NewReader("x")}
	request := httptest.NewRequest(http.MethodPost, "https://b.example/?token=topsecret", body)
	if _, err := transport.RoundTrip(request); fault.CodeOf(err) != fault.Denied || sent != nil || !body.closed ||
		strings.Contains(err.Error(), "topsecret") {
		t.Errorf("got %v, sent %v, closed %t, want denied, nothing sent, closed", err, sent, body.closed)
	}
	request = httptest.NewRequest(http.MethodGet, "https://A.example:443/x", nil)
	request.Host = "elsewhere.example"
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if sent.URL.Host != "a.example" || sent.Host != "" || request.URL.Host != "A.example:443" || request.Host != "elsewhere.example" {
		t.Errorf("sent to %q with the host %q; the caller's request became %q, %q, want a.example and no change",
			sent.URL.Host, sent.Host, request.URL.Host, request.Host)
	}
}

type closeRecorder struct {
	io.Reader
	closed bool
}

func (c *closeRecorder) Close() error { c.closed = true; return nil }

// TestRedirectToOtherSpelling: a redirect to another spelling of the same host is not a redirect to another host.
func TestRedirectToOtherSpelling(t *testing.T) {
	t.Parallel()
	var seen []string
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		seen = append(seen, r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"))
		response := &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}
		switch r.URL.Path {
		case "/":
			response.StatusCode, response.Header = 302, http.Header{"Location": {"https://a.example:443/next"}}
		case "/next":
			response.StatusCode, response.Header = 302, http.Header{"Location": {"https://b.example/"}}
		}
		if r.URL.Host == "b.example" {
			response.StatusCode = 200
		}
		return response, nil
	})
	request := httptest.NewRequest(http.MethodGet, "https://a.example/", nil)
	request.RequestURI = ""
	request.Header.Set("Authorization", "Bearer x")
	request.Header.Set("X-Api-Key", " and y")
	response, err := rulesFor(t, "https://a.example", "https://b.example").Client(&TransportOptions{Base: base}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if strings.Join(seen, "|") != "Bearer x and y|Bearer x and y|" {
		t.Errorf("credentials sent: %q, want them for a.example only", seen)
	}
}

func TestFailure(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	read := &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset")}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		method  string
		ctx     context.Context
		err     error
		code    fault.Code
		outcome fault.Outcome
	}{
		{"POST", t.Context(), dial, fault.Unavailable, fault.NotSent},
		{"POST", t.Context(), read, fault.Unavailable, fault.SentUnknown},
		{"PUT", t.Context(), io.ErrUnexpectedEOF, fault.Unavailable, fault.SentUnknown},
		{"GET", t.Context(), dial, fault.Unavailable, fault.NotSent},
		{"GET", t.Context(), read, fault.Unavailable, ""},
		{"POST", t.Context(), &net.DNSError{Err: "no such host", IsNotFound: true}, fault.Unavailable, fault.NotSent},
		{"POST", t.Context(), context.DeadlineExceeded, fault.Timeout, fault.SentUnknown},
		{"POST", ended, errors.New("closed"), fault.Cancelled, fault.SentUnknown},
		{"POST", ended, dial, fault.Cancelled, fault.NotSent},
		{"POST", t.Context(), fault.New(fault.Denied, "no"), fault.Denied, ""},
	}
	for _, test := range tests {
		request := httptest.NewRequestWithContext(test.ctx, test.method, "https://a.example/?token=topsecret", nil)
		f := Failure(request, test.err)
		if f.Code != test.code || f.Outcome != test.outcome || strings.Contains(f.Error(), "topsecret") || f.Err == nil &&
			test.code != fault.Denied {
			t.Errorf("%s, %v: got %v, %q, want %s, %q", test.method, test.err, f, f.Outcome, test.code, test.outcome)
		}
	}
	// The failed dial is that of a redirect: the first request was answered.
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPost {
			return &http.Response{StatusCode: 303, Header: http.Header{"Location": {"/done"}}, Body: http.NoBody}, nil
		}
		return nil, dial
	})
	request := httptest.NewRequest(http.MethodPost, "https://a.example/", strings.NewReader("x"))
	request.RequestURI = ""
	_, err := rulesFor(t, "https://a.example").Client(&TransportOptions{Base: base}).Do(request)
	if f := Failure(request, err); f.Outcome != fault.SentUnknown {
		t.Errorf("after a redirect: got %v, %q, want %q", f, f.Outcome, fault.SentUnknown)
	}
}
