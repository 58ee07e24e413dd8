package mcp

import (
	"context"
	"net/http"
	"sync"
)

// stream is a request that stays open: what a client is told outside its calls.
type stream struct {
	*visitor
	cancel context.CancelFunc
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
	open := &stream{v, cancel}
	s.mu.Lock()
	s.streams[open] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.streams, open)
		s.mu.Unlock()
	}()
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
