package budget

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// TokenField is the name of a continuation token in probes and requests.
const TokenField = "continuation_token"

// ExpiredMessage is the message for a token that is not valid for its caller, for any reason.
const ExpiredMessage = "Continuation token expired or not found. Re-invoke without continuation_token to start a new negotiation."

// TokenPrefix begins every continuation token. Nothing else in a request should begin with it.
const TokenPrefix = "oc1_"

// ErrNotFound is returned by drivers for a key that is absent or expired.
var ErrNotFound = errors.New("no such result")

// ErrClosed is returned by drivers after Close.
var ErrClosed = errors.New("the store of results is closed")

// Driver stores results. Results does everything else: tokens, owners, extending lifetimes, limiting a single value, and errors for
// callers. A driver
//   - limits the total bytes that it stores, and removes older results for a new one, but never the new one. It removes those of the
//     owner (Entry.BaseOwner) that uses most, so that an owner who stores more and more loses its own;
//   - returns ErrNotFound for keys that are absent, expired, damaged or not its own, and ErrClosed after Close;
//   - does nothing and returns the context's error if the context has ended;
//   - is safe for concurrent use, and accepts any string as a key.
//
// Package budget/storetest has the tests that every driver passes.
type Driver interface {
	// Put stores e under key, replacing what is there. It may retain e.Value without copying it. A value that is too large (CheckSize) is
	// limit_exceeded; the entry that it would have replaced may be gone then.
	Put(ctx context.Context, key string, e Entry) error

	// Get returns the entry with times exact to the millisecond. Callers must not change its Value. The value is not read before admit
	// allows it; an error of admit is returned.
	Get(ctx context.Context, key string, admit Admit) (Entry, error)

	// Touch changes the expiry of an existing entry.
	Touch(ctx context.Context, key string, expires time.Time) error

	// Delete removes an entry. It is not an error if there is none.
	Delete(ctx context.Context, key string) error

	// SetMaxBytes changes the limit of all that this driver stores, given as in ResolveMaxBytes. An invalid limit is bad_request and
	// changes nothing. With a smaller limit, older results are removed by the time of the next Put; nothing else is lost. If several
	// processes use the store, the limit applies to what this process removes. After Close it does nothing.
	SetMaxBytes(maxBytes int64) error

	// Close ends the use of the driver. Closing it again does nothing.
	Close() error
}

// ResolveMaxBytes converts a driver's option to a limit in bytes: 0 is 1 GiB, -1 is no limit (math.MaxInt64), and less is bad_request.
func ResolveMaxBytes(maxBytes int64) (int64, error) {
	switch {
	case maxBytes < -1:
		return 0, fault.New(fault.BadRequest, "The limit of the result store must be a number of bytes, or -1 for none, not %d.", maxBytes)
	case maxBytes == -1:
		return math.MaxInt64, nil
	case maxBytes == 0:
		return defaultMaxBytes, nil
	}
	return maxBytes, nil
}

// Entry is a stored result.
type Entry struct {
	Owner            string // at most 256 bytes; opaque to drivers except for BaseOwner
	Created, Expires time.Time
	Value            []byte // JSON; must not be changed
}

// BaseOwner returns the owner without its rights: what precedes the first colon. The entry counts toward its share of the store.
func (e Entry) BaseOwner() string {
	base, _, _ := strings.Cut(e.Owner, ":")
	return base
}

// Admit decides whether a value may be read, given the entry without it and its size in bytes. It is called again if the entry is
// replaced meanwhile. Nil admits everything.
type Admit func(e Entry, size int64) error

// Check calls a with the entry without its Value.
func (a Admit) Check(e Entry, size int64) error {
	if a == nil {
		return nil
	}
	e.Value = nil
	return a(e, size)
}

// CheckSize returns limit_exceeded if a driver cannot store a result that counts size bytes: more than maxBytes, or more than half of it
// unless alone is set, which means that no other owner has results.
func CheckSize(size, maxBytes int64, alone bool) error {
	switch {
	case size > maxBytes:
		return fault.New(fault.LimitExceeded,
			"The result takes %d bytes in the result store, which may hold %d (results.maxBytes). Ask for less of it.", size, maxBytes)
	case !alone && size > maxBytes/2:
		return fault.New(fault.LimitExceeded,
			"The result takes %d bytes in the result store, which may hold %d (results.maxBytes), and one result at most half of that "+
				"while others keep results there. Ask for less of it.", size, maxBytes)
	}
	return nil
}

