package credential

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
)

const (
	fetchTimeout = 30 * time.Second // bounds one request for a token
	early        = 10 * time.Second // a token that ends sooner is not used for another call
	unknownLife  = time.Minute      // of a token of which the endpoint does not say when it ends
	deniedLife   = 5 * time.Second  // how long a refusal answers further calls, so that a long list of them does not ask for each
)

// tokens holds the access token of one identity. It is fetched once for all calls that wait, and kept until shortly before its end.
type tokens struct {
	fetch  func(ctx context.Context) (*oauth2.Token, error) // returns a token with an end
	hidden hidden

	flight  singleflight.Group
	mu      sync.Mutex
	current *oauth2.Token
	denied  *fault.Error // the last refusal; nil: the endpoint has given a token since, or was not asked
	until   time.Time
}

// token returns a token that has not ended.
func (t *tokens) token(ctx context.Context) (string, error) {
	t.mu.Lock()
	current, denied, until := t.current, t.denied, t.until
	t.mu.Unlock()
	switch {
	case current != nil && time.Until(current.Expiry) > early:
		return current.AccessToken, nil
	case denied != nil && time.Now().Before(until):
		again := *denied // who gets it may add to it
		return "", &again
	}
	// Detached from the caller: others may wait for the token after this one has left.
	fetched := t.flight.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		defer cancel()
		token, err := t.fetch(ctx)
		if err == nil {
			t.hidden.add(token.AccessToken)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.denied = nil; err != nil {
			if f, coded := fault.As(err); coded && f.Code == fault.Denied {
				denied := *f
				t.denied, t.until = &denied, time.Now().Add(deniedLife)
			}
			return "", err
		}
		t.current = token
		return token.AccessToken, nil
	})
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case result := <-fetched:
		if result.Err != nil {
			return "", result.Err
		}
		return result.Val.(string), nil
	}
}

// refused drops a token that a service has refused, unless another one has taken its place. It reports whether the token was one of these.
func (t *tokens) refused(token string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != nil && t.current.AccessToken == token {
		t.current = nil
	}
	return token != ""
}

const bearer = "Bearer "

// credential returns the credential whose calls carry the token.
func (t *tokens) credential(name, digest string) *steps.Credential {
	return &steps.Credential{
		Name: name, Digest: digest, Scrubber: &t.hidden,
		Headers: func(ctx context.Context) (map[string]string, error) {
			token, err := t.token(ctx)
			if err != nil {
				return nil, err
			}
			return map[string]string{"Authorization": bearer + token}, nil
		},
		Refused: func(headers map[string]string) bool {
			return t.refused(strings.TrimPrefix(headers["Authorization"], bearer))
		},
	}
}

// maxHidden bounds the former tokens that are still removed from what services say.
const maxHidden = 4

// hidden removes tokens from texts. It implements steps.Scrubber. The zero value removes nothing.
type hidden struct {
	scrubber atomic.Pointer[secret.Scrubber]
	mu       sync.Mutex
	subject  []string // parts of the token that was exchanged
	tokens   []string
}

func (h *hidden) add(token string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tokens = append(h.tokens, secret.UnusualComponents(token)...)
	h.tokens = h.tokens[max(0, len(h.tokens)-maxHidden):]
	h.scrubber.Store(secret.New(slices.Concat(h.subject, h.tokens)))
}

// Text implements steps.Scrubber.
func (h *hidden) Text(text string) string { return h.scrubber.Load().Text(text) }

// JSON implements steps.Scrubber.
func (h *hidden) JSON(value []byte) []byte { return h.scrubber.Load().JSON(value) }

// Gateway returns the credential of onecall itself at a token endpoint (RFC 6749, section 4.4), for the calls of a source or endpoint.
func Gateway(name string, e *Endpoint) *steps.Credential {
	t := &tokens{fetch: func(ctx context.Context) (*oauth2.Token, error) { return e.fetch(ctx, name, nil) }}
	return t.credential(name, "")
}

// unsent marks the fault of a token that did not come, before anything was sent to the service. own: it is about the caller's own.
func unsent(f *fault.Error, own bool) *fault.Error {
	if f.Outcome = fault.NotSent; own {
		f.Err = steps.ErrCredential
	}
	return f
}
