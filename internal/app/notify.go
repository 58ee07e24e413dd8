package app

import (
	"net"
	"os"
	"time"
)

// notifier returns a function that reports the state of this process to the service manager (sd_notify of systemd). It sends a datagram
// to the socket that NOTIFY_SOCKET names, where @ stands for the zero byte of an abstract socket. Without a service manager it does
// nothing. notifier unsets the variable so that child processes do not report on behalf of this one.
func notifier() (notify func(state string)) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return func(string) {}
	}
	_ = os.Unsetenv("NOTIFY_SOCKET") // fails only for invalid names
	return func(state string) {
		connection, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			return // the service manager does not listen
		}
		defer connection.Close()
		_ = connection.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = connection.Write([]byte(state))
	}
}
