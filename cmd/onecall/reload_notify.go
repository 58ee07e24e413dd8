package main

import (
	"net"
	"os"
	"time"
)

// notifier gives what tells the service manager of this process's state (sd_notify of systemd): a datagram to the socket that
// NOTIFY_SOCKET names, where @ stands for the zero byte of an abstract one. Without a service manager it does nothing.
func notifier() (tell func(state string)) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return func(string) {}
	}
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
