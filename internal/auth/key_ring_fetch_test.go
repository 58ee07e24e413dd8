package auth_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
)

// TestUnknownKeysFetchRate sends tokens with unknown keys for ten minutes.
func TestUnknownKeysFetchRate(t *testing.T) {
	t.Parallel()
	s := &keyServer{keys: jwks(rsaPair.jwk(nil))}
	withKeyServer(t, s, func(t *testing.T, known *auth.Table, check func(*testKey) fault.Code) {
		const minutes = 10
		for i := range minutes * 60 {
			token := rsaOther.token(fmt.Sprintf(`{"alg":"RS256","kid":"random-%d"}`, i), goodClaims(bubbleIssuer, nil))
			if _, err := known.Verify(t.Context(), token); fault.CodeOf(err) != fault.Denied {
				t.Fatalf("an unknown key: got error %v, want denied", err)
			}
			if i%60 == 0 {
				if code := check(rsaPair); code != "" {
					t.Fatalf("a known key in second %d: got %s, want no error", i, code)
				}
			}
			time.Sleep(time.Second)
		}
		if maximum := minutes*60/int(minFetchInterval/time.Second) + 1; s.count() > maximum || s.count() < maximum/2 {
			t.Errorf("%d fetches in %d minutes, want %d to %d", s.count(), minutes, maximum/2, maximum)
		}
	})
}

// TestSlowKeyServer: a slow key server delays no caller with a known key, and the callers that wait share one fetch.
func TestSlowKeyServer(t *testing.T) {
	t.Parallel()
	s := &keyServer{keys: jwks(rsaPair.jwk(nil)), takes: 2 * time.Second}
	withKeyServer(t, s, func(t *testing.T, known *auth.Table, check func(*testKey) fault.Code) {
		began := time.Now()
		var all sync.WaitGroup
		var failed atomic.Int32
		for range 50 {
			all.Go(func() {
				if check(rsaPair) != "" {
					failed.Add(1)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); failed.Load() > 0 || took != 2*s.takes || s.count() != 1 {
			t.Errorf("%d of 50 failed, after %v and %d fetches, want 0 and one fetch", failed.Load(), took, s.count())
		}
		s.set(func(s *keyServer) { s.takes = time.Hour })
		time.Sleep(fetchEvery)
		began = time.Now()
		if code := check(rsaPair); code != "" || time.Since(began) != 0 {
			t.Errorf("a known key: %q after %v, want accepted at once", code, time.Since(began))
		}
		time.Sleep(fetchTimeout)
		began = time.Now()
		if code := check(ecPair); code != fault.Unavailable || time.Since(began) > fetchTimeout {
			t.Errorf("an unknown key: %q after %v, want unavailable", code, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.Sleep(minFetchInterval)
		if _, err := known.Verify(ctx, ecPair.plain(bubbleIssuer)); fault.CodeOf(err) != fault.Timeout && fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("got error %v, want timeout or unavailable", err)
		}
	})
}
