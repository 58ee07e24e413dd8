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

// openRequest is a stream or a running request, which ends when its caller's rights change.
type openRequest struct {
	*identity
	cancel context.CancelCauseFunc
}

// errRevoked marks the cause of requests that were ended by a change of rights.
var errRevoked = errors.New("revoked")

// revoked returns the cause for ending a request whose caller's rights have changed.
func revoked() *fault.Error {
	f := fault.New(fault.Cancelled, "your rights have changed")
	f.Err = errRevoked
	return f
}

// endWithRights returns a context that ends when the rights of a request's caller change. It also checks these rights now: refused is not
// nil if they have changed, or if the token has expired. The caller must call end, even then.
//
// A request may outlast its token: a caller may finish what it has begun, and other limits bound how long that takes.
func (s *Server) endWithRights(ctx context.Context, from *identity) (_ context.Context, end func(), refused error) {
	ctx, cancel := context.WithCancelCause(ctx)
	open := &openRequest{from, cancel}
	s.mu.Lock()
	s.open[open] = true
	s.mu.Unlock()
	end = func() {
		s.mu.Lock()
		delete(s.open, open)
		s.mu.Unlock()
		cancel(nil)
	}
	permitted := !from.expired()
	if permitted {
		permitted, _ = s.permitted(ctx, from)
	}
	if !permitted {
		refused = errRightsChanged
	}
	return ctx, end, refused
}

// errRightsChanged answers a message whose sender's rights changed before it was handled.
var errRightsChanged = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "your rights have changed: " +
	"nothing of this was done",
	Data: []byte(`{"code":"` + string(fault.Denied) + `"}`)}

// endRequests ends the open requests that match selects.
func (s *Server) endRequests(match func(*openRequest) bool) {
	s.mu.Lock()
	var open []*openRequest
	for request := range s.open {
		open = append(open, request)
	}
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, request := range open {
		all.Go(func() {
			if match(request) {
				request.cancel(revoked())
			}
		})
	}
	all.Wait()
}

// endRevoked ends the requests of callers whose rights have changed: at once if that is known, else in the background, after it was
// looked up.
func (s *Server) endRevoked() {
	now, cancel := context.WithCancel(context.Background())
	cancel() // check only what is known without waiting
	if s.endUnlessPermitted(now) {
		return
	}
	s.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), recheckTimeout)
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

// endUnlessPermitted ends the requests of callers whose rights have changed, and reports whether it could check all of them.
func (s *Server) endUnlessPermitted(ctx context.Context) bool {
	var unchecked atomic.Bool
	s.endRequests(func(open *openRequest) bool {
		permitted, checked := s.permitted(ctx, open.identity)
		if !checked {
			unchecked.Store(true)
		}
		return !permitted
	})
	return !unchecked.Load()
}

// watchInterval is how often the keys are refreshed while requests are open.
const watchInterval = time.Second

// watchKeys ends the requests of callers whose keys are revoked. It polls the keys only while requests are open: every new
// request checks them anyway.
func (s *Server) watchKeys() {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	var access *Access
	var keys uint64 // the version of the keys at the last check
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
		}
		a := s.access.Load()
		if a.revocable == nil || !s.anyOpen() {
			continue
		}
		a.revocable.RefreshKeys(false)
		if now := a.keysVersion(); a != access || now != keys {
			access, keys = a, now
			s.endRevoked()
		}
	}
}

// anyOpen reports whether any request is open.
func (s *Server) anyOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) > 0
}
