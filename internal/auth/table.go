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

// errInvalid is wrapped by the denied errors of Table.Verify, except those for missing rights, which wrap steps.ErrScope. Its text is the
// error code that RFC 6750, section 3.1, defines for such tokens.
var errInvalid = errors.New("invalid_token")

// Options configure which tokens are accepted. nil and the zero value accept none.
type Options struct {
	Tokens []Token
	JWT    *JWT // nil: no JWT is accepted

	// Keys are the issuer's keys, opened with the same JWT; the table does not close them. nil: the table opens its own.
	Keys *Keys

	// Now returns the time for checking JWTs; nil: time.Now.
	Now func() time.Time
	// Client fetches the issuer's keys. A copy of it is used, whose timeout is 5 s per fetch and which follows redirects on the same host and
	// scheme only. nil: a client without keep-alive connections.
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

// maxToken bounds a token: 16 KiB. Longer tokens are refused unread.
const maxToken = 16 << 10

// New checks the configuration. It does not wait for the issuer, whose keys are fetched in the background. It returns all faults at once,
// and then the table is nil. They are bad_request, with At relative to the configuration's access ("/tokens/0/sha256", "/jwt/keys"). No
// message shows the value of sha256. The caller closes the table.
func New(o *Options) (*Table, []*fault.Error) {
	t, faults := newTable(o)
	if len(faults) > 0 {
		return nil, faults
	}
	if t.jwt != nil {
		t.jwt.keys.prefetch()
	}
	return t, nil
}

// Check returns the faults that New would return. It reads the keys in a file, but fetches none.
func Check(o *Options) []*fault.Error {
	t, faults := newTable(o)
	if len(faults) == 0 {
		t.Close()
	}
	return faults
}

// newTable returns the table, which fetches no keys yet, and all faults of the configuration.
func newTable(o *Options) (*Table, []*fault.Error) {
	var given Options
	if o != nil {
		given = *o
	}
	if given.Now == nil {
		given.Now = time.Now
	}
	t := &Table{shared: given.Keys != nil}
	var faults []*fault.Error
	t.tokens, faults = readTokens(given.Tokens)
	if given.JWT != nil {
		var more []*fault.Error
		t.jwt, more = newVerifier(&given)
		faults = append(faults, more...)
	}
	return t, faults
}

// Verify returns the caller of a token. The error is denied for a refused token; it wraps steps.ErrScope if the token is valid but has no
// rights. The message does not give the reason, which would help guessers, but the wrapped error does, for logs. The error is unavailable
// if the token's key is unknown and the issuer's keys cannot be fetched now, and cancelled or timeout if ctx ended. Errors and logs
// contain nothing of a token.
//
// A token is looked up by its SHA-256. The lookup time depends on the hash alone, which a guesser cannot choose byte by byte, so
// timing reveals nothing. A leaked hash does not reveal a random token of at least 128 bits.
func (t *Table) Verify(ctx context.Context, token string) (*steps.Caller, error) {
	return t.verify(ctx, token, false)
}

// Reverify is like Verify, but for a token that was accepted before: it may have expired since, but its key must still be valid.
func (t *Table) Reverify(ctx context.Context, token string) (*steps.Caller, error) {
	return t.verify(ctx, token, true)
}

// verify is Verify or, if late is set, Reverify.
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

// KeysVersion returns a number that changes with the loaded keys of the issuer; earlier results of Verify may then be outdated. It does not
// check whether the issuer has other keys. 0: no keys were loaded yet, or no JWT is accepted.
func (t *Table) KeysVersion() uint64 {
	if t.jwt == nil {
		return 0
	}
	return t.jwt.keys.changes.Load()
}

// RefreshKeys brings the issuer's keys up to date as Verify does. Call it regularly, so that they stay current when there are no requests.
// It reads a file again if the last read was over a second ago, and fetches a URL again in the background if the last fetch was over 5
// minutes ago; both in any case if force is set. It waits for a file, up to a second for each read.
func (t *Table) RefreshKeys(force bool) {
	if t.jwt != nil {
		t.jwt.keys.refresh(force)
	}
}

// Issuers returns the issuer for protected resource metadata (RFC 9728); nil if no JWT is accepted or the issuer is not a URL.
func (t *Table) Issuers() []string {
	if t.jwt == nil || checkIssuerURL(t.jwt.issuer) != "" {
		return nil
	}
	return []string{t.jwt.issuer}
}

// Close ends running fetches, unless the keys are shared. A closed table still accepts its own tokens, and JWTs that are signed with the
// keys that it has loaded. It may be called more than once.
func (t *Table) Close() {
	if t.jwt != nil && !t.shared {
		t.jwt.keys.close()
	}
}

// refuse returns the denied error for a token; why is for logs only.
func refuse(why string) *fault.Error {
	return &fault.Error{Code: fault.Denied, Err: fmt.Errorf("%w: %s", errInvalid, why),
		Message: "the bearer token is not accepted: it is unknown, expired, or meant for another server"}
}
