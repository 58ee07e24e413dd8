package cli

import (
	"net"
	"os"
	"time"
)

// notifier gives what tells the service manager of this process's state (sd_notify of systemd): a datagram to the socket that
// NOTIFY_SOCKET names, where @ stands for the zero byte of an abstract one. Without a service manager it does nothing. The
// variable is gone then: programs that the process starts do not speak for it.
func notifier() (tell func(state string)) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return func(string) {}
	}
	_ = os.Unsetenv("NOTIFY_SOCKET") // which fails for names that there are not
	return func(state string) {
		connection, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			return // who does not listen misses nothing that is needed
		}
		defer connection.Close()
		_ = connection.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = connection.Write([]byte(state))
	}
}
