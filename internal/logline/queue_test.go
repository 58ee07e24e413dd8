package logline

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/internal/syncbuf"
)

// gate is a writer that waits until it is opened.
type gate struct {
	open chan struct{}
	syncbuf.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	return g.Buffer.Write(p)
}

// TestQueue: no writer waits for the reader of the log. Lines that do not fit are counted, and the count is logged when lines are read
// again.
func TestQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		q := NewQueue(g)
		l := New(q, &Options{Level: slog.LevelWarn, Scrub: func(text string) string { return text }})
		q.ReportTo(slog.New(l.Handler))
		const lines, length = 3000, 1000
		for i := range lines {
			if n, err := fmt.Fprintf(q, "%05d%s\n", i, strings.Repeat("x", length-6)); n != length || err != nil {
				t.Fatalf("Fprintf: got %d, %v, want %d", n, err, length)
			}
		}
		capacity := maxWaiting / length
		if n := q.Dropped(); n != lines-capacity {
			t.Errorf("%d lines were dropped, want %d", n, lines-capacity)
		}
		close(g.open)
		synctest.Wait()
		got := strings.Split(strings.TrimSpace(g.String()), "\n")
		if len(got) != capacity+1 ||
			!strings.Contains(got[capacity], fmt.Sprintf("level=WARN msg=\"lines of this log were dropped because it was not read\" lines=%d", lines-capacity)) {
			t.Fatalf("got %d lines, want %d and the warning; the last is %s", len(got), capacity, got[len(got)-1])
		}
		for i, line := range got[:capacity] {
			if !strings.HasPrefix(line, fmt.Sprintf("%05dx", i)) {
				t.Fatalf("line %d begins with %.10s, want %05dx", i, line, i)
			}
		}
		fmt.Fprintln(q, strings.Repeat("y", 2*maxWaiting)) // a line alone may have any length
		fmt.Fprintln(q, "last")
		q.Close()
		if text := g.String(); strings.Count(text, "y") < 2*maxWaiting || !strings.HasSuffix(text, "last\n") && q.Dropped() == lines-capacity {
			t.Errorf("Close lost a line: the log ends with %s", text[len(text)-10:])
		}
		fmt.Fprintln(q, "after")
		if text := g.String(); !strings.HasSuffix(text, "after\n") {
			t.Errorf("a line after Close is lost: the log ends with %s", text[len(text)-10:])
		}
		q.Close()
	})
}

// TestQueueCloseTimeout: Close waits a second for a reader that does not read, and no longer.
func TestQueueCloseTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		q := NewQueue(g)
		fmt.Fprintln(q, "never read")
		began := time.Now()
		q.Close()
		if took := time.Since(began); took != closeTimeout {
			t.Errorf("Close took %v, want %v", took, closeTimeout)
		}
		if n, err := fmt.Fprintln(q, "one more"); n != 9 || err != nil || q.Dropped() != 1 {
			t.Errorf("write after Close: %d, %v; %d dropped, want 1", n, err, q.Dropped())
		}
		close(g.open)
	})
}
