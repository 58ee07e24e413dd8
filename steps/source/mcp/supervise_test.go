package mcp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// memoryServer is a server behind an HTTP client of the same process, so that tests can run in a synctest bubble and take no time.
type memoryServer struct {
	handler http.Handler

	mu        sync.Mutex
	refusal   error
	hangs     bool
	held      chan struct{} // requests wait until it is closed; nil: they do not
	greetings []time.Time   // when it was greeted
}

// RoundTrip implements http.RoundTripper.
func (m *memoryServer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	m.mu.Lock()
	if gjson.GetBytes(body, "method").Str == "initialize" {
		m.greetings = append(m.greetings, time.Now())
	}
	refusal, hangs, held := m.refusal, m.hangs, m.held
	m.mu.Unlock()
	if held != nil {
		<-held
	}
	switch {
	case hangs:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case refusal != nil:
		return nil, refusal
	}
	answer := httptest.NewRecorder()
	m.handler.ServeHTTP(answer, httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), strings.NewReader(string(body))))
	return answer.Result(), nil
}

func (m *memoryServer) set(refusal error, hangs bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusal, m.hangs = refusal, hangs
}

// hold has requests wait until let.
func (m *memoryServer) hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = make(chan struct{})
}

func (m *memoryServer) let() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.held)
	m.held = nil
}

func (m *memoryServer) greeted() []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.greetings)
}

// down is the error of a server that cannot be reached.
var down = &net.OpError{Op: "dial", Err: errors.New("down")}

// inMemory runs a test with a fake clock on a source of a server in memory.
func inMemory(t *testing.T, server *sdk.Server, o mcpsource.Options, test func(t *testing.T, m *memoryServer, s *mcpsource.Source)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		handler := httpServer(server, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
		m := &memoryServer{handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			handler.ServeHTTP(w, r)
		})}
		o.Name, o.URL, o.HTTPClient, o.Protocol = "shelf", "http://shelf.test", &http.Client{Transport: m}, protocol.Stateful
		s, err := mcpsource.New(&o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		synctest.Wait()
		if s.Status().State != steps.StateReady {
			t.Fatalf("got status %+v, want ready", s.Status())
		}
		test(t, m, s)
	})
}

// lose makes the source notice that its server cannot be reached.
func (m *memoryServer) lose(t *testing.T, s *mcpsource.Source) {
	t.Helper()
	m.set(down, false)
	if f := mustFail(t.Context(), t, s, "shelf.put", `{"name":"a"}`, fault.Unavailable); f.Outcome != fault.NotSent {
		t.Errorf("got %+v, want not_sent", f)
	}
	synctest.Wait()
}

func TestBackOff(t *testing.T) {
	t.Parallel()
	inMemory(t, goodServer(nil), mcpsource.Options{}, func(t *testing.T, m *memoryServer, s *mcpsource.Source) {
		lost := time.Now() // the call that notices the loss may itself wait for the first start
		m.lose(t, s)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		starts := m.greeted()[1:]
		if n := len(starts); n < 12 || n > 20 {
			t.Fatalf("got %d starts in ten minutes, want 12 to 20", n)
		}
		for i, start := range starts {
			wait, want := start.Sub(lost), min(time.Second/2<<i, time.Minute)
			requested := i <= 2 && wait >= time.Second // the call above requested the start; it may request two
			if lost = start; wait < want*8/10 && !requested || wait > max(want*12/10, time.Second) {
				t.Errorf("the wait before start %d is %v, want about %v", i, wait, want)
			}
		}
		if status := s.Status(); status.State != steps.StateRetrying || time.Until(status.Retry) > 72*time.Second {
			t.Errorf("got status %+v, want retrying within 72 s", status)
		}
		m.set(nil, false)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s.Status().State != steps.StateReady || len(s.Functions()) == 0 {
			t.Errorf("got %+v after the server has returned, want ready", s.Status())
		}
	})
}

// A start that only a change of the configuration can fix is not retried, except by a call.
func TestFailedStateIsNotRetried(t *testing.T) {
	t.Parallel()
	inMemory(t, goodServer(nil), mcpsource.Options{}, func(t *testing.T, m *memoryServer, s *mcpsource.Source) {
		m.lose(t, s)
		m.set(fault.New(fault.BadRequest, "no such server"), false)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if len(m.greeted()) != 2 || s.Status().State != steps.StateFailed || !s.Status().Retry.IsZero() {
			t.Fatalf("got %d starts, status %+v, want 2 and failed", len(m.greeted()), s.Status())
		}
		if f := mustFail(t.Context(), t, s, "shelf.put", `{"name":"a"}`, fault.BadRequest); f.Outcome != fault.NotSent ||
			!strings.Contains(f.Message, "no such server") {
			t.Errorf("got %+v, want not_sent with the cause", f)
		}
		m.set(nil, false)
		mustCall(t, s, "shelf.put", `{"name":"a"}`)
	})
}

