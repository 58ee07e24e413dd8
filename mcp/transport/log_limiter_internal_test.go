package transport

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestLogKeysAreBounded: however many names there are, few keys are remembered and few lines logged, separately for each kind.
func TestLogKeysAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c logLimiter
		logged := 0
		for i := range 100_000 {
			if _, due := c.due(logKey{logRefusal, fmt.Sprint("reason", i%3), fmt.Sprint("caller: ", i)}); due {
				logged++
			}
			if i%1000 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		if len(c.lastByKind[logRefusal]) > maxLogKeys+3 || logged > maxLogKeys+3 {
			t.Errorf("%d keys are remembered and %d lines logged, want at most %d", len(c.lastByKind[logRefusal]), logged, maxLogKeys+3)
		}
		if _, due := c.due(logKey{kind: logToken, what: "reason0", who: "caller: 99999"}); !due {
			t.Error("a line of another kind is suppressed")
		}
		time.Sleep(logEvery)
		for i := range maxLogKeys - 10 {
			if _, due := c.due(logKey{logRefusal, "reason0", fmt.Sprint("new", i)}); !due {
				t.Errorf("old keys are not dropped: new key %d is suppressed", i)
				break
			}
		}
		for i := range 20 {
			c.due(logKey{logRefusal, "reason2", fmt.Sprint("more", i)})
		}
		if suppressed, due := c.due(logKey{logRefusal, "reason1", "one more"}); !due || suppressed < 30_000 {
			t.Errorf("the shared key: due %t, %d suppressed, want at least 30000", due, suppressed)
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
		t.Errorf("several X-Forwarded-For headers: %s, want 1.1.1.1, 2.2.2.2, 3.3.3.3", from.forwardedFor())
	}
}
