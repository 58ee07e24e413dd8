package mcp

import (
	"context"
	"net/http"

	"github.com/onecall-mcp/onecall/rights"
)

// stream is a request that stays open: what a client is told outside its calls.
type stream struct {
	caller *rights.Caller
	token  string
	cancel context.CancelFunc
}

// serve answers a request. One that stays open does not outlive the rights of its caller.
func (s *Server) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Header.Get("Mcp-Method") != "subscriptions/listen" {
		next.ServeHTTP(w, r)
		return
	}
	caller := s.callerIn(r.Context())
	ctx, cancel := context.WithCancel(r.Context())
	if !caller.Expires.IsZero() {
		ctx, cancel = context.WithDeadline(r.Context(), caller.Expires)
	}
	defer cancel()
	open := &stream{caller, bearer(r), cancel}
	s.mu.Lock()
	s.streams[open] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.streams, open)
		s.mu.Unlock()
	}()
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
	for _, one := range open {
		if of(one) {
			one.cancel()
		}
	}
}
