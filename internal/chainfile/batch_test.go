package chainfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain"
)

// linesFile writes a file with a chain in each line.
func linesFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func noIdle() error { return nil }

// TestBatchOrder runs chains of any duration: the answers come in the order of the input, no more run at once than there
// are jobs, and no more are read ahead than the window.
func TestBatchOrder(t *testing.T) {
	t.Parallel()
	const chains, jobs = 500, 3
	var text strings.Builder
	for i := range chains {
		fmt.Fprintf(&text, "%d\n", i)
	}
	path := linesFile(t, text.String())
	synctest.Test(t, func(t *testing.T) {
		var running, begun atomic.Int64
		taken := 0
		b := &Batch{Files: []File{{Name: "f", Path: path, Lines: true}}, Jobs: jobs, MaxLine: 100,
			Run: func(_ context.Context, e *Entry) *chain.Answer {
				begun.Add(1)
				if n := running.Add(1); n > jobs {
					t.Errorf("%d concurrent runs, want at most %d", n, jobs)
				}
				time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
				running.Add(-1)
				return &chain.Answer{OK: true, JSON: e.Request}
			}}
		err := b.Each(t.Context(), func(e *Entry) error {
			if want := fmt.Sprint(taken); string(e.Answer.JSON) != want || e.Label() != fmt.Sprintf("f:%d", taken+1) {
				t.Errorf("got answer %s of %s, want %s", e.Answer.JSON, e.Label(), want)
			}
			if n := int(begun.Load()) - taken; n > (readAhead+1)*jobs+2 {
				t.Errorf("%d chains begun ahead of their turn, want at most %d", n, (readAhead+1)*jobs+2)
			}
			taken++
			return nil
		}, noIdle)
		if err != nil || taken != chains {
			t.Errorf("%d answers, want %d: %v", taken, chains, err)
		}
	})
}

func TestBatchEnds(t *testing.T) {
	t.Parallel()
	path := linesFile(t, strings.Repeat("x\n", 100))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := &Batch{Files: []File{{Name: "f", Path: path, Lines: true}}, Jobs: 2, MaxLine: 100,
			Run: func(ctx context.Context, _ *Entry) *chain.Answer {
				<-ctx.Done()
				return &chain.Answer{JSON: []byte("cancelled")}
			}}
		time.AfterFunc(time.Second, cancel)
		taken := 0
		if err := b.Each(ctx, func(*Entry) error { taken++; return nil }, noIdle); err != nil || taken < 1 || taken > 3 {
			t.Errorf("%d answers after the cancellation, want 1 to 3: %v", taken, err)
		}
		refused := errors.New("full")
		b.Run = func(context.Context, *Entry) *chain.Answer { return &chain.Answer{} }
		if err := b.Each(t.Context(), func(*Entry) error { return refused }, noIdle); !errors.Is(err, refused) {
			t.Errorf("Each with a failing write: %v, want %v", err, refused)
		}
		if err := b.Each(t.Context(), func(*Entry) error { return nil }, func() error { return refused }); !errors.Is(err, refused) {
			t.Errorf("Each with a failing flush: %v, want %v", err, refused)
		}
	})
}

func TestReadLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("y", 200_000)
	in := bufio.NewReaderSize(strings.NewReader("a\n\n"+long+"\nb\r\nc"), 16)
	for i, want := range []struct {
		line string
		read int
		err  error
	}{{"a", 2, nil}, {"", 1, nil}, {long[:101], 200_001, nil}, {"b\r", 3, nil}, {"c", 1, io.EOF}} {
		line, read, err := readLine(in, 100)
		if string(line) != want.line || read != int64(want.read) || !errors.Is(err, want.err) {
			t.Errorf("line %d: got %.20q (%d bytes), %d bytes read, %v, want %.20q (%d bytes), %d, %v",
				i, line, len(line), read, err, want.line, len(want.line), want.read, want.err)
		}
	}
}
