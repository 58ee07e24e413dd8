package app

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAwaitConsole: an app waits for what people began in its console, but not forever.
func TestAwaitConsole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for held, want := range map[time.Duration]time.Duration{0: 0, 3 * time.Second: 3 * time.Second, time.Minute: 10 * time.Second} {
			a := &App{}
			a.used.RLock()
			time.AfterFunc(held, a.used.RUnlock)
			synctest.Wait()
			began := time.Now()
			a.awaitConsole(10 * time.Second)
			if took := time.Since(began); took < want || took > want+50*time.Millisecond {
				t.Errorf("used for %v: waited %v, want %v", held, took, want)
			}
			time.Sleep(2 * time.Minute)
		}
	})
}
