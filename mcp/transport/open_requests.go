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

// openRequest is a request that ends when its caller's rights change: a stream, or a request that is being answered.
type openRequest struct {
	*identity
	cancel context.CancelCauseFunc
}

// errRevoked marks the cause of requests that end because their caller's rights have changed.
var errRevoked = errors.New("revoked")

// revoked is the cause with which such a request ends.
func revoked() *fault.Error {
	f := fault.New(fault.Cancelled, "your rights are not what they were")
	f.Err = errRevoked
	return f
}

// endWithRights registers a request, until end is called, as one that ends when its caller's rights change. Then it checks once that
// they have not changed since the caller was identified. A request may outlast its token: a caller may finish what it has begun,
// and how long that takes is bounded elsewhere.
func (s *Server) endWithRights(ctx context.Context, from *identity) (_ context.Context, end func(), refused error) {
	ctx, cancel := context.WithCancelCause(ctx)
	one := &openRequest{from, cancel}
	s.mu.Lock()
	s.open[one] = true
	s.mu.Unlock()
	end = func() {
		s.mu.Lock()
		delete(s.open, one)
		s.mu.Unlock()
		cancel(nil)
	}
	has := !from.expired()
	if has {
		has, _ = s.permitted(ctx, from)
	}
	if !has {
		refused = errRightsChanged
	}
	return ctx, end, refused
}

// errRightsChanged answers a message whose sender's rights have changed before anything of it was done.
var errRightsChanged = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "your rights are not what they were: nothing of this was done",
	Data: []byte(`{"code":"` + string(fault.Denied) + `"}`)}

// endRequests ends the open requests for which match reports true.
func (s *Server) endRequests(match func(*openRequest) bool) {
	s.mu.Lock()
	var open []*openRequest
	for one := range s.open {
		open = append(open, one)
	}
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, one := range open {
		all.Go(func() {
			if match(one) {
				one.cancel(revoked())
			}
		})
	}
	all.Wait()
}

// endRevoked ends the requests of callers whose rights have changed: at once if that is known, in the background if it takes
// time to find out.
func (s *Server) endRevoked() {
	now, cancel := context.WithCancel(context.Background())
	cancel() // nobody is waited for
	if s.endUnlessPermitted(now) {
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
		s.endUnlessPermitted(ctx)
	})
}

// endUnlessPermitted ends the requests of callers whose rights have changed, and reports whether that is known of all.
func (s *Server) endUnlessPermitted(ctx context.Context) bool {
	var unsure atomic.Bool
	s.endRequests(func(open *openRequest) bool {
		has, sure := s.permitted(ctx, open.identity)
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
		if a.keyed == nil || !s.anyOpen() {
			continue
		}
		a.keyed.Look(false)
		if now := a.keys(); a != access || now != keys {
			access, keys = a, now
			s.endRevoked()
		}
	}
}

// anyOpen reports whether there is something that ends with its caller's rights.
func (s *Server) anyOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) > 0
}
