package mcp

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// stream is a request that is cut when its caller has other rights: one that stays open, in which a client is told what happens
// outside its calls, and a call that runs.
type stream struct {
	*visitor
	cancel context.CancelFunc
}

// cuttable has a request cut when its caller has other rights, until the function that it returns is called.
func (s *Server) cuttable(one *stream) (end func()) {
	s.mu.Lock()
	s.streams[one] = true
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		delete(s.streams, one)
		s.mu.Unlock()
	}
}

// permitted gives the context of a call, which ends when its caller has other rights. It may outlast its token: who was let in may
// end what it has begun, and how long that takes is bounded elsewhere.
func (s *Server) permitted(ctx context.Context, v *visitor) (permitted context.Context, end func()) {
	permitted, cancel := context.WithCancelCause(ctx)
	forget := s.cuttable(&stream{v, func() { cancel(fault.New(fault.Cancelled, "your rights are not what they were")) }})
	return permitted, func() {
		forget()
		cancel(nil)
	}
}

// serve answers a request. One that stays open does not outlive the rights of its caller.
func (s *Server) serve(next http.Handler, w http.ResponseWriter, r *http.Request, m *message) {
	if !m.lasts {
		next.ServeHTTP(w, r)
		return
	}
	v, _ := r.Context().Value(visitorKey{}).(*visitor)
	ctx, cancel := context.WithCancel(r.Context())
	if !v.Expires.IsZero() {
		ctx, cancel = context.WithDeadline(r.Context(), v.Expires)
	}
	defer cancel()
	defer s.cuttable(&stream{v, cancel})()
	if !s.still(ctx, v) { // since it was let in
		s.noSession(w, r)
		return
	}
	next.ServeHTTP(w, r.WithContext(ctx))
}

// cutStreams ends the streams that of accepts.
func (s *Server) cutStreams(of func(*stream) bool) {
	s.mu.Lock()
	var open []*stream
	for one := range s.streams {
		open = append(open, one)
	}
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, one := range open {
		all.Go(func() {
			if of(one) {
				one.cancel()
			}
		})
	}
	all.Wait()
}

// cutRevoked ends the streams and calls of callers who have other rights: at once where that is known, in the background where it
// takes time to find out.
func (s *Server) cutRevoked() {
	now, cancel := context.WithCancel(context.Background())
	cancel() // it is not waited for anybody
	if s.cutUnlessHeld(now) {
		return
	}
	s.watching.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), lookTime)
		defer cancel()
		go func() {
			select {
			case <-s.done:
				cancel()
			case <-ctx.Done():
			}
		}()
		s.cutUnlessHeld(ctx)
	})
}

// cutUnlessHeld tells whether it is known of all callers whether they have other rights, and ends the streams and calls of those who
// have.
func (s *Server) cutUnlessHeld(ctx context.Context) bool {
	var unsure atomic.Bool
	s.cutStreams(func(open *stream) bool {
		held, sure := s.holds(ctx, open.visitor)
		if !sure {
			unsure.Store(true)
		}
		return !held
	})
	return !unsure.Load()
}

// watchEvery is how often it is looked whether the keys are others by which the callers of running calls were let in.
const watchEvery = time.Second

// watchKeys ends the streams and calls of callers whose keys are taken back. Who comes has the keys looked at by itself: it is looked
// only while something is open.
func (s *Server) watchKeys() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var door *Door
	var keys uint64 // of the door, when it was looked last
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
		}
		d := s.door.Load()
		if d.keyed == nil || !s.anyOpen() {
			continue
		}
		d.keyed.Look(false)
		if now := d.keys(); d != door || now != keys {
			door, keys = d, now
			s.cutRevoked()
		}
	}
}

// anyOpen tells whether there is something that ends with its caller's rights.
func (s *Server) anyOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams) > 0
}
