package mcp

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Back-off between failed starts. It doubles from firstWait to longestWait; if only a login helps, it is longestWait at once. A
// connection that lasts healthyAfter resets it. A call may start the server earlier, but at most once per hurryAfter.
const (
	firstWait, longestWait = 500 * time.Millisecond, time.Minute
	healthyAfter           = time.Minute
	hurryAfter             = time.Second
)

// relistPause is the minimum time between two reads of the list of tools, because some servers announce changes all the time.
const relistPause = 250 * time.Millisecond

// supervise keeps the server running until the source is closed. idle: the tools are known, so the first call starts the server.
func (s *Source) supervise(idle bool) {
	if idle {
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		case <-s.again:
		}
		s.setStatus(steps.Status{State: steps.StateStarting})
	}
	failures, legacy := 0, false
	for s.ctx.Err() == nil {
		conn, tools, f, silent := s.start(legacy)
		if f != nil {
			legacy = legacy != silent // after silence try the other greeting: the server may know only that
			failures++
			s.recordFailure(f)
			s.awaitRestart(f, failures)
			continue
		}
		begun := time.Now()
		again := s.serve(conn, tools)
		if s.ctx.Err() != nil {
			return
		}
		if again {
			failures = 0
			continue
		}
		if time.Since(begun) >= healthyAfter {
			failures = 0
		}
		failures++
		s.awaitRestart(conn.lost(), failures)
	}
}

// recordFailure records a failed start and wakes the calls that wait for it.
func (s *Source) recordFailure(f *fault.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failedStarts++
	s.failure = f
	s.broadcast()
}

// awaitRestart waits before the next start: for the end of the back-off, for a call, or for Restart. After faults that only a change of
// configuration or installation solves, the back-off has no end.
func (s *Source) awaitRestart(f *fault.Error, failures int) {
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
	case <-s.again:
		s.setRestarting()
		return
	case <-hurry.C:
	}
	select {
	case <-s.ctx.Done():
	case <-due:
	case <-s.wake:
	case <-s.again:
		s.setRestarting()
	}
}

// setRestarting shows that the server is started again because someone asked for it. It is not starting: calls wait for it, and its
// functions stay, as after a crash.
func (s *Source) setRestarting() {
	s.setStatus(steps.Status{State: steps.StateRetrying, Error: s.unavailable("it is being restarted"), Retry: time.Now()})
}

// backoff returns the wait after failures in a row, with 20 % jitter.
func backoff(failures int) time.Duration {
	wait := longestWait
	if failures < 8 { // from the eighth on, the wait would exceed longestWait
		wait = min(firstWait<<(failures-1), longestWait)
	}
	return time.Duration(float64(wait) * (0.8 + 0.4*rand.Float64()))
}

// serve offers a connection to calls until it ends, and then closes it. It reports whether that was because of Restart.
func (s *Source) serve(conn *connection, tools []tool) (again bool) {
	conn.serving = true
	s.publish(conn, tools)
	defer conn.close()
	defer s.drop(conn)
	relist := s.relist
	pause := time.NewTimer(relistPause)
	defer pause.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return false
		case <-s.again:
			s.setRestarting()
			return true
		case <-conn.ctx.Done():
			return false
		case <-conn.expired:
			if s.dropIf(conn, func() bool { return conn.calls == 0 }) {
				return false
			}
		case <-relist:
			relist = nil
			s.relistTools(conn)
			pause.Reset(relistPause)
		case <-pause.C:
			relist = s.relist
		}
	}
}

// publish makes a connection and its tools available to calls.
func (s *Source) publish(conn *connection, tools []tool) {
	for _, asked := range []chan struct{}{s.wake, s.again} { // who asked for a connection gets this one
		select {
		case <-asked:
		default:
		}
	}
	capabilities := conn.client.InitializeResult().Capabilities
	functions := s.functionsOf(tools, capabilities)
	s.mu.Lock()
	s.conn, s.failure = conn, nil
	s.listed, s.listFailure = conn.announced, nil
	s.capabilities = capabilities
	s.tools, s.functions = tools, functions
	s.status = steps.Status{State: steps.StateReady, Version: conn.version()}
	s.broadcast()
	s.mu.Unlock()
	if f := s.takeStray(); f != nil {
		s.warn(f)
	}
	s.changed()
	s.writeCache(tools, conn.version(), capabilities)
}

// drop hides a connection from later calls.
func (s *Source) drop(conn *connection) { s.dropIf(conn, func() bool { return true }) }

// dropIf hides a connection from later calls if unused returns true. It returns what unused returns, which is called with s.mu held.
func (s *Source) dropIf(conn *connection, unused func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !unused() {
		return false
	}
	if s.conn == conn {
		s.conn = nil
		s.broadcast()
	}
	return true
}

// relistTools reads the list of tools again. If that fails, the old list stays.
func (s *Source) relistTools(conn *connection) {
	ctx, cancel := context.WithTimeout(conn.ctx, s.options.StartTimeout)
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	s.mu.Lock()
	conn.calls++
	announced := s.announced
	s.listFailure = nil
	s.mu.Unlock()
	tools, f := conn.list(ctx)
	s.release(conn)
	if f != nil {
		s.listEnded(announced, f)
		if conn.ctx.Err() == nil && s.ctx.Err() == nil {
			s.warn(f)
		}
		return
	}
	s.mu.Lock()
	same := sameTools(s.tools, tools)
	s.mu.Unlock()
	if same {
		s.listEnded(announced, nil)
		return
	}
	capabilities := conn.client.InitializeResult().Capabilities
	functions := s.functionsOf(tools, capabilities)
	s.mu.Lock()
	s.tools, s.functions = tools, functions
	s.mu.Unlock()
	s.listEnded(announced, nil)
	s.changed()
	s.writeCache(tools, conn.version(), capabilities)
}
