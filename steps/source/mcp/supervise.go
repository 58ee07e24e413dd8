package mcp

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// The back-off between starts that fail: from the first wait, doubled up to the longest; the longest at once where only
// a login helps. After a session of healthyAfter it begins anew. A call may hurry a start, but not more often than each
// hurryAfter.
const (
	firstWait, longestWait = 500 * time.Millisecond, time.Minute
	healthyAfter           = time.Minute
	hurryAfter             = time.Second
)

// relistPause is how long the list is left alone after it was read: a server that changes it all the time is not asked
// all the time.
const relistPause = 250 * time.Millisecond

// supervise keeps the server going until the source is closed. idle: its tools are known, and it is not started before
// it is called.
func (s *Source) supervise(idle bool) {
	if idle {
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		}
		s.setStatus(steps.Status{State: steps.StateStarting})
	}
	failures, legacy := 0, false
	for s.ctx.Err() == nil {
		n, tools, f, silent := s.start(legacy)
		if f != nil {
			legacy = legacy != silent // a server that says nothing may know the older greeting only, or the newer
			failures++
			s.failed(f)
			s.rest(f, failures)
			continue
		}
		begun := time.Now()
		if s.attend(n, tools); s.ctx.Err() != nil {
			return
		}
		if time.Since(begun) >= healthyAfter {
			failures = 0
		}
		failures++
		s.rest(n.lost(), failures)
	}
}

// failed tells those who wait for a session that a start came to nothing.
func (s *Source) failed(f *fault.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts++
	s.failure = f
	s.move()
}

// rest waits before the next start: for its time, or for a call. What only a change of the configuration or of the
// machine can mend waits for a call alone.
func (s *Source) rest(f *fault.Error, failures int) {
	wait := backoff(failures)
	status := steps.Status{State: steps.StateRetrying, Error: f}
	var due <-chan time.Time
	switch f.Code {
	case fault.BadRequest, fault.NotSupported:
		status.State = steps.StateFailed
	case fault.Denied:
		wait = longestWait
		fallthrough
	default:
		status.Retry = time.Now().Add(wait)
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	s.setStatus(status)
	hurry := time.NewTimer(min(wait, hurryAfter))
	defer hurry.Stop()
	select {
	case <-s.ctx.Done():
		return
	case <-hurry.C:
	}
	select {
	case <-s.ctx.Done():
	case <-due:
	case <-s.wake:
	}
}

// backoff is the wait after so many failures in a row, a fifth more or less.
func backoff(failures int) time.Duration {
	wait := longestWait
	if failures < 8 {
		wait = min(firstWait<<(failures-1), longestWait)
	}
	return time.Duration(float64(wait) * (0.8 + 0.4*rand.Float64()))
}

// attend offers a session until it ends, and leaves nothing of it.
func (s *Source) attend(n *session, tools []tool) {
	n.offered = true
	s.take(n, tools)
	defer n.close()
	defer s.drop(n)
	relist := s.relist
	pause := time.NewTimer(relistPause)
	defer pause.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-n.ctx.Done():
			return
		case <-n.suspect:
			if s.dropIf(n, func() bool { return n.calls == 0 }) {
				return
			}
		case <-relist:
			relist = nil
			s.listAgain(n)
			pause.Reset(relistPause)
		case <-pause.C:
			relist = s.relist
		}
	}
}

// take makes a session the one that calls use.
func (s *Source) take(n *session, tools []tool) {
	select {
	case <-s.wake: // it is there
	default:
	}
	functions := s.functionsOf(tools)
	s.mu.Lock()
	s.session, s.failure = n, nil
	s.offered = n.client.InitializeResult().Capabilities
	s.tools, s.functions = tools, functions
	s.status = steps.Status{State: steps.StateReady, Version: n.version()}
	s.move()
	s.mu.Unlock()
	if f := s.takeStray(); f != nil {
		s.warn(f)
	}
	s.changed()
	s.writeCache(tools, n.version(), n.client.InitializeResult().Capabilities)
}

// drop takes a session away from the calls to come.
func (s *Source) drop(n *session) { s.dropIf(n, func() bool { return true }) }

func (s *Source) dropIf(n *session, unused func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !unused() {
		return false
	}
	if s.session == n {
		s.session = nil
		s.move()
	}
	return true
}

// listAgain reads the list of tools anew. If that fails, the old list stands.
func (s *Source) listAgain(n *session) {
	ctx, cancel := context.WithTimeout(n.ctx, s.options.StartTimeout)
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	tools, f := n.list(ctx)
	if f != nil {
		if n.ctx.Err() == nil && s.ctx.Err() == nil {
			s.warn(f)
		}
		return
	}
	s.mu.Lock()
	same := sameTools(s.tools, tools)
	s.mu.Unlock()
	if same {
		return
	}
	functions := s.functionsOf(tools)
	s.mu.Lock()
	s.tools, s.functions = tools, functions
	s.mu.Unlock()
	s.changed()
	s.writeCache(tools, n.version(), n.client.InitializeResult().Capabilities)
}
