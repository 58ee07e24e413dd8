package app

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// openListener tells when clients are let in, and leaves none waiting when it is closed: whom the system has
// connected by then is answered. A proxy that has sent a request, and is cut off, may not send it to another server.
type openListener struct {
	net.Listener
	open   func()
	ending atomic.Bool
	last   []net.Conn // those that were waiting at the end
}

// Accept implements net.Listener.
func (l *openListener) Accept() (net.Conn, error) {
	l.open()
	if len(l.last) == 0 {
		conn, err := l.Listener.Accept()
		if !l.ending.Load() || err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return conn, err
		}
		l.last = closed(l.Listener)
	}
	if len(l.last) == 0 {
		return nil, net.ErrClosed
	}
	conn := l.last[0]
	l.last = l.last[1:]
	return conn, nil
}

// Close has Accept close the listener, once it has nobody left: what it waits for ends.
func (l *openListener) Close() error {
	if d, ok := l.Listener.(*net.TCPListener); ok {
		l.ending.Store(true)
		return d.SetDeadline(time.Unix(1, 0))
	}
	return l.Listener.Close()
}
