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

// errInvalid is inside a denied of Table.Verify: the word that RFC 6750, section 3.1, has for HTTP 401. Its word for HTTP 403 is
// steps.ErrScope.
var errInvalid = errors.New("invalid_token")

// Options tell which tokens are accepted. nil and the zero value accept none.
type Options struct {
	Tokens []Token
	JWT    *JWT // nil: no JWT is accepted

	// Keys are the issuer's, opened with the same JWT; the table does not close them. nil: the table opens its own.
	Keys *Keys

	// Now is the time that the times in a JWT are compared with; nil: time.Now.
	Now func() time.Time
	// Client fetches the issuer's keys. Its redirects and its time limit are replaced: 5 s a fetch, and redirects to
	// https on the same host only. nil: a client of its own, without connections kept.
	Client *http.Client
	// Log gets what happens to the issuer's keys; nil: nobody does.
	Log *slog.Logger
}

// Table knows callers by their tokens. It may be used by many goroutines.
type Table struct {
	tokens map[[sha256.Size]byte]*steps.Caller
	jwt    *verifier // nil: no JWT is accepted
	shared bool      // the keys are not the table's own
}

// maxToken bounds a token in bytes: 16 KiB. What is longer is refused unread.
const maxToken = 16 << 10

// New checks all that can be known at start; that an issuer answers cannot, and is not waited for: its keys are fetched in
// the background from now on. All faults come back at once, bad_request, At relative to the configuration's access:
// "/tokens/0/sha256", "/jwt/keys"; the table is nil then. No message shows what stands in the place of a hash. The caller
// closes the table.
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

// Verify tells whose token this is. Errors: denied, with steps.ErrScope inside if the token is valid and gives no rights; the message does not tell why, so
// that a guesser learns nothing (the error inside says it in a few words of onecall's own, for a log); unavailable where
// the token is signed with a key that is not known, and the issuer's keys cannot be had now; cancelled or timeout where
// ctx ended meanwhile. No error and no log holds anything of a token.
//
// A token is looked up by its SHA-256. How long that takes depends on the hash alone: who does not know a token cannot
// choose its hash byte by byte, so that there is nothing to be learnt from the time, and a hash that became known does
// not lead to the token, provided that this was made at random (128 bits or more).
func (t *Table) Verify(ctx context.Context, token string) (*steps.Caller, error) {
	return t.verify(ctx, token, false)
}

// Hold is as Verify, for a token that was accepted before: that it has expired since does not matter, that its key was taken
// back does.
func (t *Table) Hold(ctx context.Context, token string) (*steps.Caller, error) {
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

// Keys is a number that is another one once the issuer's keys are others: then what Verify has told of a JWT before may not hold
// any more. It does not look at the keys. 0: none were read yet, or no JWT is accepted.
func (t *Table) Keys() uint64 {
	if t.jwt == nil {
		return 0
	}
	return t.jwt.keys.changes.Load()
}

// Look has the issuer's keys looked at as Verify does, for whoever wants to know of a change while nobody comes: a file each second
// at most, what is behind a URL in the background after 5 minutes; now: whenever they were looked at last. It waits for a
// file, for a second at most.
func (t *Table) Look(now bool) {
	if t.jwt != nil {
		t.jwt.keys.look(now)
	}
}

// Issuers are those whose tokens are accepted, as the protected resource metadata (RFC 9728) names them: URLs only.
func (t *Table) Issuers() []string {
	if t.jwt == nil || checkIssuerURL(t.jwt.issuer) != "" {
		return nil
	}
	return []string{t.jwt.issuer}
}

// Close ends fetches that are under way, if the keys are the table's own. A closed table still knows the tokens that it knew. It
// may be called more than once.
func (t *Table) Close() {
	if t.jwt != nil && !t.shared {
		t.jwt.keys.close()
	}
}

// refuse is the denied of a token; why is for logs.
func refuse(why string) *fault.Error {
	return &fault.Error{Code: fault.Denied, Err: fmt.Errorf("%w: %s", errInvalid, why),
		Message: "the bearer token is not accepted: it is unknown, expired, or meant for another server"}
}
