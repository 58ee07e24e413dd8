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

// client is the caller's HTTP client behind the rules of this package: every address, redirects included, is checked, a
// request with a body is never redirected, and no body is longer than maxAnswer.
type client struct {
	http.Client
	guard *guard
}

func newClient(base *http.Client, loopback bool) *client {
	g := &guard{base: base.Transport, loopback: loopback}
	if g.base == nil {
		g.base = http.DefaultTransport
	}
	c := &client{guard: g}
	c.Client = http.Client{Transport: g, Timeout: requestTimeout, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if via[0].Method != http.MethodGet {
			return fault.New(fault.Denied, "%s redirects a %s, which is refused: the final URL must be used", via[0].URL.Host, via[0].Method)
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

// within makes the client the one that x/oauth2 uses. A resource is added to what is sent: x/oauth2 has no way to name
// one in a refresh, and servers that bind tokens to it (RFC 8707, section 2.2) want it there too.
func (c *client) within(ctx context.Context, resource string) context.Context {
	h := c.Client
	h.Transport = &resourced{next: c.guard, resource: resource}
	return context.WithValue(ctx, oauth2.HTTPClient, &h)
}

type resourced struct {
	next     http.RoundTripper
	resource string
}

// RoundTrip implements http.RoundTripper for the form posts of x/oauth2.
func (t *resourced) RoundTrip(r *http.Request) (*http.Response, error) {
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
	again := r.Clone(r.Context())
	text := form.Encode()
	again.Body, again.ContentLength, again.GetBody = io.NopCloser(strings.NewReader(text)), int64(len(text)), nil
	again.Header.Set("Accept", "application/json")
	return t.next.RoundTrip(again)
}

// guard checks the address of each request and bounds each body.
type guard struct {
	base     http.RoundTripper
	loopback bool
	// answered is the status of the last answer, 0 after a request without one: libraries that hide their errors' types
	// leave no other way to tell a server that cannot be reached from one whose answer is refused.
	answered atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	g.answered.Store(0)
	if problem := refused(r.URL, g.loopback); problem != "" {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, fault.New(fault.Denied, "a URL of %s is refused: %s", r.URL.Host, problem)
	}
	answer, err := g.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	g.answered.Store(int64(answer.StatusCode))
	answer.Body = &bounded{ReadCloser: answer.Body, left: maxAnswer, host: r.URL.Host}
	return answer, nil
}

// bounded fails where a plain limit would cut: half an answer must not be taken for a whole one.
type bounded struct {
	io.ReadCloser
	left int
	host string
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fault.New(fault.LimitExceeded, "%s answers more than 1 MiB", b.host)
	}
	return n, err
}

// fetch reads a JSON document; a nil document without an error means that the server has none there (4xx).
func fetch[T any](ctx context.Context, c *client, from string) (*T, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, fault.New(fault.Denied, "a URL that the server names is not valid")
	}
	request.Header.Set("Accept", "application/json")
	answer, err := c.Do(request)
	if err != nil {
		return nil, trouble(hostOf(from)+" could not be asked", err)
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode >= 400 && answer.StatusCode < 500:
		return nil, nil
	case answer.StatusCode != http.StatusOK:
		return nil, fault.New(fault.Unavailable, "%s answers with status %d: try again later", hostOf(from), answer.StatusCode)
	}
	if kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, nil // a page for people, as many servers answer for any path
	}
	document := new(T)
	if err := json.NewDecoder(answer.Body).Decode(document); err != nil {
		return nil, trouble("what "+hostOf(from)+" answers is not the JSON that it should be", err)
	}
	return document, nil
}

// trouble codes an error of a request: the coded error inside it, else timeout, cancelled or unavailable. Its words are
// cleaned, and secrets are never part of them.
func trouble(what string, err error, secrets ...string) *fault.Error {
	var f *fault.Error
	switch coded, ok := fault.As(err); {
	case ok:
		f = fault.New(coded.Code, "%s: %s", what, coded.Message)
	case errors.Is(err, context.Canceled):
		f = fault.New(fault.Cancelled, "%s: it was cancelled", what)
	case isTimeout(err):
		f = fault.New(fault.Timeout, "%s: it did not answer in time; try again", what)
	default:
		f = fault.New(fault.Unavailable, "%s: %s", what, words(err.Error(), secrets...))
	}
	return f
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// words makes what a server said fit to be shown: printable, on one line, at most 200 characters, and nothing at all
// where it repeats a secret.
func words(said string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" && strings.Contains(said, secret) {
			return "(its words repeat a secret)"
		}
	}
	said = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(said, " "))
	said = strings.Join(strings.Fields(said), " ")
	return fault.ClipRunes(said, 201)
}
