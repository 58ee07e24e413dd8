package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/internal/shares"
)

const (
	sweepInterval = time.Minute // how often a store that is written to removes what has expired
	oldestAtOnce  = 500         // results of an owner that are looked at together
)

// lockEviction keeps processes from evicting for the same excess: an arbitrary number, the same in all of them.
const lockEviction = `SELECT pg_advisory_xact_lock(1869505906)`

// inTurn runs f in a transaction while no other process does, after expired results were removed.
func (s *Store) inTurn(ctx context.Context, f func(context.Context, pgx.Tx) error) error {
	return s.do(ctx, longFactor*s.o.Timeout, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			for _, statement := range []string{lockEviction, forgetExpired, forgetOwners} {
				if _, err := tx.Exec(ctx, statement); err != nil {
					return err
				}
			}
			return f(ctx, tx)
		})
	})
}

// checkSize returns why a result cannot be stored, or nil if it can. Only for one of more than half the limit it asks whether other owners
// have results.
func (s *Store) checkSize(ctx context.Context, r *result) error {
	limit := s.maxBytes.Load()
	if err := budget.CheckSize(r.counted(), limit, true); err != nil || r.counted() <= limit/2 {
		return err
	}
	return s.inTurn(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var others bool
		if err := tx.QueryRow(ctx, hasOthers, r.base()).Scan(&others); err != nil {
			return err
		}
		return budget.CheckSize(r.counted(), limit, !others)
	})
}

// makeRoom removes results until the rest is well within the limit, but never the latest one.
func (s *Store) makeRoom(ctx context.Context, latest []byte) error {
	return s.inTurn(ctx, func(ctx context.Context, tx pgx.Tx) error {
		e := &eviction{tx: tx, latest: latest, oldest: map[string][]victim{}, bytes: map[string]int64{}}
		if err := e.readOwners(ctx); err != nil {
			return err
		}
		limit := s.maxBytes.Load()
		if e.total <= limit {
			return nil
		}
		for e.total > limit/10*9 { // so that the next result does not evict again
			if more, err := e.evictOne(ctx); err != nil || !more {
				return err
			}
		}
		return e.flush(ctx)
	})
}

// eviction is a choice of results to remove.
type eviction struct {
	tx     pgx.Tx
	latest []byte
	usage  shares.Shares    // without owners that have nothing left to remove
	bytes  map[string]int64 // of those owners
	total  int64
	oldest map[string][]victim // of an owner
	chosen [][]byte            // the keys of results that flush removes
}

type victim struct {
	key    []byte
	stored int64
}

func (e *eviction) readOwners(ctx context.Context) error {
	rows, err := e.tx.Query(ctx, selectOwners)
	if err != nil {
		return err
	}
	var base []byte
	var bytes int64
	_, err = pgx.ForEachRow(rows, []any{&base, &bytes}, func() error {
		e.bytes[string(base)] = bytes
		e.total += bytes
		e.usage.Add(string(base), bytes)
		return nil
	})
	return err
}

// evictOne chooses the oldest result of the owner that uses most. It reports whether there was any.
func (e *eviction) evictOne(ctx context.Context) (bool, error) {
	owner, ok := e.usage.Largest()
	if !ok {
		return false, e.flush(ctx)
	}
	if len(e.oldest[owner]) == 0 {
		if err := e.readOldest(ctx, owner); err != nil {
			return false, err
		}
	}
	if len(e.oldest[owner]) == 0 { // nothing but the latest, or the sum is wrong
		return true, e.recount(ctx, owner)
	}
	one := e.oldest[owner][0]
	e.oldest[owner] = e.oldest[owner][1:]
	e.chosen = append(e.chosen, one.key)
	e.usage.Add(owner, -one.stored)
	e.bytes[owner] -= one.stored
	e.total -= one.stored
	return true, nil
}

// readOldest reads the next results of an owner, after those that were chosen are removed.
func (e *eviction) readOldest(ctx context.Context, owner string) error {
	if err := e.flush(ctx); err != nil {
		return err
	}
	rows, err := e.tx.Query(ctx, selectOldest, []byte(owner), e.latest, oldestAtOnce)
	if err != nil {
		return err
	}
	e.oldest[owner], err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (one victim, err error) {
		return one, row.Scan(&one.key, &one.stored)
	})
	return err
}

// recount takes an owner out of the choice and corrects its sum, which is wrong if somebody else deleted results. The lock comes first, so
// that the sum has what others have committed.
func (e *eviction) recount(ctx context.Context, owner string) error {
	if _, err := e.tx.Exec(ctx, lockOwner, []byte(owner)); err != nil {
		return err
	}
	var bytes int64
	if err := e.tx.QueryRow(ctx, countOwner, []byte(owner)).Scan(&bytes); err != nil {
		return err
	}
	e.total += bytes - e.bytes[owner]
	e.usage.Add(owner, -e.bytes[owner])
	return nil
}

// flush removes the chosen results.
func (e *eviction) flush(ctx context.Context) error {
	if len(e.chosen) == 0 {
		return nil
	}
	_, err := e.tx.Exec(ctx, forgetKeys, e.chosen)
	e.chosen = nil
	return err
}
