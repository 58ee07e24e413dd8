package redisstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// TestCarry: large values wait for others that are on their way, not for ever and not longer than their caller; small ones do not.
func TestCarry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := New(&Options{URL: "redis://h"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		first, err := s.carry(t.Context(), 2*maxCarried) // alone it may be larger than all
		if err != nil {
			t.Fatal(err)
		}
		if done, err := s.carry(t.Context(), beginning); err != nil {
			t.Error(err)
		} else {
			done()
		}
		began := time.Now()
		if _, err := s.carry(t.Context(), beginning+1); fault.CodeOf(err) != fault.Busy || time.Since(began) != waits*DefaultTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.carry(ctx, beginning+1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("in a context that ends: %v", err)
		}
		got := make(chan error)
		for range 2 {
			go func() {
				done, err := s.carry(t.Context(), maxCarried/2)
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
