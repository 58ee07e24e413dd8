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

// publisher answers for a document: with each of its answers in turn, the last again and again.
type publisher struct {
	asked   atomic.Int64
	answers []func(*http.Request) (*http.Response, error)
}

func (p *publisher) Do(request *http.Request) (*http.Response, error) {
	time.Sleep(time.Millisecond) // of the bubble's time: the test goes first
	n := int(p.asked.Add(1))
	return p.answers[min(n, len(p.answers))-1](request)
}

func says(status int, body string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: readerOf(body)}, nil
	}
}

func fails(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

func silent(request *http.Request) (*http.Response, error) {
	<-request.Context().Done()
	return nil, request.Context().Err()
}

func deaf(*http.Request) (*http.Response, error) {
	time.Sleep(time.Hour)
	return nil, context.DeadlineExceeded
}

func published(t *testing.T, o Options, answers ...func(*http.Request) (*http.Response, error)) (*Source, *publisher) {
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
		s, _ := published(t, Options{}, says(200, petsDocument("")))
		defer s.Close()
		var seen []steps.State
		s.Watch(func() { seen = append(seen, s.Status().State) })
		if state := s.Status().State; state != steps.StateStarting || len(s.Functions()) != 0 {
			t.Errorf("at first it is %s", state)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if status := s.Status(); status.State != steps.StateReady || status.Version != "Pets 2" || len(s.Functions()) != 4 {
			t.Errorf("%+v with %d functions", status, len(s.Functions()))
		}
		if len(seen) != 1 || seen[0] != steps.StateReady {
			t.Errorf("the watcher saw %v", seen)
		}
	})
}

func TestDocumentIsFetchedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := published(t, Options{StartTimeout: 10 * time.Second}, fails(io.ErrUnexpectedEOF), says(503, ""), says(200, "<html>"), silent,
			says(200, petsDocument("")))
		defer s.Close()
		var errs []string
		s.Watch(func() {
			if status := s.Status(); status.State == steps.StateRetrying {
				if !status.Retry.After(time.Now()) || strings.Contains(status.Error.Message, "secret") {
					t.Errorf("%+v", status)
				}
				errs = append(errs, string(status.Error.Code))
			}
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := strings.Join(errs, " "); got != "unavailable unavailable bad_request timeout" {
			t.Errorf("on the way: %s", got)
		}
		if s.Status().State != steps.StateReady || p.asked.Load() != 5 || s.Status().Error != nil {
			t.Errorf("%+v after %d attempts", s.Status(), p.asked.Load())
		}
		s.Watch(func() { t.Error("a document that stays as it was is reported as a change") })
		time.Sleep(time.Hour)
		if n := p.asked.Load(); n != 5+12 {
			t.Errorf("it was fetched %d times, want once in five minutes from the fifth on", n)
		}
	})
}

// TestDocumentChanges: a changed document replaces the functions, at Refresh or within five minutes; one that cannot be loaded
// any more leaves them as they are, with one warning.
func TestDocumentChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const one = `openapi: 3.0.0
info: {title: Pets, version: "3"}
servers: [{url: "https://pets.example.com"}]
paths: {/owners: {get: {responses: {"200": {description: ok}}}}}
`
		var warnings []string
		s, p := published(t, Options{Warn: func(f *fault.Error) { warnings = append(warnings, f.Error()) }},
			says(200, petsDocument("")), says(200, one), says(404, ""), says(200, "<html>"), says(200, one), says(200, petsDocument("")))
		defer s.Close()
		var changes atomic.Int64
		s.Watch(func() { changes.Add(1) })
		step := func(wait time.Duration, asked int64, functions int, reported int64) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			if status := s.Status(); status.State != steps.StateReady || status.Error != nil || len(s.Functions()) != functions ||
				p.asked.Load() != asked || changes.Load() != reported {
				t.Errorf("%+v, %d functions after %d attempts and %d changes", status, len(s.Functions()), p.asked.Load(), changes.Load())
			}
		}
		step(time.Second, 1, 4, 1)
		s.Refresh()
		step(time.Second, 2, 1, 2)
		step(lastRetry, 3, 1, 2) // gone
		step(lastRetry, 4, 1, 2)
		step(lastRetry, 5, 1, 2) // again what it was
		step(lastRetry, 6, 4, 3)
		if len(warnings) != 1 || !strings.Contains(warnings[0], "cannot be loaded again") || !strings.Contains(warnings[0], "404") {
			t.Errorf("%q", warnings)
		}
	})
}

func TestStartingEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := published(t, Options{}, deaf)
		defer s.Close()
		told := 0
		s.Watch(func() { told++ })
		time.Sleep(defaultStartTimeout + time.Second)
		synctest.Wait()
		if status := s.Status(); status.State != steps.StateRetrying || status.Error.Code != fault.Timeout || told != 1 {
			t.Errorf("%+v, told %d times", status, told)
		}
		_ = s.Close()
		time.Sleep(2 * time.Hour)
	})
}

func TestOptionsThatDoNotFitTheDocument(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := published(t, Options{Auth: map[string]Credential{"none": {Value: "x"}}}, says(200, petsDocument("")))
		defer s.Close()
		time.Sleep(time.Hour)
		if status := s.Status(); status.State != steps.StateFailed || status.Error.At != "/auth/none" || p.asked.Load() != 1 {
			t.Errorf("%+v after %d attempts", status, p.asked.Load())
		}
	})
}

func TestCloseWhileFetching(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, answer := range []func(*http.Request) (*http.Response, error){silent, fails(io.EOF)} {
			s, _ := published(t, Options{}, answer)
			time.Sleep(100 * time.Millisecond)
			s.Watch(func() { t.Error("the watcher is called after Close") })
			for range 2 {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		time.Sleep(time.Hour) // what goes on is found by the bubble's end
	})
}

func TestEndlessDocument(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: 128 MiB are read")
	}
	watched, done := make(chan struct{}), make(chan struct{})
	s, _ := published(t, Options{}, func(*http.Request) (*http.Response, error) {
		<-watched
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(endless{})}, nil
	}, silent)
	defer s.Close()
	s.Watch(func() { close(done) })
	close(watched)
	<-done
	if status := s.Status(); status.Error == nil || status.Error.Code != fault.LimitExceeded || status.Error.At != "/spec" {
		t.Errorf("%+v", status)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
