package mcp

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/rights"
	"github.com/onecall-mcp/onecall/steps"
)

type sharedKey struct{}

// replicated serves a client whose session replicas share: what is kept of it is asked for at each of its requests, and
// another replica may serve the next one. What only saves words, such as which functions the client was told of, each
// replica keeps for itself.
func (s *Server) replicated(next http.Handler, w http.ResponseWriter, r *http.Request, m *message) {
	ctx, caller, shared := r.Context(), s.callerIn(r.Context()), s.o().Shared
	id := r.Header.Get(sessionHeader)
	begins := r.Method == http.MethodPost && m.begins()
	var state steps.SessionState
	var err error
	switch {
	case begins:
		v := visitorFor(ctx, nil)
		if wait := s.take(ctx, "initialize", caller); wait > 0 { // before there is a session of it
			v.attended.Store(true)
			s.turnAway(w, wait)
			return
		}
		v.counted = true
		if id, err = shared.Begin(ctx, caller.ID, s.sessionsEach(), s.o().MaxSessions); err == nil {
			if state, err = shared.Session(ctx, id, caller.ID); err == nil {
				w.Header().Set(sessionHeader, id)
			}
		}
	case id == "":
		http.Error(w, "the header "+sessionHeader+" is missing: begin with initialize", http.StatusBadRequest)
		return
	case r.Method == http.MethodDelete:
		if _, err = shared.Session(ctx, id, caller.ID); err == nil {
			err = shared.End(ctx, id, caller.ID)
		}
	default:
		state, err = shared.Session(ctx, id, caller.ID)
	}
	if err != nil {
		s.sessionFailed(w, r, err)
		return
	}
	if r.Method == http.MethodDelete {
		s.forget(id)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	n := s.here(id, caller, state)
	defer n.note(-1)
	defer s.prolong(n)()
	s.serve(next, w, r.WithContext(context.WithValue(ctx, sharedKey{}, n)), m)
}

// prolong has a session live on while a request of it runs. What it gives ends that.
func (s *Server) prolong(n *session) (stop func()) {
	o := s.o()
	often := min(o.SessionTimeout/4, abandonedAfter/3) // it must not look abandoned either
	var timer *time.Timer
	var mu sync.Mutex
	ended := false
	again := func() {
		// Where it cannot be prolonged now, it may be the next time.
		_, _ = o.Shared.Session(n.ctx, n.id, n.caller.ID)
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			timer.Reset(often)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(often, again)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
		timer.Stop()
	}
}

// sessionFailed answers where a session cannot be had.
func (s *Server) sessionFailed(w http.ResponseWriter, r *http.Request, err error) {
	switch f, _ := fault.As(err); {
	case f == nil:
		s.o().Log.Error("a session cannot be had", "error", err)
		http.Error(w, "a defect of onecall stopped this request", http.StatusInternalServerError)
	case f.Code == fault.TokenExpired:
		s.noSession(w, r)
	case f.Code == fault.Busy:
		s.fullUp(w, r, "too many sessions: end one, or come again later")
	default:
		level := slog.LevelDebug
		if f.Code != fault.Cancelled && s.causes.due(occasion{of: ofSessions}) { // else by a client that did not wait
			level = slog.LevelWarn
		}
		said := []any{"error", err, "caller", s.callerIn(r.Context()).ID}
		if f.Err != nil {
			said = append(said, "cause", f.Err)
		}
		s.o().Log.Log(context.Background(), level, "sessions cannot be had", said...)
		w.Header().Set("Retry-After", "5")
		http.Error(w, "sessions cannot be had now: try again in a few seconds", f.Code.HTTP())
	}
}

// here is what this replica keeps of a session, in which a request of it is noted, whatever surface and rights that has. Where
// it keeps too much, what was not used for longest goes.
func (s *Server) here(id string, caller *rights.Caller, state steps.SessionState) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.ids[id]
	if n == nil {
		if len(s.ids) >= s.o().MaxSessions {
			s.forgetOldest()
		}
		n = newSession(id, caller, state)
		s.ids[id] = n
	}
	n.note(1) // before anybody can find it idle
	return n
}

// forgetOldest makes room for what is kept of one more session. The caller holds the lock.
func (s *Server) forgetOldest() {
	var oldest *session
	at := time.Now()
	for _, one := range s.ids {
		if since, idle := one.idle(); idle && one.sdk == nil && since.Before(at) {
			oldest, at = one, since
		}
	}
	if oldest != nil {
		delete(s.ids, oldest.id)
		s.watching.Go(func() { s.settleUp(oldest) })
	}
}

// settleUp adds the tokens that could not be shared before to those of a session that is let go of.
func (s *Server) settleUp(n *session) {
	owed := n.spent.settle()
	if owed == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	_, err := n.kept.Shared().Add(ctx, sharedTokens, int64(owed))
	if err != nil && fault.CodeOf(err) != fault.TokenExpired { // which has ended
		s.o().Log.Error(notAdded, "tokens", owed, "error", err)
	}
}

// forget lets go of what is kept of a session that has ended.
func (s *Server) forget(id string) {
	s.mu.Lock()
	n := s.ids[id]
	delete(s.ids, id)
	s.mu.Unlock()
	if n != nil {
		n.cut(sessionEnded())
	}
}
