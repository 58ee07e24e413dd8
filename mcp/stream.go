package mcp

import (
	"context"
	"net/http"
	"sync"

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

// permitted gives the context of a call, which ends when its caller has other rights.
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
