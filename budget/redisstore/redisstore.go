// Package redisstore keeps results on a Redis or Valkey server (Redis 7.0, Valkey 7.2 or later), where every replica of a
// server finds what another has kept.
//
// A store connects when it is used: a server that is not there fails the operations made meanwhile and nothing else, and
// is used again as soon as it is back. How long a result lives is counted by the server's clock alone. Clocks of replicas
// may differ from it, and may jump: times go in and come out by the clock of whoever asks.
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
	overhead  = 512       // bytes that an entry counts beside its own: its key, its places in the index
	maxStored = 512 << 20 // bytes of a string, the server's bound (proto-max-bulk-len) where it was not changed
)

// Options are the settings of a Store; a zero field but URL stands for its default.
type Options struct {
	// URL names the server: redis://user:password@host:6379/0, rediss:// for TLS, unix://user:password@/path/to.sock?db=0.
	// User, password, port and the number of the database may be missing. Errors never show the user or the password.
	URL string

	// Prefix begins every key that the store uses. Stores that share a prefix (and a database) share results. Default
	// "onecall:results:", at most 200 bytes.
	Prefix string

	// MaxBytes bounds all results under the prefix together, as they are kept (compressed, and 512 bytes for each);
	// default 1 GiB, -1 for no bound. A result that alone passes it, or 512 MiB, is limit_exceeded.
	MaxBytes int64

	// Timeout is how long an operation may take, the wait for a connection included; default 2 s, at least 1
	// millisecond. For a value above 64 KiB the server must answer a ping within Timeout, and has 15 times as long for the
	// value. Clocks that differ by less count as equal.
	Timeout time.Duration

	// Compress is the size in bytes from which on a value is compressed; default 4 MiB, -1 for never.
	Compress int

	// TLS is what rediss:// uses, for a server whose certificate the system does not trust, or one that wants a certificate
	// itself; default the system's roots and the host of the URL.
	TLS *tls.Config

	Now func() time.Time // the clock; default time.Now
}

