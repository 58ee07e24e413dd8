package syncbuf_test

import (
	"context"
	"io"
	"regexp"
	"testing"
	"testing/synctest"

	"github.com/onecall-mcp/onecall/internal/syncbuf"
)

// TestAwait: the awaited text may come in pieces, and several goroutines may wait.
func TestAwait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b syncbuf.Buffer
		got := make(chan []string, 2)
		for range 2 {
			go func() { got <- b.Await(t.Context(), regexp.MustCompile(`port (\d+)\n`), 2) }()
		}
		for _, piece := range []string{"port 1\n", "por", "t 22", "\nport 3\n"} {
			synctest.Wait()
			if len(got) > 0 {
				t.Fatalf("Await returned before %q was written", piece)
			}
			_, _ = io.WriteString(&b, piece)
		}
		for range 2 {
			if match := <-got; len(match) != 2 || match[1] != "22" {
				t.Errorf("Await returned %q, want port 22", match)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if match := b.Await(ctx, regexp.MustCompile("port 4"), 1); match != nil {
			t.Errorf("Await with an ended context returned %q, want nil", match)
		}
	})
}
