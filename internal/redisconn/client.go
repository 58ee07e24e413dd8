// Package redisconn is how this module talks to a Redis or Valkey server (Redis 7.0, Valkey 7.2 or later): connections that
// give up on a server that is silent, operations that end with their context, and coded errors that tell what is wrong
// without a word of the URL's secrets.
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

// DefaultTimeout is what a client's user takes where nothing else is asked for.
const DefaultTimeout = 2 * time.Second

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

	// Timeout is how long an operation may wait for a connection and for the first byte of the answer, in all; and how long the
	// server may be silent then. At least 1 millisecond.
	Timeout time.Duration

	// Longest is the most that an operation lasts in all; 0: 15 times Timeout, for values that take their time. See Brief.
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
	places  chan struct{} // those of operations that have, or may have, a connection
	breaker breaker

	mu     sync.RWMutex
	closed bool
	users  sync.WaitGroup // operations, which may go on after their callers left
}

// quiet keeps the library from writing to stderr on its own: what goes wrong is told by the operation that it went wrong in.
var quiet = sync.OnceFunc(logging.Disable)

// New makes a client without a look at the server. Options that are out of range, and a URL that cannot be used, are
// bad_request.
func New(o *Options) (*Client, error) {
	c := &Client{o: *o, places: make(chan struct{}, pooled)}
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
	return c, nil
}

// Key is the key of the server with that name, which Prefix begins.
func (c *Client) Key(name string) string { return c.o.Prefix + name }

// Do runs an operation on the server, unless the context has ended or the client is closed. It leaves with the context; the
// operation ends by itself then, and as the server may send meanwhile what it was asked for, that may be later: ended, which
// may be nil, is called once when nothing of the operation is left, also where it never began. One whose connection the server
// had closed is run again: every operation must be such that it may be run twice. After one that had no answer within its
// time, others fail at once, but for one each half second that tries whether the server answers again.
//
// The errors: those of the context; ErrClosed; redis.Nil and coded errors as the operation gave them; anything else is
// unavailable, and its cause (Err) says what is wrong with which server: that is for logs, and not for callers.
func (c *Client) Do(ctx context.Context, operation func(ctx context.Context, server *redis.Client) error, ended func()) error {
	if ended == nil {
		ended = func() {}
	}
	if c.breaker.isOpen() { // others wait for what tries the server, so that is never a long operation
		if err := c.Brief(ctx, ping); err != nil {
			ended()
			return err
		}
	}
	return c.within(ctx, c.o.Longest, operation, ended)
}

// Brief is Do for an operation on little, whose whole answer is there within Timeout.
func (c *Client) Brief(ctx context.Context, operation func(ctx context.Context, server *redis.Client) error) error {
	return c.within(ctx, c.o.Timeout, operation, func() {})
}

// within is Do for an operation that lasts no longer than that.
func (c *Client) within(ctx context.Context, longest time.Duration, operation func(ctx context.Context, server *redis.Client) error, ended func()) error {
	begun := false
	defer func() {
		if !begun {
			ended()
		}
	}()
	if err := ctx.Err(); err != nil {
		return err
	}
	if !c.enter() {
		return ErrClosed
	}
	limited, cancel := context.WithTimeout(ctx, longest)
	first := &patient{limited, time.Now().Add(c.o.Timeout)}
	trial, err := c.begin(limited, longest <= c.o.Timeout)
	if err != nil {
		cancel()
		c.users.Done()
		return c.fault(ctx, limited, longest, err)
	}
	done := make(chan error, 1)
	var once sync.Once
	end := func(err error) error {
		err = c.fault(ctx, limited, longest, err)
		once.Do(func() { c.breaker.leave(trial, err) })
		return err
	}
	begun = true
	go func() {
		var err error
		defer func() {
			if p := recover(); p != nil { // a length that no memory has, in what is not the server's protocol
				err = errNonsense
			}
			ended()
			done <- end(err)
			<-c.places
			cancel()
			c.users.Done()
		}()
		err = c.again(first, func() error { return operation(first, c.server) })
	}()
	select {
	case err := <-done:
		return err
	case <-limited.Done():
		select {
		case err := <-done: // which is why limited ended
			return err
		default:
			return end(limited.Err())
		}
	}
}

// errNoPlace is that all connections were in use.
var errNoPlace = errors.New("no connection was free")

// begin waits for a place among the operations, unless the server is known not to answer: also when that is known only at
// the end of the wait. A brief one may be a trial.
func (c *Client) begin(ctx context.Context, brief bool) (trial bool, err error) {
	if err := c.breaker.broken(); err != nil {
		return false, err
	}
	select {
	case c.places <- struct{}{}:
	default:
		patience := time.NewTimer(c.o.Timeout)
		defer patience.Stop()
		select {
		case c.places <- struct{}{}:
		case <-ctx.Done():
			return false, ctx.Err()
		case <-patience.C:
			return false, errNoPlace
		}
	}
	if trial, err = c.breaker.enter(brief); err != nil {
		<-c.places
	}
	return trial, err
}

// patient is the context of an operation as the library sees it: its deadline is that of the first byte of the answer. A
// connection on which bytes come goes on beyond it, see conn.
type patient struct {
	context.Context
	first time.Time
}

func (p *patient) Deadline() (time.Time, bool) {
	if end, ok := p.Context.Deadline(); ok && end.Before(p.first) {
		return end, true
	}
	return p.first, true
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

// enter counts one more operation, unless the client is closed.
func (c *Client) enter() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.closed {
		c.users.Add(1)
	}
	return !c.closed
}

func (c *Client) isClosed() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.closed
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

// Ping tells whether the server can be used, with the error that an operation would have.
func (c *Client) Ping(ctx context.Context) error {
	return c.Do(ctx, ping, nil)
}

func ping(ctx context.Context, server *redis.Client) error { return server.Ping(ctx).Err() }

// Close ends the operations that are under way with ErrClosed, waits for what they left behind, and closes the connections.
// A second Close does nothing.
func (c *Client) Close() {
	c.mu.Lock()
	before := c.closed
	c.closed = true
	c.mu.Unlock()
	if before {
		return
	}
	_ = c.server.Close() // of connections, which cannot be used any more either way
	c.users.Wait()
}
