package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/onecall-mcp/onecall/fault"
)

// Timing of key fetches.
const (
	// fetchEvery is the age at which keys are fetched again in the background. A revoked key may be accepted for that long.
	fetchEvery = 5 * time.Minute
	// minFetchInterval is the minimum time between two fetches, so that tokens with unknown keys do not cause requests to the issuer.
	// A new key may stay unknown for that long after its first token.
	minFetchInterval = 10 * time.Second
	// fetchTimeout bounds a fetch, metadata included.
	fetchTimeout = 10 * time.Second
	// refreshTimeout bounds how long a request waits for a key file to be read, so that a hanging file system does not delay callers longer.
	refreshTimeout = time.Second
	// tooOld is the age of the last load from which the keys are not used until the running load has ended.
	tooOld = time.Hour
)

// keyring holds the issuer's keys. When they are used, it reloads them if they are old, and in any case for a token with an unknown key.
// Keys at a URL are fetched in the background; a file is checked before its keys are used. At most one load runs at a time. Keys are kept
// until a load replaces them, so an unreachable issuer does not lock out callers.
type keyring struct {
	load func(ctx context.Context, have *keySet) (*keySet, error) // returns have, the loaded keys, if they have not changed

	// every is the age at which keys are loaded again, and minInterval the minimum time between loads for tokens with unknown keys.
	every, minInterval time.Duration
	isFile             bool // the keys are in a file: loads are fast, so callers wait for them
	log                *slog.Logger
	changes            atomic.Uint64 // number of changes of the keys, including the first load

	ctx    context.Context // the context of loads; close cancels it
	cancel context.CancelFunc

	mu         sync.Mutex
	keys       *keySet       // nil: no keys have been loaded yet
	err        error         // the error of the last load
	failed     int           // failed loads in a row
	endedAt    time.Time     // end of the last load; zero: there was none
	running    chan struct{} // closed at the end of the running load; nil: no load is running
	startedAt  time.Time     // start of the running load
	lateLogged bool          // the running load was logged as late
}

// Keys are the keys of one issuer. Tables with different scopes or audiences of that issuer may share them.
type Keys struct{ keys *keyring }

// OpenKeys opens the keys that o.JWT.Issuer and o.JWT.Keys name, as New does. Close them after the tables that use them. The error is a
// bad_request with At "/jwt/keys".
func OpenKeys(o *Options) (*Keys, error) {
	r, f := newKeyring(o, algorithms)
	if f != nil {
		return nil, f.Under("/jwt/keys")
	}
	return &Keys{r}, nil
}

// Close implements io.Closer. It ends running fetches.
func (k *Keys) Close() error {
	k.keys.close()
	return nil
}

// newKeyring returns the keys of an issuer. It reads a file at once, but not a URL. Its fault belongs to /jwt/keys.
func newKeyring(o *Options, accepted []jose.SignatureAlgorithm) (*keyring, *fault.Error) {
	r := &keyring{every: fetchEvery, minInterval: minFetchInterval, log: o.Log}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	switch location := o.JWT.Keys; {
	case strings.Contains(location, "://"):
		if problem := checkURL(location); problem != "" {
			return nil, fault.New(fault.BadRequest, "the address of the issuer's keys %s", problem)
		}
		fallthrough
	case location == "":
		r.load = newIssuer(o, accepted).load
	default:
		file := &keyFile{name: location, accepted: accepted}
		r.load, r.every, r.minInterval, r.isFile = file.load, checkFileEvery, checkFileEvery, true
		set, err := r.attempt(r.ctx, nil)
		if err != nil {
			f := fault.New(fault.BadRequest, "the file of the issuer's keys cannot be used: %s. It must be a JSON Web Key Set with public keys", err)
			f.Err = err
			return nil, f
		}
		r.keys, r.endedAt = set, time.Now()
		r.changes.Add(1)
	}
	return r, nil
}

// prefetch starts the first load unless keys are loaded.
func (r *keyring) prefetch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil {
		r.start(0)
	}
}

// current returns the loaded keys; nil: none are loaded, or they are too old. It starts a load if one is due, and waits for the load of a
// file, so that a key that was just removed from the file is not accepted once more.
func (r *keyring) current() *keySet {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start(r.pause())
	if r.isFile && r.running != nil {
		r.awaitFile()
	}
	if r.running != nil && time.Since(r.endedAt) >= tooOld {
		return nil
	}
	return r.keys
}

// awaitFile waits for the running load of a file, for refreshTimeout at most. It releases r.mu while waiting.
func (r *keyring) awaitFile() {
	running, left := r.running, refreshTimeout-time.Since(r.startedAt)
	if left > 0 {
		r.mu.Unlock()
		timer := time.NewTimer(left)
		select {
		case <-running:
		case <-timer.C:
		}
		timer.Stop()
		r.mu.Lock()
	}
	if r.running == running && !r.lateLogged {
		r.lateLogged = true
		r.log.Warn("the file of the keys of the tokens' issuer could not be read in time; tokens signed with a known key are still accepted")
	}
}

