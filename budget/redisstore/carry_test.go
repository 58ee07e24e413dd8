package redisstore

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/redisconn/redistest"
)

// TestTransferWaits: large values wait for other transfers, but not forever and no longer than their caller; small values do not wait.
func TestTransferWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := New(&Options{URL: "redis://h"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		first, err := s.reserve(t.Context(), 2*maxTransferBytes) // a single transfer may exceed the bound
		if err != nil {
			t.Fatal(err)
		}
		if done, err := s.reserve(t.Context(), prefixBytes); err != nil {
			t.Error(err)
		} else {
			done()
		}
		began := time.Now()
		_, err = s.reserve(t.Context(), prefixBytes+1)
		if fault.CodeOf(err) != fault.Busy || time.Since(began) != transferWaitFactor*defaultTimeout {
			t.Errorf("reserve failed after %v: %v, want busy", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.reserve(ctx, prefixBytes+1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("reserve in a context that ends: %v, want DeadlineExceeded", err)
		}
		got := make(chan error)
		for range 2 {
			go func() {
				done, err := s.reserve(t.Context(), maxTransferBytes/2)
				got <- err
				done()
			}()
		}
		synctest.Wait()
		first()
		for range 2 {
			if err := <-got; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestTransferCountsUntilItEnds: a value counts as in transfer until the server has sent or received it, even if its caller leaves earlier.
func TestTransferCountsUntilItEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	large := budget.Entry{Created: time.Now(), Expires: time.Now().Add(time.Hour), Value: make([]byte, 4<<20)}
	direct, err := New(&Options{URL: server.TCP(), Compress: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	if err := direct.Put(t.Context(), "large", large); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		passes  int64 // bytes that the server sends
		operate func(ctx context.Context, s *Store) error
	}{
		"Get": {1 << 20, func(ctx context.Context, s *Store) error {
			_, err := s.Get(ctx, "large", nil)
			return err
		}},
		"Put": {0, func(ctx context.Context, s *Store) error { return s.Put(ctx, "other", large) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := redistest.NewGate(t, server.Address(), test.passes)
			s, err := New(&Options{URL: "redis://" + gate.Address(), Timeout: time.Hour, Compress: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			defer gate.Open()
			isIdle := func() bool {
				if !s.transfers.TryAcquire(maxTransferBytes) {
					return false
				}
				s.transfers.Release(maxTransferBytes)
				return true
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				defer cancel()
				polltest.Until(t, "the answer", func() bool { return len(gate.Reached) > 0 })
			}()
			if err := test.operate(ctx, s); !errors.Is(err, context.Canceled) {
				t.Fatalf("cancelled operation: %v, want Canceled", err)
			}
			if isIdle() {
				t.Error("a transfer under way is not counted")
			}
			gate.Open()
			polltest.Until(t, "the operation to end", isIdle)
			if err := test.operate(t.Context(), s); err != nil || !isIdle() {
				t.Errorf("operation after the gate opened: %v", err)
			}
		})
	}
}

// TestEncodedFirst: a value is encoded before the server's time to answer begins. Its stored size is then known, and can be refused, even
// if the server hangs and is not asked.
func TestEncodedFirst(t *testing.T) {
	t.Parallel()
	hanging := redistest.NewProxy(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	s, err := New(&Options{URL: "redis://" + hanging.Address(), Timeout: 50 * time.Millisecond, MaxBytes: 1 << 20, Compress: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for size, want := range map[int]fault.Code{1 << 19: fault.Unavailable, 1 << 20: fault.LimitExceeded} {
		if err := s.Delete(t.Context(), "none"); fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("Delete: %v, want unavailable", err)
		}
		e := budget.Entry{Created: time.Now(), Expires: time.Now().Add(time.Hour), Value: make([]byte, size)}
		if err := s.Put(t.Context(), "k", e); fault.CodeOf(err) != want {
			t.Errorf("%d bytes: %v, want %s", size, err, want)
		}
	}
	polltest.Until(t, "the transfers of refused values to end", func() bool { return s.transfers.TryAcquire(maxTransferBytes) })
}
