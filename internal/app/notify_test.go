package app

import (
	"os"
	"testing"
)

// TestNotifierIsAlone: child processes do not report to the service manager.
func TestNotifierIsAlone(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/nonexistent/socket")
	notifier()("READY=1")
	if socket, there := os.LookupEnv("NOTIFY_SOCKET"); there {
		t.Errorf("NOTIFY_SOCKET is %q after it was read", socket)
	}
}
