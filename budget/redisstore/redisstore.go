// Package redisstore keeps results on a Redis or Valkey server (Redis 7.0, Valkey 7.2 or later), where every replica of onecall finds
// the results of the others.
//
// A store connects when it is used. While the server is unreachable, operations fail; once it is reachable again, they use it at once. The
// lifetime of a result is measured by the server's clock alone. Clocks of replicas may differ from it and may jump, so times are
// converted to and from the clock of the caller.
package redisstore

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	_ "embed"
	"encoding/base64"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/internal/recent"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/redisconn"
)

// Defaults of Options.
const (
	defaultPrefix   = "onecall:results:"
	defaultTimeout  = 2 * time.Second
	defaultCompress = 4 << 20
)

const (
	overhead  = 512       // bytes that an entry counts in addition: its key and its index entries
	maxStored = 512 << 20 // bytes of a string, the default limit of servers (proto-max-bulk-len)
)

// Options are the settings of a Store. A zero field other than URL means the default.
type Options struct {
	// URL is the server: redis://user:password@host:6379/0, rediss:// for TLS, unix://user:password@/path/to.sock?db=0. User, password,
	// port and database are optional. Errors never show the user or the password.
	URL string

	// Prefix begins every key of the store. Stores with the same prefix and database share results. Default "onecall:results:", at most
	// 200 bytes.
	Prefix string

	// MaxBytes limits all results under the prefix together, as stored (compressed, plus 512 bytes for each); default 1 GiB, -1 for no
	// limit. A single result above it, or above 512 MiB, is limit_exceeded.
	MaxBytes int64

	// Timeout limits an operation, including the wait for a connection; default 2 s, at least 1 ms. For a value above 64 KiB the server
	// must answer a ping within Timeout, and then has 15 times as long for the value. Clocks that differ by less than Timeout count as
	// equal.
	Timeout time.Duration

	// Compress is the minimum size in bytes of a value that is compressed; default 4 MiB, -1 for never.
	Compress int

	// TLS is used for rediss://, for servers with a certificate that the system does not trust or that require a client certificate;
	// default: the system's roots and the host of the URL.
	TLS *tls.Config

	Now func() time.Time // the clock; default time.Now
}

// Store is a budget.Driver. Above MaxBytes it removes results of the owner that uses most, those that expire first, which are the least
// recently used. It holds large values in memory for a minute after they were read, up to 64 MiB, so that paging through a value does not
// transfer it for each page. Each read still checks that the value exists.
type Store struct {
	o        Options
	maxBytes atomic.Int64 // current limit of all results together
	client   *redisconn.Client
	codec    *codec
	close    func()

	transfers *semaphore.Weighted    // bytes of large values in transfer
	recent    *recent.Values[string] // large values that were read; the version of each is what precedes the value in its entry
}

var (
	//go:embed index.lua
	indexScript string
	//go:embed keep.lua
	keepScript string
	//go:embed touch.lua
	touchScript string
	//go:embed forget.lua
	forgetScript string

	keep   = indexScript + keepScript
	touch  = redis.NewScript(indexScript + touchScript)
	forget = redis.NewScript(indexScript + forgetScript)
)

// New returns a store without connecting. Options that are out of range and invalid URLs are bad_request.
func New(o *Options) (*Store, error) {
	s := &Store{transfers: semaphore.NewWeighted(maxTransferBytes),
		recent: recent.New(recent.DefaultMaxBytes, func(a, b string) bool { return a == b })}
	if o != nil {
		s.o = *o
	}
	if err := s.o.applyDefaults(); err != nil {
		return nil, err
	}
	if err := s.SetMaxBytes(s.o.MaxBytes); err != nil {
		return nil, err
	}
	var err error
	s.client, err = redisconn.New(&redisconn.Options{Name: "result store", URL: s.o.URL, Prefix: s.o.Prefix, Timeout: s.o.Timeout,
		TLS: s.o.TLS})
	if err != nil {
		return nil, err
	}
	if s.codec, err = newCodec(s.o.Compress); err != nil {
		return nil, err
	}
	s.close = sync.OnceFunc(func() {
		s.client.Close()
		s.recent.Close()
		s.codec.close()
	})
	return s, nil
}

