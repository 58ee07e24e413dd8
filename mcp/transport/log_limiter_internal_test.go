package transport

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestOccasionsAreBounded: however many names there are, few keys are remembered and few lines logged, separately for each kind.
func TestOccasionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c logLimiter
		reported := 0
		for i := range 100_000 {
			if _, due := c.due(logKey{logRefusal, fmt.Sprint("reason", i%3), fmt.Sprint("caller: ", i)}); due {
				reported++
			}
			if i%1000 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		if len(c.lastByKind[logRefusal]) > maxLogKeys+3 || reported > maxLogKeys+3 {
			t.Errorf("%d are remembered, %d were told of", len(c.lastByKind[logRefusal]), reported)
		}
		if _, due := c.due(logKey{kind: logToken, what: "reason0", who: "caller: 99999"}); !due {
			t.Error("another kind is left out")
		}
		time.Sleep(logEvery)
		for i := range maxLogKeys - 10 {
			if _, due := c.due(logKey{logRefusal, "reason0", fmt.Sprint("new", i)}); !due {
				t.Errorf("the old make no room for the %d. of the new", i)
				break
			}
		}
		for i := range 20 {
			c.due(logKey{logRefusal, "reason2", fmt.Sprint("more", i)})
		}
		if left, due := c.due(logKey{logRefusal, "reason1", "one more"}); !due || left < 30_000 {
			t.Errorf("those beyond: %v, %d left out", due, left)
		}
	})
}

// TestPlainAddress: only addresses are logged.
func TestPlainAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"127.0.0.1:4711": "127.0.0.1", "[::1]:80": "::1", "::1": "::1", "[::1]": "::1", "fe80::1%eth0": "fe80::1",
		"": "?", "unknown": "?", "_secret": "?", "localhost:80": "?", "1.2.3.4\nlevel=INFO": "?", "@": "?",
	} {
		if got := plainAddress(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if from := (&remote{"@", []string{"1.1.1.1, 2.2.2.2", ",3.3.3.3"}}); from.forwardedFor() != "1.1.1.1, 2.2.2.2, 3.3.3.3" {
		t.Errorf("several headers: %s", from.forwardedFor())
	}
}