// A call hurries the next start, and fails as soon as that start has failed.
func TestCallsHurryARetry(t *testing.T) {
	t.Parallel()
	inMemory(t, goodServer(nil), mcpsource.Options{}, func(t *testing.T, m *memoryServer, s *mcpsource.Source) {
		m.lose(t, s)
		time.Sleep(5 * time.Minute)
		for range 5 {
			begun := time.Now()
			f := mustFail(t.Context(), t, s, "shelf.put", `{}`, fault.Unavailable)
			if took := time.Since(begun); f.Outcome != fault.NotSent || !strings.Contains(f.Message, "down") || took > time.Second {
				t.Errorf("got %+v after %v, want not_sent within a second", f, took)
			}
		}
		before := len(m.greeted())
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if f := mustFail(ctx, t, s, "shelf.put", `{}`, fault.Timeout); f.Outcome != fault.NotSent {
			t.Errorf("a call with a short deadline: got %+v, want not_sent", f)
		}
		if len(m.greeted()) != before {
			t.Error("a call started the server before the minimum pause")
		}
	})
}

// A broken connection is opened again, soon if it was healthy for a minute.
func TestHealthySessionIsRestartedSoon(t *testing.T) {
	t.Parallel()
	inMemory(t, goodServer(nil), mcpsource.Options{}, func(t *testing.T, m *memoryServer, s *mcpsource.Source) {
		for range 10 {
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			starts := len(m.greeted())
			m.lose(t, s)
			m.set(nil, false)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			// The call that notices the loss may itself wait for a first start, which fails.
			if n := len(m.greeted()) - starts; n < 1 || n > 2 || s.Status().State != steps.StateReady {
				t.Fatalf("two seconds after the loss: got %d starts, status %+v, want 1 or 2, ready", n, s.Status())
			}
		}
	})
}

// A start that hangs ends at its deadline, and a call that waits for it ends at its own deadline.
func TestStartDeadline(t *testing.T) {
	t.Parallel()
	inMemory(t, goodServer(nil), mcpsource.Options{StartTimeout: 5 * time.Second}, func(t *testing.T, m *memoryServer, s *mcpsource.Source) {
		m.lose(t, s)
		m.set(nil, true)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if f := mustFail(ctx, t, s, "shelf.put", `{}`, fault.Timeout); f.Outcome != fault.NotSent {
			t.Errorf("got %+v, want not_sent", f)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if status := s.Status(); status.State != steps.StateRetrying || status.Error == nil ||
			!strings.Contains(status.Error.Message, "not ready within 5s") {
			t.Errorf("after the start's deadline: got %+v, want retrying", status)
		}
	})
}

// If all sessions are in use, the session that was idle longest makes room for another, preferably one without a subscription.
func TestIdleSessionsAreClosedForNewOnes(t *testing.T) {
	t.Parallel()
	inMemory(t, fullServer(), mcpsource.Options{MaxSessions: 2}, func(t *testing.T, m *memoryServer, s *mcpsource.Source) {
		// checkUse makes calls in a session, and checks whether it was opened again.
		checkUse := func(label string, l *session, again bool) {
			t.Helper()
			before := len(m.greeted())
			callText(t, l, "shelf.pid", `{}`)
			if (len(m.greeted()) > before) != again {
				t.Errorf("%s: got reopened %t, want %t", label, !again, again)
			}
		}
		a, b := openSession(t, s, nil), openSession(t, s, nil)
		if _, err := s.OpenSession(t.Context(), nil); fault.CodeOf(err) != fault.LimitExceeded {
			t.Errorf("a third session: got %v, want limit_exceeded", err)
		}
		a.do(t, "resources/subscribe", `{"uri":"a://r"}`)
		time.Sleep(time.Hour)
		checkUse("the other", b, false)
		time.Sleep(time.Hour)
		third := openSession(t, s, nil)
		checkUse("the session with a subscription", a, false)
		_ = third.Close()
		checkUse("the session that was idle", b, true)
		_ = a.Close()
		for label, err := range map[string]error{
			"request in a closed session": func() error { _, err := a.Do(t.Context(), "ping", nil); return err }(),
			"call in a closed session":    func() error { _, err := callTool(t, a, "shelf.pid", `{}`, ""); return err }(),
		} {
			if fault.CodeOf(err) != fault.Unavailable {
				t.Errorf("%s: %v, want unavailable", label, err)
			}
		}
		_ = openSession(t, s, nil).Close()
		_ = s.Close()
		if _, err := b.Do(t.Context(), "ping", nil); fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("a session after its source was closed: got %v, want unavailable", err)
		}
		if _, err := s.OpenSession(t.Context(), nil); fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("a new session of a closed source: got %v, want unavailable", err)
		}
	})
}

