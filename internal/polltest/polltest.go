// Package polltest waits for states that nothing announces: what another process has done, files, connections, goroutines, counters that
// have no channel. It is the one place where tests poll. If there is an event, such as a line of a log, wait for that instead.
package polltest

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// TooLong is a limit against hangs. A correct test stays far below it, even on a busy machine.
const TooLong = 2 * time.Minute

// Until waits until holds reports true, and fails the test if that takes too long. what says what is waited for; the logs are shown if it
// does not come. It is for the goroutine of the test; others use Try.
func Until(tb testing.TB, what string, holds func() bool, logs ...fmt.Stringer) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), TooLong)
	defer cancel()
	if !Try(ctx, holds) {
		tb.Fatalf("not within %v: %s\n%s", TooLong, what, logs)
	}
}

// Try waits until holds reports true. It reports false if ctx ends before. The pauses grow, so that what is soon there costs no time, and
// what takes long costs little work.
func Try(ctx context.Context, holds func() bool) bool {
	const shortest, longest = time.Millisecond, 50 * time.Millisecond
	for pause := shortest; !holds(); pause = min(2*pause, longest) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
	return true
}
