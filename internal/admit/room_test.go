package admit_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
)

// tally is the memory of a request, limit bytes. most is the most that was held.
type tally struct{ limit, held, most int }

func (m *tally) HoldWork(n int) error {
	if m.held+n > m.limit {
		return fault.New(fault.LimitExceeded, "%d bytes", m.held+n)
	}
	m.held += n
	m.most = max(m.most, m.held)
	return nil
}

// TestReadAll: what is read counts before it is there, whatever size was announced, and no more is read than there is memory for.
func TestReadAll(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat("x", rapid.IntRange(0, 5000).Draw(t, "bytes"))
		announced := rapid.SampledFrom([]int{-1, 0, len(text), len(text) / 2, 2 * len(text)}).Draw(t, "announced")
		m := &tally{limit: rapid.IntRange(0, 20_000).Draw(t, "limit")}
		from := io.Reader(strings.NewReader(text))
		breaks := rapid.Bool().Draw(t, "breaks")
		if breaks {
			from = io.MultiReader(from, iotest.ErrReader(broken))
		}
		room := admit.NewRoom(admit.WithRequest(t.Context(), &admit.Request{Memory: m}))
		data, full, err := room.ReadAll(iotest.HalfReader(from), announced)
		switch {
		case full != nil:
			if fault.CodeOf(full) != fault.LimitExceeded || err != nil || m.limit > 4*max(len(text), announced, 512) {
				t.Fatalf("%v, %v with %d bytes of memory for %d", full, err, m.limit, len(text))
			}
		case breaks != errors.Is(err, broken), string(data) != text:
			t.Fatalf("%d bytes, %v; want %d, and that it breaks off: %v", len(data), err, len(text), breaks)
		}
		if m.held < cap(data) || m.most > m.limit {
			t.Fatalf("%d bytes are counted, at most %d of %d, want %d", m.held, m.most, m.limit, cap(data))
		}
		if room.Release(); m.held != 0 {
			t.Fatalf("%d bytes are counted after the release", m.held)
		}
	})
}