// A lost session stays lost if its client does not wait for notifications.
func TestUnusedSessionStaysLost(t *testing.T) {
	t.Parallel()
	inMemory(t, fullServer(), mcpsource.Options{}, func(t *testing.T, m *memoryServer, s *mcpsource.Source) {
		c := newClient("ann", "2025-11-25")
		l := openSession(t, s, &c.DownstreamClient)
		m.set(down, false)
		if _, err := callTool(t, l, "shelf.pid", `{}`, ""); fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("got %v, want unavailable", err)
		}
		m.set(nil, false)
		before := len(m.greeted())
		time.Sleep(time.Hour)
		synctest.Wait()
		if after := len(m.greeted()); after != before || len(c.received()) > 0 {
			t.Errorf("%d sessions were opened for an absent client, with notifications %q, want none", after-before, c.received())
		}
	})
}

// The watcher runs once at a time, and not after Close.
func TestWatch(t *testing.T) {
	t.Parallel()
	inMemory(t, goodServer(nil), mcpsource.Options{}, func(t *testing.T, m *memoryServer, s *mcpsource.Source) {
		var running, calls atomic.Int32
		s.Watch(func() {
			if calls.Add(1); running.Add(1) > 1 {
				t.Error("the watcher runs twice at a time")
			}
			time.Sleep(time.Minute)
			running.Add(-1)
		})
		for range 3 {
			m.lose(t, s)
			m.set(nil, false)
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		if _ = s.Close(); calls.Load() == 0 || running.Load() != 0 {
			t.Errorf("got %d watcher calls, %d running after Close, want some and 0", calls.Load(), running.Load())
		}
	})
}

// TestRestart: a restart connects again at once, from whatever state, for client sessions at their next use. It ends the calls
// under way, whose errors say that they may have been applied.
func TestRestart(t *testing.T) {
	t.Parallel()
	inMemory(t, goodServer(nil), mcpsource.Options{}, func(t *testing.T, m *memoryServer, s *mcpsource.Source) {
		session, err := s.OpenSession(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := func(what string, greetings int) {
			t.Helper()
			before := time.Now()
			synctest.Wait()
			if state, got := s.Status().State, len(m.greeted()); state != steps.StateReady || got != greetings || !time.Now().Equal(before) {
				t.Errorf("%s: the source is %s after %d greetings, %v later, want ready after %d at once", what, state, got, time.Since(before), greetings)
			}
		}
		want("opened", 2)
		m.set(nil, true)
		ended := make(chan error, 1)
		go func() {
			_, err := function(t, s, "shelf.remove").Call(t.Context(), []byte(`{"name":"a"}`))
			ended <- err
		}()
		synctest.Wait()
		m.set(nil, false)
		if calls := s.Restart(); calls != 1 {
			t.Errorf("the restart ends %d calls, want 1", calls)
		}
		want("restarted", 3)
		if f, _ := fault.As(<-ended); f == nil || f.Code != fault.Unavailable || f.Outcome == fault.NotSent {
			t.Errorf("the pending call ended with %v, want unavailable with an outcome that is not known", f)
		}
		if _, err := function(t, s, "shelf.put").Call(session.CallContext(t.Context(), nil), []byte(`{"name":"a"}`)); err != nil {
			t.Error(err)
		}
		want("used by the session", 4)
		m.lose(t, s)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		m.set(nil, false)
		tried := len(m.greeted())
		s.Restart()
		want("restarted when it was down", tried+1)
		s.Restart()
		s.Restart()
		synctest.Wait()
		if got := len(m.greeted()); got > tried+3 || s.Status().State != steps.StateReady {
			t.Errorf("restarted twice: %d greetings more", got-tried-1)
		}
	})
}

// TestCallsDuringRestart: while a server is restarted, its functions stay, and calls wait for it.
func TestCallsDuringRestart(t *testing.T) {
	t.Parallel()
	inMemory(t, goodServer(nil), mcpsource.Options{}, func(t *testing.T, m *memoryServer, s *mcpsource.Source) {
		functions := len(s.Functions())
		m.hold()
		s.Restart()
		synctest.Wait()
		if state, got := s.Status().State, len(s.Functions()); state != steps.StateRetrying || functions == 0 || got != functions {
			t.Errorf("during the restart the source is %s with %d functions, want retrying with %d", state, got, functions)
		}
		called := make(chan error, 1)
		go func() {
			_, err := function(t, s, "shelf.put").Call(t.Context(), []byte(`{"name":"a"}`))
			called <- err
		}()
		synctest.Wait()
		select {
		case err := <-called:
			t.Errorf("a call during the restart ended at once: %v", err)
		default:
		}
		m.let()
		if err := <-called; err != nil {
			t.Errorf("the call that waited for the restart: %v", err)
		}
	})
}

// TestRestartIdle: a restart starts a server that no call has needed.
func TestRestartIdle(t *testing.T) {
	t.Parallel()
	o := childOptions(t, "good")
	o.Lazy, o.CacheFile = true, filepath.Join(t.TempDir(), "tools.json")
	if err := openReady(t, o).Close(); err != nil { // writes the list of its tools
		t.Fatal(err)
	}
	s := openSource(t, o)
	if state := s.Status().State; state != steps.StateIdle {
		t.Fatalf("the source is %s, want idle", state)
	}
	s.Restart()
	await(t, s, steps.StateReady)
}
