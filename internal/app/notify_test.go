package app

import (
	"os"
	"testing"
)

// TestNotifierIsAlone: what the process starts does not speak to its service manager.
func TestNotifierIsAlone(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/nonexistent/socket")
	notifier()("READY=1")
	if socket, there := os.LookupEnv("NOTIFY_SOCKET"); there {
		t.Errorf("NOTIFY_SOCKET is %q after it was read", socket)
	}
}
