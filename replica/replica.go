// Package replica keeps what replicas of a server share beside results, on a Redis or Valkey server (Redis 7.0, Valkey 7.2
// or later): whose sessions there are, the numbers of each session, and how often each caller comes.
//
// Nothing is asked before it is needed: while the server is away every operation is unavailable, and it is used again within
// a second or so of coming back. All times are those of the server's clock: those of replicas may differ and jump.
//
// What is kept of a session is lost where the server loses it. A server that writes to the disk (appendonly yes) has it after
// a restart. Else its sessions are not found, and clients begin anew; so they do where a server gives up keys to save memory
// (a maxmemory-policy other than noeviction).
//
// Nothing readable is kept of callers and sessions: keys are made of SHA-256 hashes, in which the owner has a part, so that
// nobody finds a session who does not name its owner.
package replica

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/redisclient"
)

// Defaults of Options.
const (
	DefaultPrefix  = "onecall:shared:"
	DefaultTimeout = redisclient.DefaultTimeout
	DefaultTTL     = 30 * time.Minute
)

// Options are the settings of a Store; a zero field but URL stands for its default. Replicas are given the same.
type Options struct {
	// URL names the server: redis://user:password@host:6379/0, rediss:// for TLS, unix://user:password@/path/to.sock?db=0.
	// User, password, port and the number of the database may be missing. Errors never show the user or the password.
	URL string

	// Prefix begins every key that the store uses. Stores that share a prefix (and a database) share sessions and rates.
	// Default DefaultPrefix, at most 200 bytes.
	Prefix string

	// Timeout bounds each operation, all waiting included; default DefaultTimeout, at least 1 millisecond.
	Timeout time.Duration

	// TTL is how long a session lives that is not used; default DefaultTTL, at least 1 second. Every operation on it is a use.
	// A session may end up to 5 seconds sooner, and never more than a tenth of TTL: so seldom is its life extended.
	TTL time.Duration

	// TLS is what rediss:// uses, for a server whose certificate the system does not trust, or one that wants a certificate
	// itself; default the system's roots and the host of the URL.
	TLS *tls.Config
}

// Store is what replicas share. It is safe for concurrent use.
type Store struct {
	o      Options
	client *redisclient.Client
}

// New makes a store without a look at the server. Options that are out of range, and a URL that cannot be used, are
// bad_request.
func New(o *Options) (*Store, error) {
	s := &Store{}
	if o != nil {
		s.o = *o
	}
	s.o.Prefix = cmp.Or(s.o.Prefix, DefaultPrefix)
	s.o.Timeout = cmp.Or(s.o.Timeout, DefaultTimeout)
	s.o.TTL = cmp.Or(s.o.TTL, DefaultTTL)
	if s.o.TTL < time.Second {
		return nil, fault.New(fault.BadRequest, "The life of a session that is not used must be at least 1s, not %v.", s.o.TTL)
	}
	var err error
	s.client, err = redisclient.New(&redisclient.Options{
		Name: "session store", URL: s.o.URL, Prefix: s.o.Prefix, Timeout: s.o.Timeout, Longest: s.o.Timeout, TLS: s.o.TLS,
	})
	return s, err
}

// Ping tells whether the server can be used, with the error that an operation would have.
func (s *Store) Ping(ctx context.Context) error {
	return s.do(ctx, func(ctx context.Context, server *redis.Client) error { return server.Ping(ctx).Err() })
}

// Close ends the use of the store: operations under way and later ones are unavailable. What it kept stays on the server
// until it expires.
func (s *Store) Close() { s.client.Close() }

// errAnswer is an answer that no command or script of this package has.
var errAnswer = errors.New("not an answer of the script")

// do runs an operation on the server, which may be run twice.
func (s *Store) do(ctx context.Context, operation func(context.Context, *redis.Client) error) error {
	return coded(s.client.Brief(ctx, func(ctx context.Context, server *redis.Client) error {
		err := operation(ctx, server)
		if errors.Is(err, redis.Nil) { // no value, where there always is one
			return errAnswer
		}
		return err
	}))
}

// coded gives a code to the errors of the client that have none: those of a context, and that of a client that was closed.
func coded(err error) error {
	if _, ok := fault.As(err); ok || err == nil {
		return err
	}
	f := fault.New(fault.Internal, "A defect of onecall stopped the use of the session store.")
	switch {
	case errors.Is(err, context.Canceled):
		f = fault.New(fault.Cancelled, "The request was cancelled while the session store was asked.")
	case errors.Is(err, context.DeadlineExceeded):
		f = fault.New(fault.Timeout, "The request's time was over while the session store was asked.")
	case errors.Is(err, redisclient.ErrClosed):
		f = fault.New(fault.Unavailable, "The session store is closed: this server is about to end. Try again in a moment.")
	}
	f.Err = err
	return f
}

// hashed stands for a text in a key: 132 bits of its hash, so that keys are short and hold nothing to be read.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:22]
}
