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
	beginning  = 64 << 10  // bytes of an entry that are read before it is admitted; a smaller one is read at once
	maxCarried = 128 << 20 // bytes of larger values that are on their way from or to the server at once: it buffers what it sends
	waits      = 15        // times Timeout: the most that a value waits for others that are on their way
)

// errReplaced is an entry that another took the place of while it was read.
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
	f, err := s.find(ctx, id)
	if err != nil {
		return budget.Entry{}, err
	}
	if err := admit.Ask(f.Entry, int64(f.size)); err != nil {
		return budget.Entry{}, err
	}
	e := f.Entry
	if f.kept == int64(len(f.begin)) {
		whole, err := s.codec.decode(id, f.begin)
		e.Value = whole.Value
		return e, err
	}
	mark := string(f.begin[:f.length])
	e.Value, err = s.recent.Get(ctx, id, mark, int64(f.size), func(ctx context.Context) ([]byte, error) {
		return s.read(ctx, id, []byte(mark), f.kept)
	})
	return e, err
}

// found is an entry on the server of which the beginning was read.
type found struct {
	head
	begin []byte
	kept  int64 // bytes of all of it
}

// find reads the beginning of an entry. The commands are no transaction, which a server without memory refuses whatever is
// in it: an entry that is replaced between them does not pass for another, as its sum and its beginning are compared.
func (s *Store) find(ctx context.Context, id string) (found, error) {
	var f found
	err := s.brief(ctx, func(ctx context.Context, server *redis.Client) error {
		pipe := server.Pipeline()
		begin, kept := pipe.GetRange(ctx, s.client.Key(id), 0, beginning-1), pipe.StrLen(ctx, s.client.Key(id))
		expires, clock := pipe.PExpireTime(ctx, s.client.Key(id)), pipe.Time(ctx)
		sent := s.o.Now()
		_, err := pipe.Exec(ctx)
		came := s.o.Now()
		if err != nil {
			return err
		}
		if f.begin, err = begin.Bytes(); err != nil {
			return err
		}
		if f.head, err = readHead(f.begin); err != nil || expires.Val() < 0 {
			return redis.Nil
		}
		f.kept = kept.Val()
		shift := s.drift(clock.Val(), sent, came)
		f.Created, f.Expires = f.Created.Add(shift), time.UnixMilli(expires.Val().Milliseconds()).Add(shift)
		return nil
	})
	if err != nil {
		return found{}, err // the operation may still write to f
	}
	return f, nil
}

// read reads the value of an entry that begins so, and has so many bytes.
func (s *Store) read(ctx context.Context, id string, begin []byte, kept int64) ([]byte, error) {
	done, err := s.carry(ctx, kept)
	if err != nil {
		return nil, err
	}
	var whole []byte
	err = s.do(ctx, kept, func(ctx context.Context, server *redis.Client) (err error) {
		whole, err = server.Get(ctx, s.client.Key(id)).Bytes()
		return err
	}, done)
	if err != nil {
		return nil, err
	}
	if int64(len(whole)) != kept || !bytes.HasPrefix(whole, begin) {
		return nil, errReplaced
	}
	e, err := s.codec.decode(id, whole)
	return e.Value, err
}

// carry waits until so many bytes may be on their way; done tells that they are not any more, which the operation on them
// knows (see do): it may go on when its caller has left.
func (s *Store) carry(ctx context.Context, n int64) (done func(), err error) {
	if n <= beginning {
		return func() {}, nil
	}
	n = min(n, maxCarried)
	limited, cancel := context.WithTimeout(ctx, waits*s.o.Timeout)
	defer cancel()
	if err := s.carried.Acquire(limited, n); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fault.New(fault.Busy, "Too many large results are being read from the result store or kept in it: try again in a few seconds.")
	}
	return func() { s.carried.Release(n) }, nil
}
