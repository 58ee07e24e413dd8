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

// source is the store that values are read from. Each read takes a second.
type source struct {
	mu               sync.Mutex
	reads, cancelled int
	failed           error
}

func (s *source) read(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	s.reads++
	s.mu.Unlock()
	select {
	case <-time.After(time.Second):
		return make([]byte, recent.MinSize), s.failed
	case <-ctx.Done():
		s.mu.Lock()
		s.cancelled++
		s.mu.Unlock()
		return nil, ctx.Err()
	}
}

func (s *source) wantReads(t *testing.T, reads, cancelled int) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads != reads || s.cancelled != cancelled {
		t.Errorf("%d reads, %d of them cancelled, want %d and %d", s.reads, s.cancelled, reads, cancelled)
	}
}

// TestSharedReading: concurrent readers of a value share one read, which continues until the last of them has left. A failed read is
// repeated, and another version is another value.
func TestSharedReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := recent.New(4*recent.MinSize, func(a, b string) bool { return a == b })
		defer v.Close()
		s := &source{}
		get := func(ctx context.Context, version string) chan error {
			done := make(chan error, 1)
			go func() {
				value, err := v.Get(ctx, "name", version, recent.MinSize, s.read)
				if err == nil && !bytes.Equal(value, make([]byte, recent.MinSize)) {
					t.Errorf("Get returned %d bytes, want %d zeros", len(value), recent.MinSize)
				}
				done <- err
			}()
			synctest.Wait()
			return done
		}
		// The first reader leaves, the second one gets the value.
		first, cancel := context.WithCancel(t.Context())
		done1, done2 := get(first, "a"), get(t.Context(), "a")
		cancel()
		if err := <-done1; !errors.Is(err, context.Canceled) {
			t.Errorf("first Get: %v, want context.Canceled", err)
		}
		if err := <-done2; err != nil {
			t.Error(err)
		}
		s.wantReads(t, 1, 0)
		// The value is held now, with that version.
		if err := <-get(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		s.wantReads(t, 1, 0)
		// Both readers leave: the read ends, and the next reader starts another one.
		all, cancel := context.WithCancel(t.Context())
		done1, done2 = get(all, "b"), get(all, "b")
		cancel()
		<-done1
		<-done2
		s.wantReads(t, 2, 1)
		// Meanwhile there is a reader of another version.
		s.failed = errors.New("failed")
		done1, done2 = get(t.Context(), "b"), get(t.Context(), "c")
		s.wantReads(t, 4, 1)
		if err := errors.Join(<-done1, <-done2); !errors.Is(err, s.failed) {
			t.Errorf("Get: %v, want %v", err, s.failed)
		}
		s.failed = nil
		if err := <-get(t.Context(), "b"); err != nil {
			t.Error(err)
		}
		s.wantReads(t, 5, 1)
	})
}

// TestSpaceBeforeReading: values are evicted for a new one when its read begins, so that both are never held at once.
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
		s.wantReads(t, 2, 0)
		done := make(chan struct{})
		go func() {
			defer close(done)
			get("c")
		}()
		synctest.Wait()
		get("b") // used more recently than a
		s.wantReads(t, 3, 0)
		get("a")
		<-done
		s.wantReads(t, 4, 0)
	})
}

// TestClose: a value that is being read is returned to its readers, and not held.
func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := recent.New(2*recent.MinSize, func(a, b string) bool { return a == b })
		s := &source{}
		get := func(name string) {
			if value, err := v.Get(t.Context(), name, "", recent.MinSize, s.read); err != nil || len(value) != recent.MinSize {
				t.Errorf("Get(%s) returned %d bytes, %v; want %d", name, len(value), err, recent.MinSize)
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
		s.wantReads(t, 2, 0)
		<-done
		get("b")
		get("a")
		s.wantReads(t, 4, 0)
		v.Close()
	})
}
