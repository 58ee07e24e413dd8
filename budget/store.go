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

// Expired is what is said of a token that is not live for its caller, whatever the reason.
const Expired = "Continuation token expired or not found. Re-invoke without continuation_token to start a new negotiation."

// TokenPrefix is what every continuation token begins with, and nothing else of a request should.
const TokenPrefix = "oc1_"

// ErrNotFound is what a driver answers for a key that is absent or expired.
var ErrNotFound = errors.New("no such result")

// ErrClosed is what a driver answers after Close.
var ErrClosed = errors.New("the store of results is closed")

// Driver keeps results. It does no more than that: tokens, owners, the extension of a life, the bound of a single value
// and the errors of callers are the work of Results. A driver
//   - bounds all that it keeps in bytes, and gives up older results for a new one, never the new one: those of the owner
//     (Entry.Part) that has most, so that one who keeps more and more loses its own;
//   - answers ErrNotFound for what is absent, expired, damaged or not its own, and ErrClosed after Close;
//   - does nothing, and answers the context's error, when the context has ended;
//   - is safe for concurrent use, and takes any string as a key.
//
// Package budget/storetest holds the tests that every driver passes.
type Driver interface {
	// Put keeps e under key, in place of what is there. It may keep e.Value without copying it. A value that is too large
	// (CheckSize) is limit_exceeded; what it would have replaced may be gone then.
	Put(ctx context.Context, key string, e Entry) error

	// Get returns the entry that was put, to the millisecond at least; its Value is for reading only. The value is not read
	// before admit has said yes; its error ends Get.
	Get(ctx context.Context, key string, admit Admit) (Entry, error)

	// Touch changes the time at which an entry that is there expires.
	Touch(ctx context.Context, key string, expires time.Time) error

	// Delete removes an entry; it is no error that there is none.
	Delete(ctx context.Context, key string) error

	// SetMaxBytes changes the bound of all that this driver keeps, as Bound reads it: bad_request, which changes nothing. Where
	// the bound is smaller, older results are given up by the time that the next one is kept; nothing else is lost. Of a store
	// that several processes use it is the bound by which this one makes room. After Close it does nothing.
	SetMaxBytes(maxBytes int64) error

	// Close ends the use of the driver; a second Close does nothing.
	Close() error
}

// Bound is how many bytes a driver keeps at most by an option of its own: 0 is 1 GiB, -1 is no bound
// (math.MaxInt64), and below that is bad_request.
func Bound(maxBytes int64) (int64, error) {
	switch {
	case maxBytes < -1:
		return 0, fault.New(fault.BadRequest, "The bound of the result store must be a number of bytes, or -1 for none, not %d.", maxBytes)
	case maxBytes == -1:
		return math.MaxInt64, nil
	case maxBytes == 0:
		return defaultMaxBytes, nil
	}
	return maxBytes, nil
}

// Entry is a result as a driver keeps it.
type Entry struct {
	Owner            string // whose it is, at most 256 bytes; opaque to the driver but for Part
	Created, Expires time.Time
	Value            []byte // JSON; must not be changed by anyone
}

// Part is to whose part of the store the entry counts: what of its owner stands before the first colon.
func (e Entry) Part() string {
	part, _, _ := strings.Cut(e.Owner, ":")
	return part
}

// Admit is asked before a value is read: by the entry without it, and the bytes that it has. It may be asked again where the
// entry is replaced meanwhile. Nil admits everything.
type Admit func(e Entry, size int64) error

// Ask asks whether the value of an entry may be read; e may have its Value.
func (a Admit) Ask(e Entry, size int64) error {
	if a == nil {
		return nil
	}
	e.Value = nil
	return a(e, size)
}

// CheckSize is what keeps a driver from keeping a result that counts so many bytes, of most that it may keep: limit_exceeded
// where that is more than all, or more than half of all and its owner is not alone, that is, where others keep results too.
func CheckSize(size, most int64, alone bool) error {
	switch {
	case size > most:
		return fault.New(fault.LimitExceeded, "The result takes %d bytes in the result store, which may hold %d (results.maxBytes). Ask for less of it.", size, most)
	case !alone && size > most/2:
		return fault.New(fault.LimitExceeded, "The result takes %d bytes in the result store, which may hold %d (results.maxBytes), and one result at most half of that while others keep results there. Ask for less of it.", size, most)
	}
	return nil
}

// ResultsOptions are the settings of Results; a zero field stands for its default.
type ResultsOptions struct {
	TTL      time.Duration    // the life of a result after its last use; default 5 minutes, at least 1 second
	MaxTTL   time.Duration    // the most that use extends a life to, from its beginning; default 1 hour, at least TTL
	MaxBytes int64            // the largest single value; default 1 GiB, -1 for none. What a store holds in all, its driver bounds
	PageSize int              // items of a page that names no size; default 20
	Counter  Counter          // for the sizes that a probe tells; default NewCounter("", 0)
	Now      func() time.Time // the clock; default time.Now
}

// Defaults of ResultsOptions.
const (
	defaultTTL      = 5 * time.Minute
	defaultMaxBytes = 1 << 30
	defaultPageSize = 20

	// DefaultMaxTTL is how long a result is kept at most, however often it is fetched.
	DefaultMaxTTL = time.Hour
)

// Results keeps large results for their owners and answers fetches. It is safe for concurrent use.
type Results struct {
	driver Driver
	o      ResultsOptions
	most   int // the largest budget of an answer in tokens; 0: there is none
	rights Rights
	hold   func(int) error // see Holding; nil: nobody counts
}

