//go:build unix

package auth

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestAFIFOOfKeys must not make the start wait for somebody who writes.
func TestAFIFOOfKeys(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "keys")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip("no FIFO can be made here:", err)
	}
	_, faults := New(&Options{JWT: &JWT{Issuer: "ours", Audience: "a", Scopes: readScopes, Keys: name}})
	if len(faults) != 1 || !strings.Contains(faults[0].Message, "regular") {
		t.Error(faults)
	}
}
