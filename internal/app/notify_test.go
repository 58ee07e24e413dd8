package app

import (
	"os"
	"testing"
)

// TestNotifySocketUnset: child processes do not report to the service manager.
func TestNotifySocketUnset(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/nonexistent/socket")
	notifier()("READY=1")
	if socket, ok := os.LookupEnv("NOTIFY_SOCKET"); ok {
		t.Errorf("NOTIFY_SOCKET is still set after it was read: %q", socket)
	}
}
