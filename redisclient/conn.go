package redisclient

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// piece is how much is written between two looks at the clock.
const piece = 256 << 10

// dialer makes connections that give up when the server is silent.
type dialer struct {
	silence time.Duration
	tls     *tls.Config // nil: without
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.silence)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, silence: d.silence}
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

// conn is a connection on which a read or a piece of a write that lasts as long as silence fails. A large value takes its
// time where the network is slow, and a server that hangs is noticed soon all the same. Deadlines that are set hold too.
type conn struct {
	net.Conn
	silence     time.Duration
	read, write atomic.Pointer[time.Time] // deadlines that were set; nil or zero: none
}

func (c *conn) Read(p []byte) (int, error) {
	if err := c.Conn.SetReadDeadline(c.until(&c.read)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *conn) Write(p []byte) (written int, err error) {
	for err == nil {
		if err = c.Conn.SetWriteDeadline(c.until(&c.write)); err != nil {
			break
		}
		var n int
		n, err = c.Conn.Write(p[written:min(written+piece, len(p))])
		written += n
		if written == len(p) {
			break
		}
	}
	return written, err
}

// until is the earlier of the deadline that was set and the end of patience.
func (c *conn) until(set *atomic.Pointer[time.Time]) time.Time {
	patience := time.Now().Add(c.silence)
	if at := set.Load(); at != nil && !at.IsZero() && at.Before(patience) {
		return *at
	}
	return patience
}

func (c *conn) SetDeadline(t time.Time) error {
	c.read.Store(&t)
	c.write.Store(&t)
	return c.Conn.SetDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.read.Store(&t)
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.write.Store(&t)
	return c.Conn.SetWriteDeadline(t)
}

// SyscallConn lets the pool see whether the server has closed an idle connection.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
