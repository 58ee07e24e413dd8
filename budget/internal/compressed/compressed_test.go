package compressed_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/onecall-mcp/onecall/budget/internal/compressed"
)

func encode(t *testing.T, c *compressed.Codec, value []byte) []byte {
	t.Helper()
	var frame bytes.Buffer
	if err := c.Write(t.Context(), &frame, value); err != nil {
		t.Fatal(err)
	}
	return frame.Bytes()
}

// TestRoundTrip: a codec reads what it wrote, in whatever pieces the frame comes, and is used again after that.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	random := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(random) // never fails
	var c compressed.Codec
	for _, value := range [][]byte{nil, []byte("1"), []byte(strings.Repeat("a", 5<<20)), random, random[:1<<20]} {
		frame := encode(t, &c, value)
		for name, from := range map[string]io.Reader{"whole": bytes.NewReader(frame), "halves": iotest.HalfReader(bytes.NewReader(frame)),
			"with its end": iotest.DataErrReader(bytes.NewReader(frame))} {
			got, err := c.Read(t.Context(), from, int64(len(value)), int64(len(frame)))
			if err != nil || !bytes.Equal(got, value) {
				t.Errorf("%d bytes, %s: read %d bytes, %v", len(value), name, len(got), err)
			}
		}
	}
}

// TestDamaged: a frame that is damaged, cut off or of another size is told from one that could not be read.
func TestDamaged(t *testing.T) {
	t.Parallel()
	var c compressed.Codec
	value := []byte(strings.Repeat("some words ", 300_000))
	frame := encode(t, &c, value)
	size, stored := int64(len(value)), int64(len(frame))
	flipped := bytes.Clone(frame)
	flipped[len(flipped)-1] ^= 1 // in the checksum
	for name, one := range map[string]struct {
		frame        []byte
		size, stored int64
	}{
		"flipped": {flipped, size, stored}, "cut off": {frame[:len(frame)/2], size, stored}, "empty": {nil, size, 0},
		"no frame": {[]byte("something else"), size, stored}, "longer": {frame, size - 1, stored}, "shorter": {frame, size + 1, stored},
		"much shorter": {frame, 1 << 62, stored}, "negative": {frame, -1, stored}, "negative frame": {frame, size, -1},
	} {
		if got, err := c.Read(t.Context(), bytes.NewReader(one.frame), one.size, one.stored); !errors.Is(err, compressed.ErrDamaged) {
			t.Errorf("%s: read %d bytes, %v; want ErrDamaged", name, len(got), err)
		}
	}
	broken := errors.New("broken")
	from := io.MultiReader(bytes.NewReader(frame[:len(frame)/2]), iotest.ErrReader(broken))
	if _, err := c.Read(t.Context(), from, size, stored); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v, want its error", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Read(ended, bytes.NewReader(frame), size, stored); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v, want context.Canceled", err)
	}
	if err := c.Write(ended, io.Discard, value); !errors.Is(err, context.Canceled) {
		t.Errorf("writing in an ended context: %v, want context.Canceled", err)
	}
	if err := c.Write(t.Context(), failingWriter{broken}, value); !errors.Is(err, broken) {
		t.Errorf("a writer that fails: %v, want its error", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