// refresh reloads the keys if they are old, or in any case if force is set. It waits for each load of a file, for refreshTimeout at most,
// but not for the fetch of a URL.
func (r *keyring) refresh(force bool) {
	if !force {
		r.current()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isFile && r.running != nil { // the running load may have begun before the file changed
		r.awaitFile()
	}
	r.start(0)
	if r.isFile && r.running != nil {
		r.awaitFile()
	}
}

// await returns the loaded keys. If there are none, or they are too old, it waits for the running load; if that fails, it returns the old
// keys. Errors: unavailable if there are still no keys; timeout or cancelled if ctx ends first.
func (r *keyring) await(ctx context.Context) (*keySet, error) {
	if set := r.current(); set != nil {
		return set, nil
	}
	if err := r.wait(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil {
		return nil, unavailable(r.err)
	}
	return r.keys, nil
}

// newer returns the keys that have replaced old, if there are any. Otherwise it loads the keys again, unless the last load was too recent,
// and returns old if they have not changed. Errors: unavailable if the last load failed; timeout or cancelled if ctx ends first.
func (r *keyring) newer(ctx context.Context, old *keySet) (*keySet, error) {
	r.mu.Lock()
	if r.keys != old {
		defer r.mu.Unlock()
		return r.keys, nil
	}
	r.start(r.minInterval)
	r.mu.Unlock()
	if err := r.wait(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, unavailable(r.err)
	}
	return r.keys, nil
}

// pause returns the time from the last load until the keys are loaded again when they are used. It is shorter after a failure.
func (r *keyring) pause() time.Duration {
	if r.failed == 0 {
		return r.every
	}
	return min(time.Second<<min(r.failed-1, 10), r.minInterval)
}

// start starts a load, unless one is running, the last one ended less than pause ago, or the key ring is closed. The caller holds r.mu.
func (r *keyring) start(pause time.Duration) {
	if r.running != nil || r.ctx.Err() != nil || !r.endedAt.IsZero() && time.Since(r.endedAt) < pause {
		return
	}
	done, have := make(chan struct{}), r.keys
	r.running, r.startedAt = done, time.Now()
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(r.ctx, fetchTimeout)
		defer cancel()
		set, err := r.attempt(ctx, have)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running = nil
		r.finish(set, err)
	}()
}

// attempt loads the keys. A panic counts as a failed load and does not end the process.
func (r *keyring) attempt(ctx context.Context, have *keySet) (set *keySet, err error) {
	defer func() {
		if v := recover(); v != nil {
			set, err = nil, &panicError{fmt.Sprint(v), string(debug.Stack())}
		}
	}()
	return r.load(ctx, have)
}

// panicError is the error of a load that panicked.
type panicError struct{ value, stack string }

// Error implements error.
func (d *panicError) Error() string { return "a defect of onecall stopped the reading of the keys" }

// finish records the result of a load. The caller holds r.mu.
func (r *keyring) finish(set *keySet, err error) {
	r.endedAt, r.err, r.lateLogged = time.Now(), err, false
	switch {
	case r.ctx.Err() != nil:
		r.err = errors.New("the table of tokens is closed")
	case err != nil:
		if r.failed++; r.failed == 1 {
			r.logFailure(err)
		}
	default:
		switch {
		case len(set.keys) == 0 && set != r.keys:
			r.log.Warn("the tokens' issuer no longer has keys: none of its tokens is accepted")
		case r.failed > 0 || set != r.keys:
			r.log.Info("the keys of the tokens' issuer were read", "keys", len(set.keys), "left_out", set.leftOut())
		}
		if set != r.keys {
			r.changes.Add(1)
		}
		r.keys, r.failed = set, 0
	}
}

// logFailure logs a failed load. The caller holds r.mu.
func (r *keyring) logFailure(err error) {
	what, level := "the keys of the tokens' issuer could not be read; tokens signed with a known key are still accepted", slog.LevelWarn
	if r.keys == nil {
		what, level = "the keys of the tokens' issuer could not be read: none of its tokens can be checked", slog.LevelError
	}
	more := []any{"error", err}
	if d := new(panicError); errors.As(err, &d) {
		level, more = slog.LevelError, append(more, "panic", d.value, "stack", d.stack)
	}
	r.log.Log(context.Background(), level, what, more...)
}

// wait waits for the running load, if any.
func (r *keyring) wait(ctx context.Context) error {
	r.mu.Lock()
	running := r.running
	r.mu.Unlock()
	if running == nil {
		return nil
	}
	select {
	case <-running:
		return nil
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &fault.Error{Code: fault.Timeout, Message: "the keys of the token's issuer were not fetched in time", Err: ctx.Err()}
	}
	return &fault.Error{Code: fault.Cancelled, Err: ctx.Err(),
		Message: "the request ended while the keys of the token's issuer were being fetched"}
}

// close cancels the running load and waits for its end.
func (r *keyring) close() {
	r.cancel()
	_ = r.wait(context.Background())
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = errors.New("the table of tokens is closed")
	}
}