// applyDefaults fills in defaults and refuses what is out of range.
func (o *Options) applyDefaults() error {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Compress == 0 {
		o.Compress = defaultCompress
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Compress < -1 {
		return fault.New(fault.BadRequest,
			"The size from which results are compressed must be a number of bytes, or -1 for never, not %d.", o.Compress)
	}
	return nil
}

// SetMaxBytes implements budget.Driver. Results above the new limit are removed by the next Put.
func (s *Store) SetMaxBytes(maxBytes int64) error {
	limit, err := budget.ResolveMaxBytes(maxBytes)
	if err == nil {
		s.maxBytes.Store(limit)
	}
	return err
}

// idOf returns the id of a key on the server.
func idOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// keys returns the keys that a script about an entry uses: that of the entry and those of the index.
func (s *Store) keys(id string) []string {
	return []string{s.client.Key(id), s.client.Key("by-expiry"), s.client.Key("sizes"), s.client.Key("parts")}
}

// arguments returns the common arguments of the scripts about an entry.
func (s *Store) arguments(id string, more ...any) []any {
	return append([]any{s.client.Key(""), id, micros(s.o.Now()), s.o.Timeout.Microseconds()}, more...)
}

// Put implements budget.Driver.
func (s *Store) Put(ctx context.Context, key string, e budget.Entry) error {
	if len(e.Owner) > maxOwner {
		return fault.New(fault.Internal, "The owner of a result has %d bytes, but may have at most %d.", len(e.Owner), maxOwner)
	}
	lifetime := e.Expires.Sub(s.o.Now())
	if lifetime < time.Millisecond {
		return s.Delete(ctx, key) // it has expired, and so has what it replaces
	}
	done, err := s.reserve(ctx, int64(len(e.Value)))
	if err != nil {
		return err
	}
	id := idOf(key)
	encoded := s.codec.encode(id, e) // before the operation, so that compressing takes none of the time that the server has
	// Only the script knows whether other owners have results: put checks that limit.
	if err := budget.CheckSize(int64(len(encoded))+overhead, min(s.maxBytes.Load(), maxStored), true); err != nil {
		done()
		return err
	}
	return s.do(ctx, int64(len(e.Value)), func(ctx context.Context, server *redis.Client) error {
		return s.put(ctx, server, id, encoded, e, lifetime)
	}, done)
}

// put stores an encoded entry.
func (s *Store) put(ctx context.Context, server *redis.Client, id string, encoded []byte, e budget.Entry, lifetime time.Duration) error {
	size, all := int64(len(encoded))+overhead, s.maxBytes.Load()
	// The transaction sets the value directly because a script would copy it twice while the server does nothing else. The lifetime given
	// to SET applies only if the script fails; otherwise the script sets the correct one.
	var reply *redis.Cmd
	err := redisconn.Transaction(ctx, server, func(tx redis.Pipeliner) {
		tx.Set(ctx, s.client.Key(id), encoded, lifetime+2*s.o.Timeout)
		reply = tx.Eval(ctx, keep, s.keys(id), s.arguments(id, size, all, micros(e.Created), micros(e.Expires), overhead, ownerAt, headerSize)...)
	})
	if err != nil {
		return err
	}
	alone, err := reply.Bool()
	if err == nil && !alone {
		err = budget.CheckSize(size, all, false)
	}
	return err
}

// drift returns how far this clock is ahead of the server's, which reported its time between sent and received; 0 if the difference is
// within the tolerance.
func (s *Store) drift(server, sent, received time.Time) time.Duration {
	switch {
	case server.Before(sent.Add(-s.o.Timeout)):
		return sent.Sub(server)
	case server.After(received.Add(s.o.Timeout)):
		return received.Sub(server)
	}
	return 0
}

// Touch implements budget.Driver.
func (s *Store) Touch(ctx context.Context, key string, expires time.Time) error {
	id := idOf(key)
	return s.doSmall(ctx, func(ctx context.Context, server *redis.Client) error {
		exists, err := touch.Run(ctx, server, s.keys(id), s.arguments(id, micros(expires))...).Bool()
		if err == nil && !exists {
			err = redis.Nil
		}
		return err
	})
}

// Delete implements budget.Driver.
func (s *Store) Delete(ctx context.Context, key string) error {
	id := idOf(key)
	return s.doSmall(ctx, func(ctx context.Context, server *redis.Client) error {
		return forget.Run(ctx, server, s.keys(id), s.arguments(id)...).Err()
	})
}

// Close implements budget.Driver. The results stay on the server until they expire.
func (s *Store) Close() error {
	s.close()
	return nil
}

// do runs an operation that transfers the given number of bytes. The operation may be run twice. done comes from reserve and is called when
// the operation has ended, unless bytes is at most prefixBytes, for which reserve reserves nothing.
func (s *Store) do(ctx context.Context, bytes int64, operation func(context.Context, *redis.Client) error, done func()) error {
	if bytes <= prefixBytes {
		return s.doSmall(ctx, operation)
	}
	return driverError(s.client.Do(ctx, operation, done))
}

// doSmall is do for an operation on few bytes.
func (s *Store) doSmall(ctx context.Context, operation func(context.Context, *redis.Client) error) error {
	return driverError(s.client.DoShort(ctx, operation))
}

// driverError converts an error of the client into that of a driver.
func driverError(err error) error {
	switch {
	case errors.Is(err, redis.Nil):
		return budget.ErrNotFound
	case errors.Is(err, redisconn.ErrClosed):
		return budget.ErrClosed
	}
	return err
}
