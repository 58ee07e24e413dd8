package app

import "net"

// closed closes a listener. It gives no connections: on Windows those that nobody has accepted yet are lost with it.
func closed(l net.Listener) []net.Conn {
	_ = l.Close()
	return nil
}
