package pgstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/internal/compressed"
	"github.com/onecall-mcp/onecall/fault"
)

const (
	smallBytes       = 64 << 10  // bytes of a stored value that is read with its head
	maxTransferBytes = 128 << 20 // bytes of larger values in transfer at once, since they are in memory
	maxTransfers     = maxConnections - 1
)

// errReplaced is the error for an entry that was replaced or removed while it was read.
var errReplaced = errors.New("replaced result")

// Get implements budget.Driver.
func (s *Store) Get(ctx context.Context, key string, admit budget.Admit) (budget.Entry, error) {
	e, err := s.get(ctx, idOf(key), admit)
	for n := 0; n < 2 && errors.Is(err, errReplaced); n++ {
		e, err = s.get(ctx, idOf(key), admit)
	}
	if errors.Is(err, errReplaced) || errors.Is(err, compressed.ErrDamaged) {
		err = budget.ErrNotFound
	}
	if err != nil {
		return budget.Entry{}, err
	}
	return e, nil
}

func (s *Store) get(ctx context.Context, id []byte, admit budget.Admit) (budget.Entry, error) {
	h, err := s.readHead(ctx, id)
	if err != nil {
		return budget.Entry{}, err
	}
	if err := admit.Check(h.Entry, h.size); err != nil {
		return budget.Entry{}, err
	}
	e := h.Entry
	if h.stored-overhead <= smallBytes {
		e.Value, err = s.codec.Read(ctx, bytes.NewReader(h.small), h.size, h.stored)
		return e, err
	}
	e.Value, err = s.recent.Get(ctx, string(id), h.version, h.size, func(ctx context.Context) ([]byte, error) { return s.read(ctx, id, h) })
	return e, err
}

// head is the row of a result.
type head struct {
	budget.Entry // without its value
	version      int64
	size, stored int64
	small        []byte // a small value, as stored
}

func (s *Store) readHead(ctx context.Context, id []byte) (*head, error) {
	h := &head{}
	err := s.do(ctx, s.o.Timeout, func(ctx context.Context, conn *pgx.Conn) error {
		var owner []byte
		var clock time.Time
		sent := s.o.Now()
		err := conn.QueryRow(ctx, selectHead, id, smallBytes+overhead).Scan(&h.version, &owner, &h.Created, &h.Expires, &h.size, &h.stored,
			&clock, &h.small)
		if errors.Is(err, pgx.ErrNoRows) {
			return budget.ErrNotFound
		}
		if err != nil {
			return err
		}
		shift := s.drift(clock, sent, s.o.Now())
		h.Owner, h.Created, h.Expires = string(owner), h.Created.Add(shift), h.Expires.Add(shift)
		return nil
	})
	return h, err
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

// read reads a large value. It returns errReplaced if the entry is not there any more.
func (s *Store) read(ctx context.Context, id []byte, h *head) (value []byte, err error) {
	done, err := s.reserve(ctx, h.size)
	if err != nil {
		return nil, err
	}
	defer done()
	err = s.do(ctx, s.bound(h.stored), func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, selectParts, id, h.version)
		if err != nil {
			return err
		}
		defer rows.Close()
		value, err = s.codec.Read(ctx, &partReader{rows: rows}, h.size, h.stored)
		return err
	})
	return value, err
}

// partReader reads the parts of a value one after the other.
type partReader struct {
	rows  pgx.Rows
	rest  []byte // of the current part
	begun bool
}

// Read implements io.Reader.
func (r *partReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if !r.rows.Next() {
			switch {
			case r.rows.Err() != nil:
				return 0, r.rows.Err()
			case !r.begun:
				return 0, errReplaced
			}
			return 0, io.EOF
		}
		r.begun, r.rest = true, r.rows.RawValues()[0]
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// bound returns how long an operation on a stored value may take.
func (s *Store) bound(stored int64) time.Duration {
	if stored <= smallBytes+overhead {
		return s.o.Timeout
	}
	return longFactor * s.o.Timeout
}

// reserve waits until n bytes may be transferred. The caller calls done when it does not hold them any more. One connection is always
// left for short operations.
func (s *Store) reserve(ctx context.Context, n int64) (done func(), err error) {
	if n <= smallBytes {
		return func() {}, nil
	}
	n = min(max(n, maxTransferBytes/maxTransfers), maxTransferBytes)
	limited, cancel := context.WithTimeout(ctx, longFactor*s.o.Timeout)
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