// NewResults makes Results on a driver, which it owns from then on. Options that are out of range are bad_request.
func NewResults(d Driver, o *ResultsOptions) (*Results, error) {
	r := &Results{driver: d}
	if o != nil {
		r.o = *o
	}
	return r, r.o.complete()
}

// complete fills gaps with defaults and refuses what is out of range.
func (o *ResultsOptions) complete() error {
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
		return optionFault("/ttl", "The life of a result must be at least 1s, not %v.", o.TTL)
	case o.MaxTTL < o.TTL:
		return optionFault("/maxTtl", "The longest life of a result, %v, must not be below its ttl, %v.", o.MaxTTL, o.TTL)
	case o.MaxBytes < -1:
		return optionFault("/maxBytes", "The largest result must be a number of bytes, or -1 for no bound, not %d.", o.MaxBytes)
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

// Under gives the same Results to one who answers within so many tokens at the most (0: without a limit): a probe offers
// the mode full only where that can ever fit.
func (r *Results) Under(tokens int) *Results {
	own := *r
	own.most = tokens
	return &own
}

// Close closes the driver.
func (r *Results) Close() error { return r.driver.Close() }

// Keep stores a value for its owner and returns the token to fetch it by, and the time that it lives unused. The value
// is valid JSON; it may be kept as it is, so it must not change, and should not be part of a larger buffer. A value above
// MaxBytes is limit_exceeded; a store that fails is unavailable.
func (r *Results) Keep(ctx context.Context, owner string, value []byte) (token string, expiresIn time.Duration, err error) {
	token, err = newToken()
	if err != nil {
		return "", 0, err
	}
	return token, r.o.TTL, r.keep(ctx, owner, token, value)
}

func (r *Results) keep(ctx context.Context, owner, token string, value []byte) error {
	if r.o.MaxBytes >= 0 && int64(len(value)) > r.o.MaxBytes {
		return fault.New(fault.LimitExceeded, "The result has %s bytes and at most %s can be kept. Ask for less of it (select, filters, limits).",
			thousands(len(value)), thousands(int(r.o.MaxBytes)))
	}
	now := r.o.Now()
	e := Entry{Owner: r.rights.mark(owner), Created: now, Expires: now.Add(r.o.TTL), Value: value}
	if err := r.driver.Put(ctx, keyOf(token), e); err != nil {
		return storeFault(err, "kept")
	}
	return nil
}

// Value returns a result that its owner kept, and the time that it lives unused from now on: its use extends it by TTL,
// up to MaxTTL from its beginning. Whatever is not a live token of this owner is token_expired, and so is what it kept with
// rights that it has not any more (see With); of such a result nothing is read. The value is for reading only.
func (r *Results) Value(ctx context.Context, owner, token string) ([]byte, time.Duration, error) {
	if !strings.HasPrefix(token, TokenPrefix) {
		return nil, 0, tokenExpired()
	}
	e, err := r.driver.Get(ctx, keyOf(token), func(e Entry, size int64) error {
		if !r.rights.owns(e.Owner, owner) || !r.o.Now().Before(r.end(e)) {
			return ErrNotFound
		}
		return r.holds(int(size))
	})
	if errors.Is(err, ErrNotFound) {
		return nil, 0, tokenExpired()
	}
	if err != nil {
		return nil, 0, storeFault(err, "read")
	}
	now, expires := r.o.Now(), r.end(e)
	if !now.Before(expires) { // while it was read
		return nil, 0, tokenExpired()
	}
	if extended := earlier(now.Add(r.o.TTL), e.Created.Add(r.o.MaxTTL)); extended.After(expires) {
		// A store that cannot extend a life has still answered the value: it then expires when it would have.
		if r.driver.Touch(ctx, keyOf(token), extended) == nil {
			expires = extended
		}
	}
	return e.Value, expires.Sub(now), nil
}

// end is when a result expires, whatever its driver says.
func (r *Results) end(e Entry) time.Time { return earlier(e.Expires, e.Created.Add(r.o.MaxTTL)) }

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// tokenSpace is the number of tokens: 39 decimal digits, over 129 bits. Three digits are one token of the encoding,
// whichever they are, so that a continuation token always costs its reader the same, and less than in any other notation.
var tokenSpace = new(big.Int).Exp(big.NewInt(10), big.NewInt(39), nil)

func newToken() (string, error) {
	n, err := rand.Int(rand.Reader, tokenSpace)
	if err != nil {
		return "", &fault.Error{Code: fault.Internal, Message: "The system gave no random numbers for a continuation token.", Err: err}
	}
	return fmt.Sprintf("%s%039d", TokenPrefix, n), nil
}

// keyOf is the key of a token in the store: whoever can list a store's keys still has no token.
func keyOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// ownerID stands for an owner in the store.
func ownerID(owner string) string {
	sum := sha256.Sum256([]byte("owner of results:" + owner))
	return hex.EncodeToString(sum[:])
}

func tokenExpired() error {
	return fault.New(fault.TokenExpired, Expired)
}

// storeFault is the coded error for what a driver answered.
func storeFault(err error, done string) error {
	if e, ok := fault.As(err); ok {
		return e
	}
	code, message := fault.Unavailable, fmt.Sprintf("The result could not be %s: the store of results failed. Try again later.", done)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		code, message = fault.Timeout, fmt.Sprintf("The time was over before the result was %s.", done)
	case errors.Is(err, context.Canceled):
		code, message = fault.Cancelled, fmt.Sprintf("The request was cancelled before the result was %s.", done)
	}
	return &fault.Error{Code: code, Message: message, Err: err}
}
