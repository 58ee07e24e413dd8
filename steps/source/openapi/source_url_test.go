package openapi

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

func readerOf(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }

var _ steps.Live = (*Source)(nil)

// publisher answers requests for a document with each of its answers in turn, and then repeats the last.
type publisher struct {
	fetched atomic.Int64
	answers []func(*http.Request) (*http.Response, error)
}

func (p *publisher) Do(request *http.Request) (*http.Response, error) {
	time.Sleep(time.Millisecond) // fake time: the test runs first
	n := int(p.fetched.Add(1))
	return p.answers[min(n, len(p.answers))-1](request)
}

func respond(status int, body string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: readerOf(body)}, nil
	}
}

func failWith(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

func hang(request *http.Request) (*http.Response, error) {
	<-request.Context().Done()
	return nil, request.Context().Err()
}

func ignoreContext(*http.Request) (*http.Response, error) {
	time.Sleep(time.Hour)
	return nil, context.DeadlineExceeded
}

func publish(t *testing.T, o Options, answers ...func(*http.Request) (*http.Response, error)) (*Source, *publisher) {
	t.Helper()
	p := &publisher{answers: answers}
	o.Name, o.Spec, o.Client = "pets", "https://docs.example.com/v1/openapi.json?key=secret-in-query", p
	s, err := New(&o)
	if err != nil {
		t.Fatal(err)
	}
	return s, p
}

func TestDocumentAtURL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := publish(t, Options{}, respond(200, petsDocument("")))
		defer s.Close()
		var seen []steps.State
		s.Watch(func() { seen = append(seen, s.Status().State) })
		if state := s.Status().State; state != steps.StateStarting || len(s.Functions()) != 0 {
			t.Errorf("before the first fetch: got state %s, want starting without functions", state)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if status := s.Status(); status.State != steps.StateReady || status.Version != "Pets 2" || len(s.Functions()) != 4 {
			t.Errorf("got %+v with %d functions, want ready, Pets 2 and 4", status, len(s.Functions()))
		}
		if len(seen) != 1 || seen[0] != steps.StateReady {
			t.Errorf("the watcher saw states %v, want ready only", seen)
		}
	})
}

func TestDocumentIsRefetched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := publish(t, Options{StartTimeout: 10 * time.Second}, failWith(io.ErrUnexpectedEOF), respond(503, ""), respond(200, "<html>"), hang,
			respond(200, petsDocument("")))
		defer s.Close()
		var errs []string
		s.Watch(func() {
			if status := s.Status(); status.State == steps.StateRetrying {
				if !status.Retry.After(time.Now()) || strings.Contains(status.Error.Message, "secret") {
					t.Errorf("got status %+v, want a next attempt and no secret", status)
				}
				errs = append(errs, string(status.Error.Code))
			}
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := strings.Join(errs, " "); got != "unavailable unavailable bad_request timeout" {
			t.Errorf("got failures %s, want unavailable unavailable bad_request timeout", got)
		}
		if s.Status().State != steps.StateReady || p.fetched.Load() != 5 || s.Status().Error != nil {
			t.Errorf("got %+v after %d attempts, want ready after 5", s.Status(), p.fetched.Load())
		}
		s.Watch(func() { t.Error("an unchanged document is reported as a change") })
		time.Sleep(time.Hour)
		if n := p.fetched.Load(); n != 5+12 {
			t.Errorf("got %d fetches, want one every five minutes after the fifth", n)
		}
	})
}

func TestOptionsMismatchDocument(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := publish(t, Options{Auth: map[string]Credential{"none": {Value: "x"}}}, respond(200, petsDocument("")))
		defer s.Close()
		time.Sleep(time.Hour)
		if status := s.Status(); status.State != steps.StateFailed || status.Error.At != "/auth/none" || p.fetched.Load() != 1 {
			t.Errorf("got %+v after %d attempts, want failed after 1", status, p.fetched.Load())
		}
	})
}

func TestCloseWhileFetching(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, answer := range []func(*http.Request) (*http.Response, error){hang, failWith(io.EOF)} {
			s, _ := publish(t, Options{}, answer)
			time.Sleep(100 * time.Millisecond)
			s.Watch(func() { t.Error("the watcher was called after Close") })
			for range 2 {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		time.Sleep(time.Hour) // what still runs is found at the end of the bubble
	})
}

func TestEndlessDocument(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: the test reads 128 MiB")
	}
	watched, done := make(chan struct{}), make(chan struct{})
	s, _ := publish(t, Options{StartTimeout: time.Hour}, func(*http.Request) (*http.Response, error) { // a busy machine reads slowly
		<-watched
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(endless{})}, nil
	}, hang)
	defer s.Close()
	s.Watch(func() { close(done) })
	close(watched)
	<-done
	if status := s.Status(); status.Error == nil || status.Error.Code != fault.LimitExceeded || status.Error.At != "/spec" {
		t.Errorf("got status %+v, want limit_exceeded at /spec", status)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
