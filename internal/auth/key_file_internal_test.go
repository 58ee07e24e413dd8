package auth

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slowFile returns a key ring for a file that load reads.
func slowFile(t *testing.T, log *bytes.Buffer, load func() (*keySet, error)) *keyring {
	r := &keyring{load: func(context.Context, *keySet) (*keySet, error) { return load() },
		every: checkFileEvery, minInterval: checkFileEvery, isFile: true, log: slog.New(slog.NewTextHandler(log, nil))}
	r.ctx, r.cancel = context.WithCancel(t.Context())
	t.Cleanup(r.close)
	return r
}

// TestConcurrentFileChecks: concurrent callers share one check of the file, and wait for it.
func TestConcurrentFileChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads, old atomic.Int32
		set := &keySet{}
		r := slowFile(t, new(bytes.Buffer), func() (*keySet, error) {
			reads.Add(1)
			time.Sleep(refreshTimeout / 2)
			return set, nil
		})
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if r.current() != set {
					old.Add(1)
				}
				_, _ = r.newer(t.Context(), set) // for an unknown key: no other check is due
			})
		}
		all.Wait()
		if reads.Load() != 1 || old.Load() != 0 {
			t.Errorf("the file was read %d times, want 1; %d of 50 callers got old keys", reads.Load(), old.Load())
		}
	})
}

// TestHangingFile: a file that hangs delays each caller once and briefly. Known keys stay available.
func TestHangingFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		hung, before, after := make(chan struct{}), &keySet{}, &keySet{keys: make([]signingKey, 1)}
		r := slowFile(t, &log, func() (*keySet, error) {
			<-hung
			return after, nil
		})
		r.keys, r.endedAt = before, time.Now()
		time.Sleep(checkFileEvery)
		began := time.Now()
		for range 10 {
			if r.current() != before {
				t.Error("the known keys are not returned while the file hangs")
			}
		}
		if waited := time.Since(began); waited != refreshTimeout {
			t.Errorf("ten callers waited %v in all, want %v", waited, refreshTimeout)
		}
		if n := strings.Count(log.String(), "could not be read in time"); n != 1 {
			t.Errorf("the delay is logged %d times, want 1:\n%s", n, log.String())
		}
		close(hung)
		synctest.Wait()
		if r.current() != after {
			t.Error("the new keys are not used after the file was read")
		}
	})
}
