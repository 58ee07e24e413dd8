//go:build unix

package auth_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/onecall-mcp/onecall/internal/auth"
)

// TestKeyFileIsFIFO: a FIFO in place of the key file does not make the start wait for a writer.
func TestKeyFileIsFIFO(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "keys")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip("cannot create a FIFO:", err)
	}
	_, faults := auth.New(&auth.Options{JWT: &auth.JWT{Issuer: "ours", Audience: "a", Scopes: readScopes, Keys: name}})
	if len(faults) != 1 || !strings.Contains(faults[0].Message, "regular") {
		t.Errorf("got faults %v, want one saying that the file is not regular", faults)
	}
}