// ResultsOptions are the settings of Results. A zero field means its default.
type ResultsOptions struct {
	TTL      time.Duration    // lifetime of a result after its last use; default 5 minutes, at least 1 second
	MaxTTL   time.Duration    // maximum lifetime with extensions; default 1 hour, at least TTL
	MaxBytes int64            // maximum bytes of a single value; default 1 GiB, -1 for no limit. The driver limits the total
	PageSize int              // items of a page without a size; default 20
	Counter  Counter          // counts the sizes in probes; default NewCounter("", 0)
	Now      func() time.Time // the clock; default time.Now
}

// Defaults of ResultsOptions.
const (
	defaultTTL      = 5 * time.Minute
	defaultMaxBytes = 1 << 30
	defaultPageSize = 20

	// DefaultMaxTTL is how long a result is stored at most, however often it is fetched.
	DefaultMaxTTL = time.Hour
)

// Results stores large results for their owners and answers fetches. It is safe for concurrent use.
type Results struct {
	driver          Driver
	o               ResultsOptions
	maxAnswerTokens int // the largest budget of an answer in tokens; 0: unlimited
	rights          Rights
	labels          string          // see WithLabels; "": values have none
	reserve         func(int) error // see WithReserve; nil: no accounting
}

// NewResults returns Results that use and own a driver. Options that are out of range are bad_request.
func NewResults(d Driver, o *ResultsOptions) (*Results, error) {
	r := &Results{driver: d}
	if o != nil {
		r.o = *o
	}
	return r, r.o.applyDefaults()
}

