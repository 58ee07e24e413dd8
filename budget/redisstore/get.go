package redisstore

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

const (
	prefixBytes        = 64 << 10  // bytes of an entry that are read before it is admitted; smaller entries are read at once
	maxTransferBytes   = 128 << 20 // bytes of larger values in transfer at once, since they are buffered
	transferWaitFactor = 15        // how long a value waits for other transfers, in multiples of Timeout
)

// errReplaced is the error for an entry that was replaced while it was read.
var errReplaced = errors.New("replaced result")

// Get implements budget.Driver.
func (s *Store) Get(ctx context.Context, key string, admit budget.Admit) (budget.Entry, error) {
	e, err := s.get(ctx, idOf(key), admit)
	for n := 0; n < 2 && errors.Is(err, errReplaced); n++ {
		e, err = s.get(ctx, idOf(key), admit)
	}
	if errors.Is(err, errReplaced) || errors.Is(err, errDamaged) {
		err = budget.ErrNotFound
	}
	if err != nil {
		return budget.Entry{}, err
	}
	return e, nil
}

func (s *Store) get(ctx context.Context, id string, admit budget.Admit) (budget.Entry, error) {
	f, err := s.readPrefix(ctx, id)
	if err != nil {
		return budget.Entry{}, err
	}
	if err := admit.Check(f.Entry, int64(f.size)); err != nil {
		return budget.Entry{}, err
	}
	e := f.Entry
	if f.storedBytes == int64(len(f.prefix)) {
		whole, err := s.codec.decode(id, f.prefix)
		e.Value = whole.Value
		return e, err
	}
	mark := string(f.prefix[:f.length])
	e.Value, err = s.recent.Get(ctx, id, mark, int64(f.size), func(ctx context.Context) ([]byte, error) {
		return s.read(ctx, id, []byte(mark), f.storedBytes)
	})
	return e, err
}

// entryPrefix is the beginning of an entry on the server.
type entryPrefix struct {
	head
	prefix      []byte
	storedBytes int64 // bytes of the whole string
}

// readPrefix reads the beginning of an entry. The commands are not a transaction, since a server that is out of memory refuses
// transactions. An entry that is replaced between them is detected by its checksum and its prefix.
func (s *Store) readPrefix(ctx context.Context, id string) (entryPrefix, error) {
	var f entryPrefix
	err := s.doSmall(ctx, func(ctx context.Context, server *redis.Client) error {
		pipe := server.Pipeline()
		prefix, length := pipe.GetRange(ctx, s.client.Key(id), 0, prefixBytes-1), pipe.StrLen(ctx, s.client.Key(id))
		expires, clock := pipe.PExpireTime(ctx, s.client.Key(id)), pipe.Time(ctx)
		sent := s.o.Now()
		_, err := pipe.Exec(ctx)
		received := s.o.Now()
		if err != nil {
			return err
		}
		if f.prefix, err = prefix.Bytes(); err != nil {
			return err
		}
		// A key that is absent has an empty string and a negative expiry; a string that this package stored always has an expiry.
		if f.head, err = readHead(f.prefix); err != nil || expires.Val() < 0 {
			return redis.Nil
		}
		f.storedBytes = length.Val()
		shift := s.drift(clock.Val(), sent, received)
		f.Created, f.Expires = f.Created.Add(shift), time.UnixMilli(expires.Val().Milliseconds()).Add(shift)
		return nil
	})
	if err != nil {
		return entryPrefix{}, err // the operation may still write to f
	}
	return f, nil
}

// read reads the value of the entry that begins with prefix and has size bytes. It returns errReplaced if another entry took its place.
func (s *Store) read(ctx context.Context, id string, prefix []byte, size int64) ([]byte, error) {
	done, err := s.reserve(ctx, size)
	if err != nil {
		return nil, err
	}
	var whole []byte
	err = s.do(ctx, size, func(ctx context.Context, server *redis.Client) (err error) {
		whole, err = server.Get(ctx, s.client.Key(id)).Bytes()
		return err
	}, done)
	if err != nil {
		return nil, err
	}
	if int64(len(whole)) != size || !bytes.HasPrefix(whole, prefix) {
		return nil, errReplaced
	}
	e, err := s.codec.decode(id, whole)
	return e.Value, err
}

// reserve waits until n bytes may be transferred. The operation on them calls done (see do), as it may continue after its caller has
// left.
func (s *Store) reserve(ctx context.Context, n int64) (done func(), err error) {
	if n <= prefixBytes {
		return func() {}, nil
	}
	n = min(n, maxTransferBytes)
	limited, cancel := context.WithTimeout(ctx, transferWaitFactor*s.o.Timeout)
	defer cancel()
	if err := s.transfers.Acquire(limited, n); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fault.New(fault.Busy,
			"Too many large results are being read from the result store or kept in it: try again in a few seconds.")
	}
	return func() { s.transfers.Release(n) }, nil
}
