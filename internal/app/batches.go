package app

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
)

// EngineURL returns the URL of the engine that runs chains outside of this process; "": none is configured.
func (a *App) EngineURL() string { return config.Or(a.config.Engine, "") }

// Keep returns how long the journal keeps a run after its last event.
func (a *App) Keep() time.Duration { return config.Or(a.config.Journal.Keep, journal.DefaultKeep) }

// CheckShared reports why workers cannot share the runs and results of this app; nil: they can.
func (a *App) CheckShared() error {
	switch {
	case a.Journal == nil || config.Or(a.config.Journal.Store, "") == "memory":
		return fault.New(fault.BadRequest, "workers continue each other's runs through one journal, which every worker must reach: "+
			"set journal: {store: postgres://…}, or omit it if all workers are on this machine")
	case config.Or(a.config.Results.Store, "") == "memory":
		return fault.New(fault.BadRequest, "workers read chains from the result store and leave answers there: "+
			"set results: {store: postgres}, or disk if all workers are on this machine")
	}
	return nil
}

// BatchStore returns a store of batches in the result store. It keeps the chains of batches and their results as long as the journal keeps
// runs.
func (a *App) BatchStore() *BatchStore { return &BatchStore{a.store, a.Keep()} }

// BatchStore stores the chains of batches and their results. It implements durable.Store.
type BatchStore struct {
	driver budget.Driver
	keep   time.Duration
}

// ownerOf returns the owner of an entry: its batch, named by the first two segments of the key (batch/ID). A full store makes room among
// the entries of the owner that uses most, and so among those of the largest batch.
func ownerOf(key string) string {
	segments := strings.SplitN(key, "/", 3)
	return "onecall " + strings.Join(segments[:min(2, len(segments))], "/")
}

// Put implements durable.Store.
func (k *BatchStore) Put(ctx context.Context, key string, value []byte) error {
	now := time.Now()
	return k.driver.Put(ctx, key, budget.Entry{Owner: ownerOf(key), Created: now, Expires: now.Add(k.keep), Value: value})
}

// Get implements durable.Store.
func (k *BatchStore) Get(ctx context.Context, key string) ([]byte, error) {
	e, err := k.driver.Get(ctx, key, nil)
	switch {
	case errors.Is(err, budget.ErrNotFound), err == nil && e.Owner != ownerOf(key):
		return nil, fault.New(fault.TokenExpired, "the result store does not have %s, or no longer has it: results.store must be the same "+
			"for clients and workers", key)
	case err != nil:
		return nil, err
	}
	return e.Value, nil
}

// Touch extends the life of an entry. A missing entry is not an error.
func (k *BatchStore) Touch(ctx context.Context, key string) error {
	if err := k.driver.Touch(ctx, key, time.Now().Add(k.keep)); !errors.Is(err, budget.ErrNotFound) {
		return err
	}
	return nil
}

// BeginBatch records the start of a batch of chains in the journal, under a key, and returns the id of its run.
func (a *App) BeginBatch(ctx context.Context, key, name string, chains int) (id string, err error) {
	return a.Journal.BeginBatch(ctx, &journal.Start{Scope: a.Scope(), Key: key, Chain: name, Steps: chains, Text: []byte("{}")})
}

// JournalID returns an id for the part of the journal that holds the runs of this configuration, derived from the journal's key.
func (a *App) JournalID() string {
	return hex.EncodeToString(a.Journal.MAC([]byte("journal"), []byte(a.Scope()))[:16])
}

// FindRun returns the id of this user's run with a key. It fails with journal.ErrNotFound if there is none.
func (a *App) FindRun(ctx context.Context, key string) (id string, err error) {
	return a.Journal.Find(ctx, "", a.Scope(), key)
}
