// Package redisconn connects to a Redis or Valkey server (Redis 7.0, Valkey 7.2 or later). Operations end with their context and do
// not wait for a server that hangs. Errors have codes and never contain the secrets of the URL.
//
// A client connects when it is used. While the server is unreachable, operations fail; afterwards it is used again at once.
package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/onecall-mcp/onecall/fault"
)

const (
	longFactor = 15  // default LongTimeout in multiples of Timeout
	maxPrefix  = 200 // maximum bytes of Prefix
	poolSize   = 32  // maximum concurrent connections
	maxIdle    = 8   // maximum idle connections
)

// ErrClosed is the error of operations on a closed client.
var ErrClosed = errors.New("the connection to the server is closed")

// Options are the settings of a Client.
type Options struct {
	// Name is the purpose of the server for users, as in errors: "result store".
	Name string

	// URL is the server: redis://user:password@host:6379/0, rediss:// for TLS, unix://user:password@/path/to.sock?db=0. User, password,
	// port and database are optional. Errors never show the user or the password.
	URL string

	// Prefix begins every key; at most 200 bytes.
	Prefix string

	// Timeout limits the wait for a connection, and short operations. At least 1 millisecond.
	Timeout time.Duration

	// LongTimeout limits long operations; 0: 15 times Timeout. See Do.
	LongTimeout time.Duration

	// TLS is used for rediss://, for servers with a certificate that the system does not trust or that require a client certificate; nil:
	// the system's roots and the host of the URL.
	TLS *tls.Config
}

// Client is a server with its connections. It is safe for concurrent use.
type Client struct {
	o       Options
	address string // the server's address as errors show it
	server  *redis.Client
	breaker *breaker
	slots   chan struct{} // one for each operation that may use a connection, even after its caller left
	closed  chan struct{}
	close   func()
}

// silenceLibrary stops the library from writing to stderr. Operations return its errors.
var silenceLibrary = sync.OnceFunc(logging.Disable)

// New returns a client without connecting. Options that are out of range and invalid URLs are bad_request.
func New(o *Options) (*Client, error) {
	c := &Client{o: *o, breaker: newBreaker(), slots: make(chan struct{}, poolSize), closed: make(chan struct{})}
	if c.o.LongTimeout == 0 {
		c.o.LongTimeout = longFactor * c.o.Timeout
	}
	switch {
	case len(o.Prefix) > maxPrefix:
		return nil, fault.New(fault.BadRequest, "The prefix of the %s's keys has %d bytes, but may have at most %d.", o.Name, len(o.Prefix),
			maxPrefix)
	case o.Timeout < time.Millisecond:
		return nil, fault.New(fault.BadRequest, "The timeout of the %s must be at least 1ms, not %v.", o.Name, o.Timeout)
	case c.o.LongTimeout < o.Timeout:
		return nil, fault.New(fault.BadRequest, "The timeout of long operations of the %s must be at least its timeout, %v, not %v.", o.Name,
			o.Timeout, o.LongTimeout)
	}
	settings, err := c.settings()
	if err != nil {
		return nil, err
	}
	silenceLibrary()
	c.address = settings.Addr
	c.server = redis.NewClient(settings)
	c.close = sync.OnceFunc(func() {
		close(c.closed)
		_ = c.server.Close() // closes connections, which are unusable in any case
		for range poolSize { // operations in progress have failed and end now
			c.slots <- struct{}{}
		}
	})
	return c, nil
}

// Key returns the server's key for a name, with the prefix.
func (c *Client) Key(name string) string { return c.o.Prefix + name }

// Do runs a long operation, which transfers large values. The server must first answer a ping within Timeout. A server that hangs
// during the operation is noticed after LongTimeout.
//
// Do returns as soon as the context ends. The operation ends with the context's deadline, but continues after a cancellation: ended is
// called once when nothing of it is left, even if it never started. An operation whose connection the server had closed is run again,
// so it must be safe to run twice.
//
// Errors are those of the context; ErrClosed; redis.Nil and coded errors of the operation; anything else is unavailable, with a
// cause (Err) for logs that says what is wrong with which server. Callers must not see the cause.
func (c *Client) Do(ctx context.Context, operation func(ctx context.Context, server *redis.Client) error, ended func()) error {
	return c.detach(ctx, ended, func(brief context.Context) error {
		if err := c.attempt(ctx, brief, c.o.Timeout, ping); err != nil {
			return err
		}
		long, cancel := context.WithTimeout(ctx, c.o.LongTimeout)
		defer cancel()
		return c.attempt(ctx, long, c.o.LongTimeout, operation)
	})
}

// DoShort is Do for an operation that ends within Timeout.
func (c *Client) DoShort(ctx context.Context, operation func(ctx context.Context, server *redis.Client) error) error {
	return c.detach(ctx, func() {}, func(brief context.Context) error { return c.attempt(ctx, brief, c.o.Timeout, operation) })
}

func ping(ctx context.Context, server *redis.Client) error { return server.Ping(ctx).Err() }

// detach runs an operation and returns before its end if the context ends, because the library notices deadlines but not cancellations.
func (c *Client) detach(ctx context.Context, ended func(), operation func(brief context.Context) error) error {
	if ctx.Err() != nil {
		ended()
		return ctx.Err()
	}
	done := make(chan error, 1)
	go func() {
		err := c.withConnection(ctx, operation)
		ended()
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errBusy is the error if all connections were in use.
var errBusy = errors.New("no connection was free")

// withConnection runs an operation when a connection is free, unless the server is known to hang. The operation's context ends within
// Timeout, including the wait for the connection.
func (c *Client) withConnection(ctx context.Context, operation func(brief context.Context) error) error {
	brief, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	if c.isClosed() {
		return ErrClosed
	}
	if err := c.breaker.openError(true); err != nil {
		return err
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
		return operation(brief)
	case <-c.closed:
	case <-brief.Done():
	}
	return c.fault(ctx, brief, c.o.Timeout, errBusy)
}

// attempt runs an operation in the context limited, which ends with the caller's context ctx or after bound.
func (c *Client) attempt(ctx, limited context.Context, bound time.Duration,
	operation func(ctx context.Context, server *redis.Client) error) error {
	if err := c.breaker.openError(bound <= c.o.Timeout); err != nil {
		return err
	}
	return c.breaker.run(func() (err error) {
		defer func() {
			if recover() != nil { // caused by a reply of another protocol with an impossible length
				err = errProtocol
			}
			err = c.fault(ctx, limited, bound, err)
		}()
		return c.retry(limited, func() error { return operation(limited, c.server) })
	})
}

// retry makes an attempt, and repeats it if the server had closed the connection. The pool may contain as many closed connections as were
// ever used at once.
func (c *Client) retry(ctx context.Context, attempt func() error) error {
	err := attempt()
	for n := 0; n < poolSize && connectionClosed(err) && ctx.Err() == nil && !c.isClosed(); n++ {
		err = attempt()
	}
	return err
}

func (c *Client) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// Transaction runs commands together or not at all. It returns the error of the first refused command, not that of the others that were
// aborted.
func Transaction(ctx context.Context, server *redis.Client, commands func(tx redis.Pipeliner)) error {
	done, err := server.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		commands(tx)
		return nil
	})
	for _, c := range done {
		if commandErr := c.Err(); commandErr != nil && !redis.IsExecAbortError(commandErr) {
			return commandErr
		}
	}
	return err
}

// Close ends operations in progress with ErrClosed, waits until nothing of them is left, and closes the connections. Further calls do
// nothing.
func (c *Client) Close() { c.close() }
