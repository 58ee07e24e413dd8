package app

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// drainListener is a listener that reports when clients can connect. When it is closed, it still accepts the connections in the system's
// backlog, so that their requests are answered: a proxy that is cut off after it sent a request may not try another server.
type drainListener struct {
	net.Listener
	onAccept func() // called at the beginning of every Accept
	closing  atomic.Bool
	backlog  []net.Conn // connections of the backlog that Accept has yet to return; only after Close
}

// Accept implements net.Listener.
func (l *drainListener) Accept() (net.Conn, error) {
	l.onAccept()
	if len(l.backlog) == 0 {
		conn, err := l.Listener.Accept()
		if !l.closing.Load() || err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return conn, err
		}
		l.backlog = drain(l.Listener)
	}
	if len(l.backlog) == 0 {
		return nil, net.ErrClosed
	}
	conn := l.backlog[0]
	l.backlog = l.backlog[1:]
	return conn, nil
}

// Close makes Accept close the TCP listener, return the connections of its backlog, and then fail with net.ErrClosed. Any other listener
// is closed at once.
func (l *drainListener) Close() error {
	if d, ok := l.Listener.(*net.TCPListener); ok {
		l.closing.Store(true)
		return d.SetDeadline(time.Unix(1, 0)) // in the past, so that a waiting Accept returns
	}
	return l.Listener.Close()
}
