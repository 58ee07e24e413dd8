package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// piece is how much is written between two looks at the clock.
const piece = 256 << 10

// dialer makes connections that give up when the server is silent.
type dialer struct {
	silence time.Duration
	more    time.Duration // that an operation may last beyond its first deadline while bytes come
	tls     *tls.Config   // nil: without
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.silence)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, silence: d.silence, more: d.more}
	if d.tls == nil {
		return c, nil
	}
	secure := tls.Client(c, d.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return secure, nil
}

// conn is a connection on which an operation ends by the deadline that was set for it, unless bytes of it have moved by then: it
// may go on for as long as more do within each silence. So a large value takes its time where the network is slow, and a
// server that hangs is noticed soon all the same.
type conn struct {
	net.Conn
	silence, more time.Duration

	mu       sync.Mutex
	deadline time.Time // of the operation; zero: none
	moved    time.Time // when its bytes moved last; zero: none has yet
}

func (c *conn) Read(p []byte) (int, error) {
	if err := c.Conn.SetReadDeadline(c.until()); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.move()
	}
	return n, err
}

func (c *conn) Write(p []byte) (written int, err error) {
	for err == nil {
		if err = c.Conn.SetWriteDeadline(c.until()); err != nil {
			break
		}
		var n int
		n, err = c.Conn.Write(p[written:min(written+piece, len(p))])
		written += n
		if written == len(p) {
			break // which shows no more than that there is a buffer
		}
		c.move()
	}
	return written, err
}

func (c *conn) move() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved = time.Now()
}

// until is when patience ends.
func (c *conn) until() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch patience := time.Now().Add(c.silence); {
	case c.deadline.IsZero():
		return patience
	case c.moved.IsZero():
		return earlier(patience, c.deadline)
	}
	end, last := c.moved.Add(c.silence), c.deadline.Add(c.more)
	if end.Before(c.deadline) {
		end = c.deadline
	}
	return earlier(end, last)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// set takes the deadline of an operation; one that was not set before is that of another operation.
func (c *conn) set(deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !deadline.Equal(c.deadline) {
		c.deadline, c.moved = deadline, time.Time{}
	}
}

func (c *conn) SetDeadline(t time.Time) error {
	c.set(t)
	return c.Conn.SetDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.set(t)
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.set(t)
	return c.Conn.SetWriteDeadline(t)
}

// SyscallConn lets the pool see whether the server has closed an idle connection.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
