package login

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/onecall-mcp/onecall/fault"
	"golang.org/x/oauth2"
)

// client is the HTTP client from Options with this package's rules: every address is checked, redirects included, only GET requests follow
// redirects, and longer response bodies than maxAnswer are errors.
type client struct {
	http.Client
	guard *guard
}

// newClient returns a client over base, the client of the package's user. If loopback is set, it may call addresses on this machine.
func newClient(base *http.Client, loopback bool) *client {
	g := &guard{base: base.Transport, loopback: loopback}
	if g.base == nil {
		g.base = http.DefaultTransport
	}
	c := &client{guard: g}
	c.Client = http.Client{Transport: g, Timeout: requestTimeout, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if via[0].Method != http.MethodGet {
			return fault.New(fault.Denied, "%s redirects a %s, which is refused: use the final URL", via[0].URL.Host, via[0].Method)
		}
		if len(via) > 5 {
			return fault.New(fault.Denied, "%s redirects more than 5 times", via[0].URL.Host)
		}
		if base.CheckRedirect != nil {
			return base.CheckRedirect(next, via)
		}
		return nil
	}}
	return c
}

// withContext returns a context that makes x/oauth2 use the client and adds resource to its requests: x/oauth2 cannot name a resource in a
// refresh, and servers that bind tokens to one (RFC 8707, section 2.2) expect it there too.
func (c *client) withContext(ctx context.Context, resource string) context.Context {
	h := c.Client
	h.Transport = &resourceTransport{next: c.guard, resource: resource}
	return context.WithValue(ctx, oauth2.HTTPClient, &h)
}

type resourceTransport struct {
	next     http.RoundTripper
	resource string
}

// RoundTrip implements http.RoundTripper for the form posts of x/oauth2.
func (t *resourceTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	if t.resource != "" {
		form.Set("resource", t.resource)
	}
	clone := r.Clone(r.Context())
	text := form.Encode()
	clone.Body, clone.ContentLength, clone.GetBody = io.NopCloser(strings.NewReader(text)), int64(len(text)), nil
	clone.Header.Set("Accept", "application/json")
	return t.next.RoundTrip(clone)
}

// guard checks the address of each request and bounds each response body.
type guard struct {
	base     http.RoundTripper
	loopback bool
	// status is the HTTP status of the last response, 0 if there was none. Libraries that hide the types of their errors leave no
	// other way to tell an unreachable server from a refused answer.
	status atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	g.status.Store(0)
	if problem := checkURL(r.URL, g.loopback); problem != "" {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, fault.New(fault.Denied, "a URL of %s is refused: %s", r.URL.Host, problem)
	}
	answer, err := g.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	g.status.Store(int64(answer.StatusCode))
	answer.Body = &limitedBody{ReadCloser: answer.Body, left: maxAnswer, host: r.URL.Host}
	return answer, nil
}

// limitedBody fails beyond its limit, so that a truncated answer is not taken for a whole one.
type limitedBody struct {
	io.ReadCloser
	left int
	host string
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fault.New(fault.LimitExceeded, "%s answers more than 1 MiB", b.host)
	}
	return n, err
}

// fetch reads a JSON document; nil without an error: the server has none there (status 4xx, or a web page).
func fetch[T any](ctx context.Context, c *client, from string) (*T, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, fault.New(fault.Denied, "a URL that the server names is not valid")
	}
	request.Header.Set("Accept", "application/json")
	answer, err := c.Do(request)
	if err != nil {
		return nil, codedError(hostOf(from)+" could not be reached", err)
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode >= 400 && answer.StatusCode < 500:
		return nil, nil
	case answer.StatusCode != http.StatusOK:
		return nil, fault.New(fault.Unavailable, "%s answers with status %d: try again later", hostOf(from), answer.StatusCode)
	}
	if kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, nil // a web page, as many servers send for any path
	}
	document := new(T)
	if err := json.NewDecoder(answer.Body).Decode(document); err != nil {
		return nil, codedError("the answer of "+hostOf(from)+" is not the expected JSON", err)
	}
	return document, nil
}

// codedError converts an error of a request to a coded error. The code is that of the coded error inside, if there is one, else timeout,
// cancelled or unavailable. The message begins with what, is cleaned, and contains no secrets.
func codedError(what string, err error, secrets ...string) *fault.Error {
	var f *fault.Error
	switch coded, ok := fault.As(err); {
	case ok:
		f = fault.New(coded.Code, "%s: %s", what, coded.Message)
	case errors.Is(err, context.Canceled):
		f = fault.New(fault.Cancelled, "%s: cancelled", what)
	case isTimeout(err):
		f = fault.New(fault.Timeout, "%s: timed out; try again", what)
	default:
		f = fault.New(fault.Unavailable, "%s: %s", what, clean(err.Error(), secrets...))
	}
	return f
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// clean makes a server's text printable: one line of at most 201 characters, the last of which is an ellipsis if something was cut off. If
// the text repeats a secret, clean returns a remark instead.
func clean(message string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" && strings.Contains(message, secret) {
			return "(omitted because it repeats a secret)"
		}
	}
	message = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(message, " "))
	message = strings.Join(strings.Fields(message), " ")
	return fault.ClipRunes(message, 201)
}
