package openapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/internal/httpbody"
	"github.com/onecall-mcp/onecall/steps"
)

// The back-off between attempts to load a document. lastRetry is also the interval at which a loaded document is loaded
// again.
const firstRetry, lastRetry = time.Second, 5 * time.Minute

// watcher calls the function that Watch set, one call at a time, and never after stop.
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

// Status returns the source's status. A source of a file is always ready.
func (s *Source) Status() steps.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Watch implements steps.Live. changed must not call Watch or Close.
func (s *Source) Watch(changed func()) { s.watch.set(changed) }

// Close stops loading; later calls fail with unavailable. It does not wait for calls in flight.
func (s *Source) Close() error {
	s.end()
	s.watch.stop()
	return nil
}

// setStatus changes the status, and the functions unless result is nil, and notifies the watcher.
func (s *Source) setStatus(status steps.Status, result *buildResult) {
	s.mu.Lock()
	s.status = status
	if result != nil {
		s.current = *result
	}
	s.mu.Unlock()
	s.watch.call()
}

// fetchInBackground loads the document from its URL repeatedly until Close.
func (s *Source) fetchInBackground() {
	// The status changes when the time of the first attempt is over, even if the attempt continues.
	late := time.AfterFunc(s.options.StartTimeout, func() {
		f := fault.New(fault.Timeout, "%s: the OpenAPI document from %s did not arrive in time", s.options.Name, egress.Host(s.spec))
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
		var served [sha256.Size]byte // the digest of the text behind the current functions
		reported := false            // a failed reload was reported
		for wait := firstRetry; s.ended.Err() == nil; {
			pause := lastRetry
			result, digest, err := s.fetchAndBuild(served)
			switch ready := s.Status().State == steps.StateReady; {
			case s.ended.Err() != nil:
				return
			case err == nil:
				if digest != served {
					s.setStatus(steps.Status{State: steps.StateReady, Version: result.version}, &result)
				}
				served, reported, wait = digest, false, firstRetry
			case ready:
				if !reported {
					s.options.Warn(s.reloadFault(err))
				}
				reported = true
			default:
				f, _ := fault.As(err)
				if f.At != "" && f.At != "/spec" { // an option is at fault: another attempt would fail, too
					s.setStatus(steps.Status{State: steps.StateFailed, Error: f}, nil)
					return
				}
				pause = wait/2 + rand.N(wait/2+1)
				wait = min(2*wait, lastRetry)
				s.setStatus(steps.Status{State: steps.StateRetrying, Error: f, Retry: time.Now().Add(pause)}, nil)
			}
			select {
			case <-s.ended.Done():
			case <-s.refresh:
			case <-time.After(pause):
			}
		}
	}()
}

// Refresh starts loading the document again if it is at a URL. It does not wait.
func (s *Source) Refresh() {
	select {
	case s.refresh <- struct{}{}:
	default: // a reload is already pending
	}
}

// reloadFault returns the fault of a failed reload. Its code is unavailable, so that it differs from the warnings about a loaded document.
func (s *Source) reloadFault(err error) *fault.Error {
	f, _ := fault.As(err)
	return &fault.Error{Code: fault.Unavailable, Err: err,
		Message: s.options.Name + ": the functions stay as they are, because their document cannot be loaded again: " + f.Message}
}

// fetchAndBuild makes one attempt to load the document. If the document's digest is served, the digest of the current functions, it builds
// nothing and result is empty. Every error has a code.
func (s *Source) fetchAndBuild(served [sha256.Size]byte) (result buildResult, digest [sha256.Size]byte, err error) {
	text, err := s.fetch()
	if err != nil {
		return buildResult{}, digest, err
	}
	if digest = sha256.Sum256(text); digest == served {
		return buildResult{}, digest, nil
	}
	result, err = s.build(text)
	return result, digest, err
}

// fetch downloads the document. It does not send the headers and credentials of calls: they belong to the service.
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
		return nil, s.fetchFault(request, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		f := fault.New(fault.Unavailable, "%s: the request for the OpenAPI document at %s was answered with %s", s.options.Name, egress.Host(s.spec),
			httpbody.StatusText(response.StatusCode))
		f.Status = response.StatusCode
		return nil, f
	}
	body, whole, err := httpbody.Read(ctx, response, maxSpecBytes)
	switch {
	case err != nil:
		return nil, s.fetchFault(request, err)
	case !whole:
		return nil, fileTooLarge("at " + egress.Host(s.spec))
	}
	return body.Data, nil
}

func (s *Source) fetchFault(request *http.Request, err error) *fault.Error {
	f := *egress.Failure(request, err)
	if errors.Is(request.Context().Err(), context.DeadlineExceeded) {
		f.Code = fault.Timeout
	}
	f.Message = s.options.Name + ": the OpenAPI document could not be loaded: " + f.Message
	return &f
}
