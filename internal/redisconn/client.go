// Package redisconn is how this module talks to a Redis or Valkey server (Redis 7.0, Valkey 7.2 or later): operations that end
// with their context and give up on a server that hangs, and coded errors that say what is wrong without a word of the URL's
// secrets.
//
// A client connects when it is used: a server that is not there fails the operations made meanwhile and nothing else, and
// is used again as soon as it is back.
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
	longest   = 15  // times Timeout: the most that one operation lasts where Options do not say it
	maxPrefix = 200 // bytes
	pooled    = 32  // connections at once
	idle      = 8   // connections that stay open unused
)

// ErrClosed is the error of an operation on a client that was closed.
var ErrClosed = errors.New("the connection to the server is closed")

// Options are the settings of a Client.
type Options struct {
	// Name is what the server is for its users, as errors call it: "result store".
	Name string

	// URL names the server: redis://user:password@host:6379/0, rediss:// for TLS, unix://user:password@/path/to.sock?db=0.
	// User, password, port and the number of the database may be missing. Errors never show the user or the password.
	URL string

	// Prefix begins every key of the server that is used; at most 200 bytes.
	Prefix string

	// Timeout is how long an operation may wait for a connection, and how long a brief one may last. At least 1 millisecond.
	Timeout time.Duration

	// Longest is how long a long operation may last; 0: 15 times Timeout. See Do.
	Longest time.Duration

	// TLS is what rediss:// uses, for a server whose certificate the system does not trust, or one that wants a certificate
	// itself; nil: the system's roots and the host of the URL.
	TLS *tls.Config
}

// Client is a server and the connections to it. It is safe for concurrent use.
type Client struct {
	o       Options
	address string // as errors name it
	server  *redis.Client
	breaker *breaker
	places  chan struct{} // one for each operation that may have a connection, also after its caller left
	closed  chan struct{}
	close   func()
}

// quiet keeps the library from writing to stderr on its own: what goes wrong is told by the operation that it went wrong in.
var quiet = sync.OnceFunc(logging.Disable)

// New makes a client without a look at the server. Options that are out of range, and a URL that cannot be used, are
// bad_request.
func New(o *Options) (*Client, error) {
	c := &Client{o: *o, breaker: newBreaker(), places: make(chan struct{}, pooled), closed: make(chan struct{})}
	if c.o.Longest == 0 {
		c.o.Longest = longest * c.o.Timeout
	}
	switch {
	case len(o.Prefix) > maxPrefix:
		return nil, fault.New(fault.BadRequest, "The prefix of the %s's keys has %d bytes and may have %d.", o.Name, len(o.Prefix), maxPrefix)
	case o.Timeout < time.Millisecond:
		return nil, fault.New(fault.BadRequest, "The timeout of the %s must be at least 1ms, not %v.", o.Name, o.Timeout)
	case c.o.Longest < o.Timeout:
		return nil, fault.New(fault.BadRequest, "An operation of the %s must be given its timeout of %v at least, not %v.", o.Name, o.Timeout, o.Longest)
	}
	settings, err := c.settings()
	if err != nil {
		return nil, err
	}
	quiet()
	c.address = settings.Addr
	c.server = redis.NewClient(settings)
	c.close = sync.OnceFunc(func() {
		close(c.closed)
		_ = c.server.Close() // of connections, which cannot be used any more either way
		for range pooled {   // whatever is still under way has failed, and ends now
			c.places <- struct{}{}
		}
	})
	return c, nil
}

// Key is the key of the server with that name, which Prefix begins.
func (c *Client) Key(name string) string { return c.o.Prefix + name }

// Do runs a long operation on the server: one that moves large values. The server must answer a ping within Timeout before it;
// a server that hangs in the middle of the operation is noticed after Longest.
//
// Do returns as soon as the context ends. The operation itself ends with the context's deadline, but goes on after a
// cancellation: ended is called once when nothing of it is left, also if it never began. An operation whose connection the
// server had closed is run again, so it must be safe to run twice.
//
// The errors: those of the context; ErrClosed; redis.Nil and coded errors as the operation gave them; anything else is
// unavailable, and its cause (Err) says what is wrong with which server: that is for logs, and not for callers.
func (c *Client) Do(ctx context.Context, operation func(ctx context.Context, server *redis.Client) error, ended func()) error {
	return c.leave(ctx, ended, func(brief context.Context) error {
		if err := c.attempt(ctx, brief, c.o.Timeout, ping); err != nil {
			return err
		}
		long, cancel := context.WithTimeout(ctx, c.o.Longest)
		defer cancel()
		return c.attempt(ctx, long, c.o.Longest, operation)
	})
}

// Brief is Do for an operation that is over within Timeout.
func (c *Client) Brief(ctx context.Context, operation func(ctx context.Context, server *redis.Client) error) error {
	return c.leave(ctx, func() {}, func(brief context.Context) error { return c.attempt(ctx, brief, c.o.Timeout, operation) })
}

func ping(ctx context.Context, server *redis.Client) error { return server.Ping(ctx).Err() }

// leave runs an operation, and returns before its end if the context ends: the library notices a deadline, but no cancellation.
func (c *Client) leave(ctx context.Context, ended func(), operation func(brief context.Context) error) error {
	if ctx.Err() != nil {
		ended()
		return ctx.Err()
	}
	done := make(chan error, 1)
	go func() {
		err := c.admit(ctx, operation)
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

// errNoPlace is that all connections were in use.
var errNoPlace = errors.New("no connection was free")

// admit runs an operation when a connection is free, unless the server is known to hang. The operation's context ends within
// Timeout, with the wait for the connection.
func (c *Client) admit(ctx context.Context, operation func(brief context.Context) error) error {
	brief, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	if c.isClosed() {
		return ErrClosed
	}
	if err := c.breaker.refuses(true); err != nil {
		return err
	}
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
		return operation(brief)
	case <-c.closed:
	case <-brief.Done():
	}
	return c.fault(ctx, brief, c.o.Timeout, errNoPlace)
}

// attempt runs an operation within a context that ends with the caller's, or after bound.
func (c *Client) attempt(ctx, within context.Context, bound time.Duration, operation func(ctx context.Context, server *redis.Client) error) error {
	if err := c.breaker.refuses(bound <= c.o.Timeout); err != nil {
		return err
	}
	return c.breaker.run(func() (err error) {
		defer func() {
			if recover() != nil { // a length that no memory has, in what is not the server's protocol
				err = errNonsense
			}
			err = c.fault(ctx, within, bound, err)
		}()
		return c.again(within, func() error { return operation(within, c.server) })
	})
}

// again makes an attempt, and another where the server had closed the connection: the pool may hold as many of those as it has
// had at once, as what it keeps unused may be more than idle for a while.
func (c *Client) again(ctx context.Context, attempt func() error) error {
	err := attempt()
	for n := 0; n < pooled && gone(err) && ctx.Err() == nil && !c.isClosed(); n++ {
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

// Transaction does commands together, or none. Its error is that of the first command that was refused, not that the
// others were therefore.
func Transaction(ctx context.Context, server *redis.Client, commands func(tx redis.Pipeliner)) error {
	done, err := server.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		commands(tx)
		return nil
	})
	for _, c := range done {
		if own := c.Err(); own != nil && !redis.IsExecAbortError(own) {
			return own
		}
	}
	return err
}

// Close ends the operations that are under way with ErrClosed, waits for what they left behind, and closes the connections.
// A second Close does nothing.
func (c *Client) Close() { c.close() }
