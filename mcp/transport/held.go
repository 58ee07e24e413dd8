package transport

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/onecall-mcp/onecall/fault"
)

// held is a request that ends when its caller's rights change: one that stays open, in which a client is told what happens
// outside its calls, and one that is being answered.
type held struct {
	*identity
	cancel context.CancelCauseFunc
}

// errRevoked marks why a request ends whose caller's rights have changed.
var errRevoked = errors.New("revoked")

// revoked is why such a request ends.
func revoked() *fault.Error {
	f := fault.New(fault.Cancelled, "your rights are not what they were")
	f.Err = errRevoked
	return f
}

// hold registers a request among those that end when their caller's rights change, until end is called, and then checks once
// that they have not changed since it was identified. A request may outlast its token: who was let in may end what it has begun,
// and how long that takes is bounded elsewhere.
func (s *Server) hold(ctx context.Context, from *identity) (_ context.Context, end func(), refused error) {
	ctx, cancel := context.WithCancelCause(ctx)
	one := &held{from, cancel}
	s.mu.Lock()
	s.held[one] = true
	s.mu.Unlock()
	end = func() {
		s.mu.Lock()
		delete(s.held, one)
		s.mu.Unlock()
		cancel(nil)
	}
	has := !from.expired()
	if has {
		has, _ = s.holds(ctx, from)
	}
	if !has {
		refused = errUndone
	}
	return ctx, end, refused
}

// errUndone answers a message whose sender's rights have changed before anything of it was done.
var errUndone = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "your rights are not what they were: nothing of this was done",
	Data: []byte(`{"code":"` + string(fault.Denied) + `"}`)}

// cutHeld ends the requests that of accepts.
func (s *Server) cutHeld(of func(*held) bool) {
	s.mu.Lock()
	var open []*held
	for one := range s.held {
		open = append(open, one)
	}
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, one := range open {
		all.Go(func() {
			if of(one) {
				one.cancel(revoked())
			}
		})
	}
	all.Wait()
}

// cutRevoked ends the requests of callers whose rights have changed: at once if that is known, in the background if it takes
// time to find out.
func (s *Server) cutRevoked() {
	now, cancel := context.WithCancel(context.Background())
	cancel() // nobody is waited for
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

// cutUnlessHeld ends the requests of callers whose rights have changed, and reports whether that is known of all.
func (s *Server) cutUnlessHeld(ctx context.Context) bool {
	var unsure atomic.Bool
	s.cutHeld(func(open *held) bool {
		has, sure := s.holds(ctx, open.identity)
		if !sure {
			unsure.Store(true)
		}
		return !has
	})
	return !unsure.Load()
}

// watchEvery is how often the keys are read again by which the callers of running calls were identified.
const watchEvery = time.Second

// watchKeys ends the requests of callers whose keys are taken back. Each request that comes looks at the keys by itself: they are
// watched only while something is open.
func (s *Server) watchKeys() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var access *Access
	var keys uint64 // when they were read last
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
		}
		a := s.access.Load()
		if a.keyed == nil || !s.anyHeld() {
			continue
		}
		a.keyed.Look(false)
		if now := a.keys(); a != access || now != keys {
			access, keys = a, now
			s.cutRevoked()
		}
	}
}

// anyHeld reports whether there is something that ends with its caller's rights.
func (s *Server) anyHeld() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held) > 0
}
