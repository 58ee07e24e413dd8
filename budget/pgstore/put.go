package pgstore

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

// partSize is how many bytes a part has, except the last one. The server holds a part in memory several times.
const partSize = 1 << 20

// parts is a writer that splits what is written.
type parts struct {
	list  [][]byte
	bytes int64
}

func (p *parts) Write(b []byte) (int, error) {
	p.bytes += int64(len(b))
	for rest := b; len(rest) > 0; {
		last := len(p.list) - 1
		if last < 0 || len(p.list[last]) == partSize {
			p.list = append(p.list, nil)
			last++
		}
		n := min(len(rest), partSize-len(p.list[last]))
		p.list[last] = append(p.list[last], rest[:n]...)
		rest = rest[n:]
	}
	return len(b), nil
}

// result is an entry to be stored.
type result struct {
	id      []byte
	version int64 // of all that are ever stored under an id, one has it
	entry   budget.Entry
	parts
}

func (r *result) base() []byte { return []byte(r.entry.BaseOwner()) }

// counted returns the bytes that the result counts.
func (r *result) counted() int64 { return r.bytes + overhead }

// Put implements budget.Driver.
func (s *Store) Put(ctx context.Context, key string, e budget.Entry) error {
	if len(e.Owner) > maxOwner {
		return fault.New(fault.Internal, "The owner of a result has %d bytes, but may have at most %d.", len(e.Owner), maxOwner)
	}
	if e.Expires.Sub(s.o.Now()) < time.Millisecond {
		return s.Delete(ctx, key) // it has expired, and so has what it replaces
	}
	if s.closing.Err() != nil {
		return budget.ErrClosed
	}
	done, err := s.reserve(ctx, int64(len(e.Value)))
	if err != nil {
		return err
	}
	defer done()
	r := &result{id: idOf(key), version: rand.Int64(), entry: e}
	// Before the operation, so that compressing takes none of the time that the server has.
	if err := s.codec.Write(ctx, &r.parts, e.Value); err != nil {
		return err
	}
	if err := s.checkSize(ctx, r); err != nil {
		return err
	}
	var total int64
	err = s.do(ctx, s.bound(r.bytes), func(ctx context.Context, conn *pgx.Conn) (err error) {
		total, err = s.insert(ctx, conn, r)
		return err
	})
	if err != nil {
		return err
	}
	if now := s.o.Now().UnixNano(); total > s.maxBytes.Load() || now-s.swept.Load() >= int64(sweepInterval) {
		s.swept.Store(now)
		_ = s.makeRoom(ctx, r.id) // the result is stored, and the next one tries again
	}
	return nil
}

// insert stores a result in one transaction, and returns what all results count with it.
func (s *Store) insert(ctx context.Context, conn *pgx.Conn, r *result) (total int64, err error) {
	if len(r.list) <= 1 { // one round trip: a batch without BEGIN is a transaction
		b := &pgx.Batch{}
		s.queueHead(b, r)
		for i, part := range r.list {
			b.Queue(insertPart, r.id, i, part)
		}
		queueSum(b, r, &total)
		return total, conn.SendBatch(ctx, b).Close()
	}
	return total, pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		head, sum := &pgx.Batch{}, &pgx.Batch{}
		s.queueHead(head, r)
		if err := tx.SendBatch(ctx, head).Close(); err != nil {
			return err
		}
		for i, part := range r.list { // a batch would be in memory whole
			if _, err := tx.Exec(ctx, insertPart, r.id, i, part); err != nil {
				return err
			}
		}
		queueSum(sum, r, &total)
		return tx.SendBatch(ctx, sum).Close()
	})
}

// queueHead queues what replaces the row of a result. The lock keeps two that store under one key apart.
func (s *Store) queueHead(b *pgx.Batch, r *result) {
	b.Queue(durable)
	b.Queue(lockKey, int64(binary.BigEndian.Uint64(r.id)))
	b.Queue(forgetKey, r.id)
	b.Queue(insert, s.o.Now(), s.o.Timeout.Seconds(), r.id, r.version, []byte(r.entry.Owner), r.base(), r.entry.Created, r.entry.Expires,
		int64(len(r.entry.Value)), r.counted())
}

// queueSum queues what counts a result. It comes last, since others of the same owner wait for it.
func queueSum(b *pgx.Batch, r *result, total *int64) {
	b.Queue(addToOwner, r.base(), r.counted())
	b.Queue(sumOfAll).QueryRow(func(row pgx.Row) error { return row.Scan(total) })
}
