//go:build unix

package files

import (
	"errors"
	"os"
	"regexp"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
)

// TestReadsDoNotWait uses a pipe without a writer as a system file without data.
func TestReadsDoNotWait(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	f := &regularFile{r}
	defer f.Close()
	if n, err := f.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read of an empty pipe: got %d, %v, want 0, os.ErrDeadlineExceeded", n, err)
	}
	_, err = w.Write([]byte("xy"))
	must(t, err)
	if n, err := f.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("read of available data: got %d, %v, want 1, nil", n, err)
	}
	if err := newScanner(&pattern{re: regexp.MustCompile("x")}, minBytes).scan(t.Context(), f, 0, 0, nil); !errors.Is(err,
		os.ErrDeadlineExceeded) {
		t.Errorf("search: got %v, want os.ErrDeadlineExceeded", err)
	}
	s, err := New(nil)
	must(t, err)
	defer s.Close()
	if err := (&catResult{room: admit.NewRoom(t.Context())}).readWhole(f, lineRange{}, minBytes); fault.CodeOf(s.accessFault("kmsg", err)) != fault.FunctionFailed {
		t.Errorf("fs.cat: got %v, want function_failed", err)
	}
}
