package mcp

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// tap stands between the transport and the SDK. It takes the results of calls and lists out of the messages, so that the SDK
// decodes a small stub instead, and passes progress and log messages to their calls. Everything else goes through unchanged.
type tap struct {
	max        int64                           // the maximum bytes of one message
	name       string                          // the source's name, for faults
	warn       func(*fault.Error)              // receives warnings about harmless problems
	stray      func(*fault.Error)              // receives warnings about output on stdout that is not a message
	log        func(level string, data string) // receives log messages outside of calls
	scrub      *scrubber                       // removes secrets from texts
	downstream *downstream                     // receives the server's requests and notifications; nil: no client
	requests   *serverRequests                 // answers the server's requests, or passes them to the client
	token      atomic.Int64                    // the last progress token
	greeted    atomic.Bool                     // the greeting is over
	seq        atomic.Int64                    // the last number of a request; ids of requests made without the SDK come from it too

	mu        sync.Mutex
	pending   map[int64]*pendingRequest // the pending requests by id
	progress  map[int64]*pendingRequest // the pending requests by progress token
	abandoned map[int64]time.Time       // if clients share the connection: until when the server may still work on forgotten requests
	ended     bool                      // the connection has ended
	failure   *fault.Error              // why the connection was given up (see giveUp); nil: it was not
}

func newTap(s *Source) *tap {
	return &tap{
		max: s.options.MaxMessageBytes, name: s.options.Name, warn: s.warn, stray: s.reportStray, scrub: s.scrub,
		log: func(level, data string) {
			if s.options.Log != nil {
				s.options.Log(s.scrub.excerpt(level+": "+data, maxLogLine))
			}
		},
		pending: map[int64]*pendingRequest{}, progress: map[int64]*pendingRequest{}, abandoned: map[int64]time.Time{},
	}
}

// register records that the request of ctx is sent with this id. It returns nil if ctx carries no request, or a request that was already
// sent with another id. A request without a stub is returned, but answers are not matched with it.
func (t *tap) register(ctx context.Context, id int64) *pendingRequest {
	pending := pendingOf(ctx)
	if pending == nil || pending.stub == nil {
		return pending
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if pending.id != 0 && pending.id != id {
		return nil
	}
	if pending.id == 0 {
		pending.seq = t.seq.Add(1)
	}
	pending.id = id
	t.pending[id] = pending
	if t.ended && pending.cancel != nil {
		pending.cancel()
	}
	return pending
}

// end cancels the pending requests and all later ones.
func (t *tap) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for _, pending := range t.pending {
		if pending.cancel != nil {
			pending.cancel()
		}
	}
}

// progressToken gives a request a new progress token.
func (t *tap) progressToken(pending *pendingRequest) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	pending.token = t.token.Add(1)
	t.progress[pending.token] = pending
	return pending.token
}

// forget removes a request: messages for it are dropped from now on.
func (t *tap) forget(pending *pendingRequest) {
	t.mu.Lock()
	if t.pending[pending.id] == pending {
		delete(t.pending, pending.id)
		if t.downstream != nil && t.downstream.session.downstream.Shared && pending.unanswered() {
			t.stillAbandoned()
			t.abandoned[pending.id] = time.Now().Add(abandonedFor)
		}
	}
	delete(t.progress, pending.token)
	if pending.notifications != nil {
		close(pending.notifications)
		pending.notifications = nil
	}
	if pending.cancelCtx != nil {
		pending.cancelCtx()
	}
	last := t.downstream != nil && t.latest() == nil
	t.mu.Unlock()
	if last {
		t.requests.cancelGuessed()
	}
}

// latest returns the newest pending request of the client; nil: none. The caller holds t.mu.
func (t *tap) latest() (last *pendingRequest) {
	for _, pending := range t.pending {
		if pending.ctx != nil && (last == nil || pending.seq > last.seq) {
			last = pending
		}
	}
	return last
}

// only returns the only call that the server can mean: the pending one, unless an earlier one may still be at work; nil: there is none.
// The caller holds t.mu.
func (t *tap) only() *pendingRequest {
	if len(t.pending) > 1 || t.stillAbandoned() {
		return nil
	}
	return t.latest()
}

// abandonedFor is how long a server may still work on a request, and ask a client for it, after it was told that the request is cancelled.
// It has to stop, and not to answer (MCP 2025-11-25, "Cancellation"), so that an answer may never come.
const abandonedFor = time.Minute

// stillAbandoned reports whether the server may still work on a forgotten request. The caller holds t.mu.
func (t *tap) stillAbandoned() bool {
	now := time.Now()
	maps.DeleteFunc(t.abandoned, func(_ int64, until time.Time) bool { return !now.Before(until) })
	return len(t.abandoned) > 0
}

// idOf returns the id of a sent request; 0: not sent.
func (t *tap) idOf(pending *pendingRequest) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return pending.id
}

// find returns the pending request with this id; nil: none.
func (t *tap) find(id int64) *pendingRequest {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pending[id]
}

// giveUp records why the connection is given up, because the SDK does not report the reason.
func (t *tap) giveUp(f *fault.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failure = f
}

// givenUp returns why the connection was given up; nil: it was not.
func (t *tap) givenUp() *fault.Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failure
}
