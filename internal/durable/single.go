package durable

import (
	"context"
	"encoding/json"

	"github.com/onecall-mcp/onecall/fault"
)

// Single runs single chains, each as a batch of one. The batch has no record of its own: the run of the chain in the journal has its
// outcome.
type Single struct {
	Engine Engine
	Store  Store
}

// Start starts a chain on a worker. The id must be new.
func (s *Single) Start(ctx context.Context, id, name string, c *Chain) error {
	b := &Batch{ID: id, Name: name, Chunks: []int{1}}
	text, err := json.Marshal([]*Chain{c})
	if err == nil {
		err = s.Store.Put(ctx, b.InputKey(0), text)
	}
	if err == nil {
		err = s.Engine.Start(ctx, b)
	}
	return err
}

// Wait waits until a chain has ended, and returns its result; nil: it was cancelled before it began. If the chain is not tried again, the
// result has only the fault of ParkedFault. Wait fails with token_expired if the engine or the store does not know the chain, or no longer
// does.
func (s *Single) Wait(ctx context.Context, id string) (*Result, error) {
	p, err := s.Engine.Wait(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	if len(p.Parked) > 0 {
		return &Result{Error: ParkedFault(p.Parked[0].Refused, "resume tries it again")}, nil
	}
	if p.Ended == 0 {
		return nil, nil //nolint:nilnil // documented
	}
	last := FirstAssignment(0)
	if n := len(p.Assignments); n > 0 {
		last = p.Assignments[n-1]
	}
	text, err := s.Store.Get(ctx, (&Batch{ID: id}).ResultKey(last))
	if err != nil {
		return nil, err
	}
	var results []*Result
	if err := json.Unmarshal(text, &results); err != nil {
		return nil, err
	}
	return results[0], nil
}

// ParkedFault is the fault of a chain that is not tried again (ParkedChain). remedy is a sentence that ends its message.
func ParkedFault(refused bool, remedy string) *fault.Error {
	if refused {
		return fault.New(fault.BadRequest,
			"no worker could run it because the workers use another journal: clients and workers need the same one. %s",
			remedy)
	}
	return fault.New(fault.Internal, "its workers ended each time, or could not take it on, and it is not tried again: see their logs, and "+
		"check that results.store is the same for all clients and workers. %s", remedy)
}
