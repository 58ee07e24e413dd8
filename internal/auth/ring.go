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

// When keys of an issuer are fetched.
const (
	// fetchEvery is how old keys are when they are fetched again in the background: so long a key that the issuer has taken
	// back may still be accepted.
	fetchEvery = 5 * time.Minute
	// fetchApart is the least between two fetches: whoever sends tokens signed with keys that do not exist does not make
	// onecall ask its issuer more often, and a new key is known at the latest so long after its first token.
	fetchApart = 10 * time.Second
	// fetchTime bounds all of one attempt, metadata included.
	fetchTime = 10 * time.Second
	// lookTime is how long who comes waits for a look at a file of keys: a file system that hangs holds up nobody for longer.
	lookTime = time.Second
	// tooOld is how long ago the last attempt may be when keys are used before the next has ended.
	tooOld = time.Hour
)

// ring holds the issuer's keys, and loads them again when they are used: when they have become old, and at once when a token
// was signed with a key that is not there. Keys behind a URL that have become old are fetched in the background; a file is
// looked at before its keys are used. At most one load runs at a time. Keys that are there stay until others are, or the issuer
// has none any more: one that cannot be reached does not lock out those whose tokens are signed with a known key.
type ring struct {
	load         func(ctx context.Context, have *keySet) (*keySet, error) // gives have itself where nothing is new
	every, apart time.Duration
	prompt       bool // a load takes no time: it is waited for
	log          *slog.Logger
	changes      atomic.Uint64 // how often the keys were others than before, the first included

	ctx    context.Context // of loads; ends with close
	cancel context.CancelFunc

	mu      sync.Mutex
	set     *keySet // nil: none yet
	err     error   // of the last load
	failed  int     // loads that have failed since the last that has not
	ended   time.Time
	running chan struct{} // closed at the end of the load that runs; nil: none does
	begun   time.Time     // when that one began
	late    bool          // that it takes long was told
}

// Keys are the keys of one issuer, which tables may share: one that accepts other scopes or another audience of the same issuer
// needs no other keys.
type Keys struct{ ring *ring }

// OpenKeys opens the keys that o.JWT names by its Issuer and Keys, as New does. The caller closes them after the tables that use
// them. The error is a bad_request, At "/jwt/keys".
func OpenKeys(o *Options) (*Keys, error) {
	r, f := newRing(o, algorithms)
	if f != nil {
		return nil, f.Under("/jwt/keys")
	}
	return &Keys{r}, nil
}

// Close implements io.Closer: it ends fetches that are under way.
func (k *Keys) Close() error {
	k.ring.close()
	return nil
}

// newRing makes the ring of an issuer; its fault is that of /jwt/keys. A file is read now, a URL is not.
func newRing(o *Options, accepted []jose.SignatureAlgorithm) (*ring, *fault.Error) {
	r := &ring{every: fetchEvery, apart: fetchApart, log: o.Log}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	switch where := o.JWT.Keys; {
	case strings.Contains(where, "://"):
		if problem := checkURL(where); problem != "" {
			return nil, fault.New(fault.BadRequest, "the address of the issuer's keys %s", problem)
		}
		fallthrough
	case where == "":
		r.load = newIssuer(o, accepted).load
	default:
		file := &keyFile{name: where, accepted: accepted}
		r.load, r.every, r.apart, r.prompt = file.load, checkFileEvery, checkFileEvery, true
		set, err := r.attempt(r.ctx, nil)
		if err != nil {
			f := fault.New(fault.BadRequest, "the file of the issuer's keys cannot be used: %s. It must be a JSON Web Key Set with public keys", err)
			f.Err = err
			return nil, f
		}
		r.set, r.ended = set, time.Now()
		r.changes.Add(1)
	}
	return r, nil
}

// prefetch begins the first load.
func (r *ring) prefetch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.set == nil {
		r.begin(0)
	}
}

// current gives the keys that are there, nil where there are none, or they are too old. It begins a load where that is
// due. That of a file it waits for: a key that was taken out of it is not accepted once more by who comes first.
func (r *ring) current() *keySet {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begin(r.pause())
	if r.prompt && r.running != nil {
		r.see()
	}
	if r.running != nil && time.Since(r.ended) >= tooOld {
		return nil
	}
	return r.set
}

// see waits for the load of a file that runs, until that has taken lookTime. r.mu is held, but not meanwhile.
func (r *ring) see() {
	running, left := r.running, lookTime-time.Since(r.begun)
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
	if r.running == running && !r.late {
		r.late = true
		r.log.Warn("the file of the keys of the tokens' issuer could not be read in time; tokens signed with a known key are still accepted")
	}
}

