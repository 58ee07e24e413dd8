package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// errInvalid is wrapped by the denied of Table.Verify: the error code for HTTP 401 in RFC 6750, section 3.1. Its code for HTTP
// 403 is steps.ErrScope.
var errInvalid = errors.New("invalid_token")

// Options configure which tokens are accepted. nil and the zero value accept none.
type Options struct {
	Tokens []Token
	JWT    *JWT // nil: no JWT is accepted

	// Keys are the issuer's keys, opened with the same JWT; the table does not close them. nil: the table opens its own.
	Keys *Keys

	// Now returns the time for checking JWTs; nil: time.Now.
	Now func() time.Time
	// Client fetches the issuer's keys. Its redirect policy and timeout are replaced: 5 s per fetch, and redirects to https on
	// the same host only. nil: a client without keep-alive connections.
	Client *http.Client
	// Log logs events of the issuer's keys; nil: no logging.
	Log *slog.Logger
}

// Table identifies callers by their tokens. It is safe for concurrent use.
type Table struct {
	tokens map[[sha256.Size]byte]*steps.Caller
	jwt    *verifier // nil: no JWT is accepted
	shared bool      // the keys belong to the caller of New
}

// maxToken bounds a token: 16 KiB. Longer ones are refused unread.
const maxToken = 16 << 10

// New checks the configuration. It does not wait for the issuer, whose keys are fetched in the background. It returns all faults
// at once: bad_request, with At relative to the configuration's access ("/tokens/0/sha256", "/jwt/keys"); the table is nil then.
// No message shows a value given as a hash. The caller closes the table.
func New(o *Options) (*Table, []*fault.Error) {
	var given Options
	if o != nil {
		given = *o
	}
	if given.Now == nil {
		given.Now = time.Now
	}
	if given.Log == nil {
		given.Log = slog.New(slog.DiscardHandler)
	}
	t := &Table{shared: given.Keys != nil}
	var faults []*fault.Error
	t.tokens, faults = readTokens(given.Tokens)
	if given.JWT == nil {
		if len(faults) > 0 {
			return nil, faults
		}
		return t, nil
	}
	v, more := newVerifier(&given)
	if faults = append(faults, more...); len(faults) > 0 {
		return nil, faults
	}
	t.jwt = v
	t.jwt.keys.prefetch()
	return t, nil
}

// Verify returns the caller of a token. Errors: denied, which wraps steps.ErrScope if the token is valid but has no rights; its
// message does not give the reason, which would help guessers, but the wrapped error does, for logs. unavailable if the token's
// key is unknown and the issuer's keys cannot be fetched now; cancelled or timeout if ctx ended. Errors and logs contain nothing
// of a token.
//
// A token is looked up by its SHA-256. The lookup time depends on the hash alone, which a guesser cannot choose byte by byte, so
// timing reveals nothing. A leaked hash does not reveal the token if that is random (at least 128 bits).
func (t *Table) Verify(ctx context.Context, token string) (*steps.Caller, error) {
	return t.verify(ctx, token, false)
}

// Reverify is like Verify, but for a token that was accepted before: it may have expired since, but its key must still be valid.
func (t *Table) Reverify(ctx context.Context, token string) (*steps.Caller, error) {
	return t.verify(ctx, token, true)
}

func (t *Table) verify(ctx context.Context, token string, late bool) (*steps.Caller, error) {
	if token == "" || len(token) > maxToken {
		return nil, refuse("no token, or one that is too long")
	}
	hash := sha256.Sum256([]byte(token))
	if known, ok := t.tokens[hash]; ok {
		caller := *known
		return &caller, nil
	}
	if t.jwt == nil {
		return nil, refuse("not in the table")
	}
	return t.jwt.verify(ctx, token, hash, late)
}

// KeysVersion changes when the issuer's keys change; earlier results of Verify may be outdated then. It does not check the keys.
// 0: none were loaded yet, or no JWT is accepted.
func (t *Table) KeysVersion() uint64 {
	if t.jwt == nil {
		return 0
	}
	return t.jwt.keys.changes.Load()
}

// RefreshKeys checks the issuer's keys as Verify does, while there are no requests: a file once a second, a URL in the background
// after 5 minutes; force: in any case. It waits up to a second for a file.
func (t *Table) RefreshKeys(force bool) {
	if t.jwt != nil {
		t.jwt.keys.refresh(force)
	}
}

// Issuers returns the issuers for protected resource metadata (RFC 9728): URLs only.
func (t *Table) Issuers() []string {
	if t.jwt == nil || checkIssuerURL(t.jwt.issuer) != "" {
		return nil
	}
	return []string{t.jwt.issuer}
}

// Close ends running fetches, unless the keys are shared. A closed table still accepts the tokens that it knows. It may be called
// more than once.
func (t *Table) Close() {
	if t.jwt != nil && !t.shared {
		t.jwt.keys.close()
	}
}

// refuse returns the denied for a token; why is for logs.
func refuse(why string) *fault.Error {
	return &fault.Error{Code: fault.Denied, Err: fmt.Errorf("%w: %s", errInvalid, why),
		Message: "the bearer token is not accepted: it is unknown, expired, or meant for another server"}
}
