package app

import (
	"net"
	"os"
	"time"
)

// notifier returns a function that tells the service manager the state of this process (sd_notify of systemd): a datagram to
// the socket that NOTIFY_SOCKET names, where @ stands for the zero byte of an abstract one. Without a service manager it does
// nothing. It unsets the variable, so that programs that the process starts do not speak for it.
func notifier() (tell func(state string)) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return func(string) {}
	}
	_ = os.Unsetenv("NOTIFY_SOCKET") // it fails only for invalid names
	return func(state string) {
		connection, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			return // a service manager that does not listen misses nothing that is needed
		}
		defer connection.Close()
		_ = connection.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = connection.Write([]byte(state))
	}
}