// applyDefaults fills in defaults and refuses what is out of range.
func (o *ResultsOptions) applyDefaults() error {
	if o.TTL == 0 {
		o.TTL = defaultTTL
	}
	if o.MaxTTL == 0 {
		o.MaxTTL = max(DefaultMaxTTL, o.TTL)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.PageSize == 0 {
		o.PageSize = defaultPageSize
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Counter == nil {
		o.Counter, _ = NewCounter("", 0)
	}
	switch {
	case o.TTL < time.Second:
		return optionFault("/ttl", "The lifetime of a result must be at least 1s, not %v.", o.TTL)
	case o.MaxTTL < o.TTL:
		return optionFault("/maxTtl", "The longest lifetime of a result, %v, must not be below its ttl, %v.", o.MaxTTL, o.TTL)
	case o.MaxBytes < -1:
		return optionFault("/maxBytes", "The maximum size of a result must be a number of bytes, or -1 for no limit, not %d.", o.MaxBytes)
	case o.PageSize < 1:
		return optionFault("/pageSize", "The page size must be at least 1, not %d.", o.PageSize)
	}
	return nil
}

func optionFault(at, format string, args ...any) error {
	e := fault.New(fault.BadRequest, format, args...)
	e.At = at
	return e
}

// WithMaxTokens returns the same Results for answers of at most that many tokens (0: unlimited). A probe offers the mode full only if the
// value can ever fit.
func (r *Results) WithMaxTokens(tokens int) *Results {
	clone := *r
	clone.maxAnswerTokens = tokens
	return &clone
}

// Close closes the driver.
func (r *Results) Close() error { return r.driver.Close() }

// Keep stores a value for its owner and returns a token to fetch it with, and its lifetime if it is not used. The value must be valid
// JSON. It is retained, so it must not change, and should not be a slice of a larger buffer. A value above MaxBytes is limit_exceeded; a
// store that fails is unavailable.
func (r *Results) Keep(ctx context.Context, owner string, value []byte) (token string, expiresIn time.Duration, err error) {
	token, err = newToken()
	if err != nil {
		return "", 0, err
	}
	return token, r.o.TTL, r.keep(ctx, owner, token, value)
}

// KeepAs is Keep under a token of the caller's, which begins with TokenPrefix and cannot be guessed.
func (r *Results) KeepAs(ctx context.Context, owner, token string, value []byte) error {
	return r.keep(ctx, owner, token, value)
}

func (r *Results) keep(ctx context.Context, owner, token string, value []byte) error {
	return r.put(ctx, token, value, r.withMarks(r.rights.storedOwner(owner), ""))
}

// put stores a value under a token.
func (r *Results) put(ctx context.Context, token string, value []byte, storedOwner string) error {
	if r.o.MaxBytes >= 0 && int64(len(value)) > r.o.MaxBytes {
		return fault.New(fault.LimitExceeded, "The result has %s bytes and at most %s can be kept. Ask for less of it (select, filters, limits).",
			thousands(len(value)), thousands(int(r.o.MaxBytes)))
	}
	now := r.o.Now()
	e := Entry{Owner: storedOwner, Created: now, Expires: now.Add(r.o.TTL), Value: value}
	if err := r.driver.Put(ctx, keyOf(token), e); err != nil {
		return storeFault(err, "kept")
	}
	return nil
}

// MaxTTL returns how long a result is stored at most.
func (r *Results) MaxTTL() time.Duration { return r.o.MaxTTL }

// Value returns a result of its owner, and its remaining lifetime if it is not used again: each use extends the lifetime by TTL, up to
// MaxTTL from creation. A token that is not a live token of this owner is token_expired. So is one stored with rights that the owner no
// longer has (see WithRights); its value is not read. Callers must not change the value.
func (r *Results) Value(ctx context.Context, owner, token string) ([]byte, time.Duration, error) {
	e, lifetime, err := r.use(ctx, owner, token)
	return e.Value, lifetime, err
}

// use returns a result of its owner, and extends its lifetime as Value does.
func (r *Results) use(ctx context.Context, owner, token string) (Entry, time.Duration, error) {
	if !strings.HasPrefix(token, TokenPrefix) {
		return Entry{}, 0, tokenExpired()
	}
	e, err := r.driver.Get(ctx, keyOf(token), func(e Entry, size int64) error {
		if !r.rights.mayRead(e.Owner, owner) || !r.o.Now().Before(r.expiry(e)) {
			return ErrNotFound
		}
		return r.reserveBytes(int(size))
	})
	if errors.Is(err, ErrNotFound) {
		return Entry{}, 0, tokenExpired()
	}
	if err != nil {
		return Entry{}, 0, storeFault(err, "read")
	}
	now, expires := r.o.Now(), r.expiry(e)
	if !now.Before(expires) { // expired during the read
		return Entry{}, 0, tokenExpired()
	}
	if extended := earlier(now.Add(r.o.TTL), e.Created.Add(r.o.MaxTTL)); extended.After(expires) {
		// A store that cannot extend the lifetime has still returned the value.
		if r.driver.Touch(ctx, keyOf(token), extended) == nil {
			expires = extended
		}
	}
	return e, expires.Sub(now), nil
}

// expiry returns when a result expires, whatever its driver says.
func (r *Results) expiry(e Entry) time.Time { return earlier(e.Expires, e.Created.Add(r.o.MaxTTL)) }

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// tokenSpace is the number of tokens: 39 decimal digits, over 129 bits. Any three digits are one token of the encoding, so every
// continuation token costs the same, and less than in any other notation.
var tokenSpace = new(big.Int).Exp(big.NewInt(10), big.NewInt(39), nil)

func newToken() (string, error) {
	n, err := rand.Int(rand.Reader, tokenSpace)
	if err != nil {
		return "", &fault.Error{Code: fault.Internal, Message: "The system gave no random numbers for a continuation token.", Err: err}
	}
	return fmt.Sprintf("%s%039d", TokenPrefix, n), nil
}

// TokenOf returns a token that is always the same for the same 16 bytes, which must be secret, for KeepAs.
func TokenOf(secret [16]byte) string {
	return fmt.Sprintf("%s%039d", TokenPrefix, new(big.Int).SetBytes(secret[:]))
}

// keyOf returns the key of a token in the store. It is a hash: listing a store's keys reveals no tokens.
func keyOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// ownerID returns the id of an owner in the store.
func ownerID(owner string) string {
	sum := sha256.Sum256([]byte("owner of results:" + owner))
	return hex.EncodeToString(sum[:])
}

func tokenExpired() error {
	return fault.New(fault.TokenExpired, ExpiredMessage)
}

// storeFault returns the coded error for a driver's error.
func storeFault(err error, done string) error {
	if e, ok := fault.As(err); ok {
		return e
	}
	code, message := fault.Unavailable, fmt.Sprintf("The result could not be %s: the store of results failed. Try again later.", done)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		code, message = fault.Timeout, fmt.Sprintf("The deadline passed before the result was %s.", done)
	case errors.Is(err, context.Canceled):
		code, message = fault.Cancelled, fmt.Sprintf("The request was cancelled before the result was %s.", done)
	}
	return &fault.Error{Code: code, Message: message, Err: err}
}
