package openapi

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/egress"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/overhttp"
)

// The back-off between attempts to load a document.
const firstRetry, lastRetry = time.Second, 5 * time.Minute

// watcher calls who watches a source, once at a time, and no more after it was stopped.
type watcher struct {
	mu      sync.Mutex
	changed func()
	stopped bool
}

func (w *watcher) set(changed func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = changed
}

func (w *watcher) call() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed != nil && !w.stopped {
		w.changed()
	}
}

func (w *watcher) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
}

// Status tells how the source stands. One made of a file is always ready.
func (s *Source) Status() steps.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Watch implements steps.Live. changed must not call Watch or Close.
func (s *Source) Watch(changed func()) { s.watch.set(changed) }

// Close ends the loading; calls after it fail with unavailable. It does not wait for calls that are under way.
func (s *Source) Close() error {
	s.end()
	s.watch.stop()
	return nil
}

// set changes the status and tells the watcher.
func (s *Source) set(status steps.Status, l *loaded) {
	s.mu.Lock()
	s.status = status
	if l != nil {
		s.loaded = *l
	}
	s.mu.Unlock()
	s.watch.call()
}

// fetchInBackground loads the document from its URL until it is there.
func (s *Source) fetchInBackground() {
	// The first attempt is late when its time is over, whatever it does then.
	late := time.AfterFunc(s.options.StartTimeout, func() {
		f := fault.New(fault.Timeout, "%s: the OpenAPI document did not come from %s in time", s.options.Name, egress.Host(s.spec))
		s.mu.Lock()
		starting := s.status.State == steps.StateStarting
		if starting {
			s.status = steps.Status{State: steps.StateRetrying, Error: f, Retry: time.Now()}
		}
		s.mu.Unlock()
		if starting {
			s.watch.call()
		}
	})
	go func() {
		defer late.Stop()
		for wait := firstRetry; s.ended.Err() == nil; wait = min(2*wait, lastRetry) {
			l, err := s.fetchAndBuild()
			if err == nil {
				s.set(steps.Status{State: steps.StateReady, Version: l.version}, &l)
				return
			}
			f, _ := fault.As(err)
			if s.ended.Err() != nil {
				return
			}
			if f.At != "" && f.At != "/spec" { // an option is at fault: another attempt meets it again
				s.set(steps.Status{State: steps.StateFailed, Error: f}, nil)
				return
			}
			pause := wait/2 + rand.N(wait/2+1)
			s.set(steps.Status{State: steps.StateRetrying, Error: f, Retry: time.Now().Add(pause)}, nil)
			select {
			case <-s.ended.Done():
				return
			case <-time.After(pause):
			}
		}
	}()
}

// fetchAndBuild makes one attempt. Every error is coded.
func (s *Source) fetchAndBuild() (loaded, error) {
	text, err := s.fetch()
	if err != nil {
		return loaded{}, err
	}
	return s.build(text)
}

// fetch gets the document. The headers and credentials of calls are not sent: they are the service's.
func (s *Source) fetch() ([]byte, error) {
	ctx, cancel := context.WithTimeout(s.ended, s.options.StartTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.options.Spec, http.NoBody)
	if err != nil {
		return nil, &fault.Error{Code: fault.BadRequest, Message: s.options.Name + ": spec is not a URL", At: "/spec", Err: err}
	}
	request.Header.Set("Accept", "application/json, application/yaml, */*;q=0.8")
	response, err := s.options.Client.Do(request)
	if err != nil {
		return nil, s.notFetched(request, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		f := fault.New(fault.Unavailable, "%s: the OpenAPI document at %s is answered with %s", s.options.Name, egress.Host(s.spec), overhttp.StatusText(response.StatusCode))
		f.Status = response.StatusCode
		return nil, f
	}
	text, whole, err := overhttp.Read(response.Body, maxSpecBytes)
	switch {
	case err != nil:
		return nil, s.notFetched(request, err)
	case !whole:
		return nil, tooLong("at " + egress.Host(s.spec))
	}
	return text, nil
}

func (s *Source) notFetched(request *http.Request, err error) *fault.Error {
	f := *egress.Failure(request, err)
	if errors.Is(request.Context().Err(), context.DeadlineExceeded) {
		f.Code = fault.Timeout
	}
	f.Message = s.options.Name + ": the OpenAPI document could not be had: " + f.Message
	return &f
}
