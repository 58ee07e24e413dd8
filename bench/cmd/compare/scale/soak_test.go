package scale

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/work"
)

// TestVisits makes a visit with a session and one without, as a soak does.
func TestVisits(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	from, to := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := work.Main(ctx, []string{"onecall"}, strings.NewReader(""), to)
		to.CloseWithError(io.ErrUnexpectedEOF)
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	server := &work.Server{}
	if err := json.NewDecoder(from).Decode(&server.Addresses); err != nil {
		t.Fatal(err)
	}
	v := &visits{server: server}
	for n := range 2 {
		v.run(t.Context(), n)
	}
	if v.done.Load() != 2 || v.failed.Load() != 0 {
		t.Errorf("got %d visits, %d of them failed, want 2 and none: %v", v.done.Load(), v.failed.Load(), v.first)
	}
}
