package recent_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/budget/internal/recent"
)

// source is what values are read from: each reading takes a second.
type source struct {
	mu           sync.Mutex
	begun, ended int
	failed       error
}

func (s *source) read(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	s.begun++
	s.mu.Unlock()
	select {
	case <-time.After(time.Second):
		return make([]byte, recent.MinSize), s.failed
	case <-ctx.Done():
		s.mu.Lock()
		s.ended++
		s.mu.Unlock()
		return nil, ctx.Err()
	}
}

func (s *source) did(t *testing.T, begun, ended int) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun != begun || s.ended != ended {
		t.Errorf("%d readings have begun, %d were ended, want %d and %d", s.begun, s.ended, begun, ended)
	}
}

// TestSharedReading: those who want a value at once share one reading, which goes on until the last of them has left; what failed
// is read again, and what is marked otherwise is another value.
func TestSharedReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := recent.New(4*recent.MinSize, func(a, b string) bool { return a == b })
		defer v.Close()
		s := &source{}
		get := func(ctx context.Context, mark string) chan error {
			done := make(chan error, 1)
			go func() {
				value, err := v.Get(ctx, "name", mark, recent.MinSize, s.read)
				if err == nil && !bytes.Equal(value, make([]byte, recent.MinSize)) {
					t.Errorf("%d bytes", len(value))
				}
				done <- err
			}()
			synctest.Wait()
			return done
		}
		// The first leaves, the second gets it.
		first, cancel := context.WithCancel(t.Context())
		one, two := get(first, "a"), get(t.Context(), "a")
		cancel()
		if err := <-one; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := <-two; err != nil {
			t.Error(err)
		}
		s.did(t, 1, 0)
		// It is held now, under that mark.
		if err := <-get(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		s.did(t, 1, 0)
		// Both leave: the reading ends, and the next one begins another.
		all, cancel := context.WithCancel(t.Context())
		one, two = get(all, "b"), get(all, "b")
		cancel()
		<-one
		<-two
		s.did(t, 2, 1)
		// Of another mark meanwhile.
		s.failed = errors.New("failed")
		one, two = get(t.Context(), "b"), get(t.Context(), "c")
		s.did(t, 4, 1)
		if err := errors.Join(<-one, <-two); !errors.Is(err, s.failed) {
			t.Error(err)
		}
		s.failed = nil
		if err := <-get(t.Context(), "b"); err != nil {
			t.Error(err)
		}
		s.did(t, 5, 1)
	})
}

// TestSpaceBeforeReading: what gives way to a value does so when its reading begins, so that both are never there at once.
func TestSpaceBeforeReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := recent.New(2*recent.MinSize, func(a, b string) bool { return a == b })
		defer v.Close()
		s := &source{}
		get := func(name string) {
			if _, err := v.Get(t.Context(), name, "", recent.MinSize, s.read); err != nil {
				t.Error(err)
			}
		}
		get("a")
		get("b")
		get("a")
		get("b")
		s.did(t, 2, 0)
		done := make(chan struct{})
		go func() {
			defer close(done)
			get("c")
		}()
		synctest.Wait()
		get("b") // used later than a
		s.did(t, 3, 0)
		get("a")
		<-done
		s.did(t, 4, 0)
	})
}

// TestClose: what was being read is handed over to who waits for it, and not held.
func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := recent.New(2*recent.MinSize, func(a, b string) bool { return a == b })
		s := &source{}
		get := func(name string) {
			if value, err := v.Get(t.Context(), name, "", recent.MinSize, s.read); err != nil || len(value) != recent.MinSize {
				t.Error(len(value), err)
			}
		}
		get("a")
		done := make(chan struct{})
		go func() {
			defer close(done)
			get("b")
		}()
		synctest.Wait()
		v.Close()
		s.did(t, 2, 0)
		<-done
		get("b")
		get("a")
		s.did(t, 4, 0)
		v.Close()
	})
}
