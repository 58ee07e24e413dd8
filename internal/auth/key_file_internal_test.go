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
		every: checkFileEvery, apart: checkFileEvery, isFile: true, log: slog.New(slog.NewTextHandler(log, nil))}
	r.ctx, r.cancel = context.WithCancel(t.Context())
	t.Cleanup(r.close)
	return r
}

// TestManyLookOnce: concurrent callers share one check of the file, and wait for it.
func TestManyLookOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var looks, old atomic.Int32
		set := &keySet{}
		r := slowFile(t, new(bytes.Buffer), func() (*keySet, error) {
			looks.Add(1)
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
		if looks.Load() != 1 || old.Load() != 0 {
			t.Errorf("%d looks, %d of 50 have old keys", looks.Load(), old.Load())
		}
	})
}

// TestAFileThatHangs: a file that hangs delays each caller once and briefly. Known keys stay available.
func TestAFileThatHangs(t *testing.T) {
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
				t.Error("the known keys are gone")
			}
		}
		if waited := time.Since(began); waited != refreshTimeout {
			t.Errorf("ten have waited %v, want %v", waited, refreshTimeout)
		}
		if n := strings.Count(log.String(), "could not be read in time"); n != 1 {
			t.Errorf("it is told %d times:\n%s", n, log.String())
		}
		close(hung)
		synctest.Wait()
		if r.current() != after {
			t.Error("once it is read, it is not used")
		}
	})
}