// Store is a budget.Driver. Where MaxBytes is passed, the results that would expire first go first of the owner that has most:
// those not used for the longest time. A large value that was read lately is held, 64 MiB in all and for a minute, so that a
// client that pages through it does not have it sent for each page; whether it is still there is asked each time.
type Store struct {
	o      Options
	most   atomic.Int64 // bytes of all results together, as MaxBytes says or SetMaxBytes has said
	client *redisconn.Client
	codec  *codec
	close  func()

	carried *semaphore.Weighted    // bytes of large values on their way
	recent  *recent.Values[string] // marked with all that stands before the value
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

// New makes a store without a look at the server. Options that are out of range, and a URL that cannot be used, are
// bad_request.
func New(o *Options) (*Store, error) {
	s := &Store{carried: semaphore.NewWeighted(maxCarried), recent: recent.New(recent.Default, func(a, b string) bool { return a == b })}
	if o != nil {
		s.o = *o
	}
	if err := s.o.complete(); err != nil {
		return nil, err
	}
	if err := s.SetMaxBytes(s.o.MaxBytes); err != nil {
		return nil, err
	}
	var err error
	s.client, err = redisconn.New(&redisconn.Options{Name: "result store", URL: s.o.URL, Prefix: s.o.Prefix, Timeout: s.o.Timeout, TLS: s.o.TLS})
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

// complete fills gaps with defaults and refuses what is out of range.
func (o *Options) complete() error {
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
		return fault.New(fault.BadRequest, "The size from which on results are compressed must be a number of bytes, or -1 for never, not %d.", o.Compress)
	}
	return nil
}

// SetMaxBytes implements budget.Driver. What is beyond the new bound goes with the next result that is kept.
func (s *Store) SetMaxBytes(maxBytes int64) error {
	most, err := budget.Bound(maxBytes)
	if err == nil {
		s.most.Store(most)
	}
	return err
}

// idOf is what stands for a key on the server, whatever the key is.
func idOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// keys are the keys on the server that a script about an entry uses: that of the entry and those of the index.
func (s *Store) keys(id string) []string {
	return []string{s.client.Key(id), s.client.Key("by-expiry"), s.client.Key("sizes"), s.client.Key("parts")}
}

// arguments are what every script is given about an entry.
func (s *Store) arguments(id string, more ...any) []any {
	return append([]any{s.client.Key(""), id, micros(s.o.Now()), s.o.Timeout.Microseconds()}, more...)
}

// Put implements budget.Driver.
func (s *Store) Put(ctx context.Context, key string, e budget.Entry) error {
	if len(e.Owner) > maxOwner {
		return fault.New(fault.Internal, "The owner of a result has %d bytes and may have %d.", len(e.Owner), maxOwner)
	}
	life := e.Expires.Sub(s.o.Now())
	if life < time.Millisecond {
		return s.Delete(ctx, key) // it has expired, and so has what it replaces
	}
	done, err := s.carry(ctx, int64(len(e.Value)))
	if err != nil {
		return err
	}
	id := idOf(key)
	whole := s.codec.encode(id, e) // here, and not in the operation, in whose time the server must answer
	if err := budget.CheckSize(int64(len(whole))+overhead, min(s.most.Load(), maxStored), true); err != nil {
		done()
		return err
	}
	return s.do(ctx, int64(len(e.Value)), func(ctx context.Context, server *redis.Client) error {
		return s.put(ctx, server, id, whole, e, life)
	}, done)
}

// put keeps what an entry was made.
func (s *Store) put(ctx context.Context, server *redis.Client, id string, whole []byte, e budget.Entry, life time.Duration) error {
	size, all := int64(len(whole))+overhead, s.most.Load()
	// The transaction sends the value as it is. A script that was handed it would copy it twice, while the server does
	// nothing else. The life given to SET is for the case that the script fails: it sets the true one.
	var kept *redis.Cmd
	err := redisconn.Transaction(ctx, server, func(tx redis.Pipeliner) {
		tx.Set(ctx, s.client.Key(id), whole, life+2*s.o.Timeout)
		kept = tx.Eval(ctx, keep, s.keys(id), s.arguments(id, size, all, micros(e.Created), micros(e.Expires), overhead, ownerAt, headerSize)...)
	})
	if err != nil {
		return err
	}
	alone, err := kept.Bool()
	if err == nil && !alone {
		err = budget.CheckSize(size, all, false)
	}
	return err
}

// drift is how far this clock is ahead of the server's, which told its time between two of ours; 0 where it is within the
// tolerance.
func (s *Store) drift(server, sent, came time.Time) time.Duration {
	switch {
	case server.Before(sent.Add(-s.o.Timeout)):
		return sent.Sub(server)
	case server.After(came.Add(s.o.Timeout)):
		return came.Sub(server)
	}
	return 0
}

// Touch implements budget.Driver.
func (s *Store) Touch(ctx context.Context, key string, expires time.Time) error {
	id := idOf(key)
	return s.brief(ctx, func(ctx context.Context, server *redis.Client) error {
		there, err := touch.Run(ctx, server, s.keys(id), s.arguments(id, micros(expires))...).Bool()
		if err == nil && !there {
			err = redis.Nil
		}
		return err
	})
}

// Delete implements budget.Driver.
func (s *Store) Delete(ctx context.Context, key string) error {
	id := idOf(key)
	return s.brief(ctx, func(ctx context.Context, server *redis.Client) error {
		return forget.Run(ctx, server, s.keys(id), s.arguments(id)...).Err()
	})
}

// Close implements budget.Driver. The results stay on the server until they expire.
func (s *Store) Close() error {
	s.close()
	return nil
}

// do runs an operation on the server, on so many bytes, which may be run twice; done is what carry gave for them, and is called
// when the operation has ended.
func (s *Store) do(ctx context.Context, bytes int64, operation func(context.Context, *redis.Client) error, done func()) error {
	if bytes <= beginning {
		return s.brief(ctx, operation)
	}
	return known(s.client.Do(ctx, operation, done))
}

// brief is do for an operation on little.
func (s *Store) brief(ctx context.Context, operation func(context.Context, *redis.Client) error) error {
	return known(s.client.Brief(ctx, operation))
}

// known gives an error of the client as that of a driver.
func known(err error) error {
	switch {
	case errors.Is(err, redis.Nil):
		return budget.ErrNotFound
	case errors.Is(err, redisconn.ErrClosed):
		return budget.ErrClosed
	}
	return err
}