// look has the keys looked at that have become old, or all the same where that is asked for. It waits for a file.
func (r *ring) look(asked bool) {
	if !asked {
		r.current()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.prompt && r.running != nil { // it may have begun before what is to be seen
		r.see()
	}
	r.begin(0)
	if r.prompt && r.running != nil {
		r.see()
	}
}

// first gives the keys that are there, and waits for them where there are none, or they are too old. Errors: unavailable,
// or that of ctx.
func (r *ring) first(ctx context.Context) (*keySet, error) {
	if set := r.current(); set != nil {
		return set, nil
	}
	if err := r.wait(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.set == nil {
		return nil, unavailable(r.err)
	}
	return r.set, nil
}

// newer gives the keys after a load, unless those that are there are others than the caller has anyway, or the last load
// is not long ago: then those that are there. Errors: unavailable where the last load has failed, or that of ctx.
func (r *ring) newer(ctx context.Context, than *keySet) (*keySet, error) {
	r.mu.Lock()
	if r.set != than {
		defer r.mu.Unlock()
		return r.set, nil
	}
	r.begin(r.apart)
	r.mu.Unlock()
	if err := r.wait(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, unavailable(r.err)
	}
	return r.set, nil
}

// pause is how long after the last load the next begins by itself: a load that has failed is repeated sooner.
func (r *ring) pause() time.Duration {
	if r.failed == 0 {
		return r.every
	}
	return min(time.Second<<min(r.failed-1, 10), r.apart)
}

// begin begins a load, unless one runs, or the last one ended less than pause ago. r.mu is held.
func (r *ring) begin(pause time.Duration) {
	if r.running != nil || r.ctx.Err() != nil || !r.ended.IsZero() && time.Since(r.ended) < pause {
		return
	}
	done, have := make(chan struct{}), r.set
	r.running, r.begun = done, time.Now()
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(r.ctx, fetchTime)
		defer cancel()
		set, err := r.attempt(ctx, have)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running = nil
		r.end(set, err)
	}()
}

// attempt loads the keys. Whatever an issuer writes, others are served on: a panic is a load that has failed.
func (r *ring) attempt(ctx context.Context, have *keySet) (set *keySet, err error) {
	defer func() {
		if v := recover(); v != nil {
			set, err = nil, &defect{fmt.Sprint(v), string(debug.Stack())}
		}
	}()
	return r.load(ctx, have)
}

// defect is a panic of a load.
type defect struct{ value, stack string }

// Error implements error.
func (d *defect) Error() string { return "a defect of onecall stopped the reading of the keys" }

// end takes what a load has given. r.mu is held.
func (r *ring) end(set *keySet, err error) {
	r.ended, r.err, r.late = time.Now(), err, false
	switch {
	case r.ctx.Err() != nil:
		r.err = errors.New("the table of tokens is closed")
	case err != nil:
		if r.failed++; r.failed == 1 {
			r.complain(err)
		}
	default:
		switch {
		case len(set.keys) == 0 && set != r.set:
			r.log.Warn("the tokens' issuer has no keys any more: no token of it is accepted")
		case r.failed > 0 || set != r.set:
			r.log.Info("the keys of the tokens' issuer were read", "keys", len(set.keys), "left_out", set.reason())
		}
		if set != r.set {
			r.changes.Add(1)
		}
		r.set, r.failed = set, 0
	}
}

// complain tells the log that a load has failed. r.mu is held.
func (r *ring) complain(err error) {
	what, level := "the keys of the tokens' issuer could not be read; tokens signed with a known key are still accepted", slog.LevelWarn
	if r.set == nil {
		what, level = "the keys of the tokens' issuer could not be read: no token of it can be checked", slog.LevelError
	}
	more := []any{"error", err}
	if d := new(defect); errors.As(err, &d) {
		level, more = slog.LevelError, append(more, "panic", d.value, "stack", d.stack)
	}
	r.log.Log(context.Background(), level, what, more...)
}

// wait waits for the load that runs, if one does.
func (r *ring) wait(ctx context.Context) error {
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
		return &fault.Error{Code: fault.Timeout, Message: "the keys of the token's issuer did not come in time", Err: ctx.Err()}
	}
	return &fault.Error{Code: fault.Cancelled, Message: "the request ended while the keys of the token's issuer were fetched", Err: ctx.Err()}
}

// close ends the load that runs, and waits for its end.
func (r *ring) close() {
	r.cancel()
	_ = r.wait(context.Background())
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = errors.New("the table of tokens is closed")
	}
}
