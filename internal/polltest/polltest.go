// Package polltest waits for states that nothing announces, such as files, connections, goroutines, counters without a channel, and the
// work of another process. It is the only place where tests poll. If there is an event, such as a log line, wait for that instead.
package polltest

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// TooLong is a limit against hangs. A correct test stays far below it, even on a busy machine.
const TooLong = 2 * time.Minute

// Until waits until holds reports true, and fails the test if that takes too long. The failure shows what, which describes the state, and
// the logs. Only the test's own goroutine may call it; others use Try.
func Until(tb testing.TB, what string, holds func() bool, logs ...fmt.Stringer) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), TooLong)
	defer cancel()
	if !Try(ctx, holds) {
		tb.Fatalf("not within %v: %s\n%s", TooLong, what, logs)
	}
}

// Try waits until holds reports true. It returns false if ctx ends first. The pauses grow, so that a short wait is not prolonged and a
// long one costs little work.
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

// MoreParallel lets four times as many tests run in parallel as there are processors, unless -parallel is set. Call it in TestMain, before
// the tests run, in a package whose tests mostly wait for other processes.
func MoreParallel() {
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
}
