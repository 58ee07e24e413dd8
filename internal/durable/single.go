package durable

import (
	"context"
	"encoding/json"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// endTime is how long Single.Start waits for a workflow whose chain has ended.
const endTime = 2 * time.Second

// Single runs single chains: a batch of one each, without a record of its own. The run in the journal says what became of it.
type Single struct {
	Engine Engine
	Store  Store
}

// Start has a worker carry out a chain, whose run nobody carries out now. A batch that waits for a decision about the run goes on.
func (s *Single) Start(ctx context.Context, id, name string, c *Chain) error {
	b := &Batch{ID: id, Name: name, Chunks: []int{1}}
	text, err := json.Marshal([]*Chain{c})
	if err == nil {
		err = s.Store.Put(ctx, b.InputKey(0), text)
	}
	if err != nil {
		return err
	}
	running, err := s.Engine.Running(ctx, id)
	if err != nil {
		return err
	}
	if running { // it waits, or is about to end
		within, cancel := context.WithTimeout(ctx, endTime)
		_, err = s.Engine.Wait(within, id, nil)
		cancel()
		running = err != nil && within.Err() != nil && ctx.Err() == nil
	}
	if !running {
		if err := s.Store.Put(ctx, b.ResultKey(FirstTurn(0)), []byte("[null]")); err != nil { // of an earlier start
			return err
		}
	}
	if err := s.Engine.Start(ctx, b); err != nil {
		return err
	}
	if running {
		_, err = s.Engine.Decided(ctx, id, 0)
	}
	return err
}

// Wait waits until a chain has ended, and returns its result; nil: it was cancelled before it began. idle is called if no worker asks for
// work. It fails with token_expired if the engine, or the store, knows nothing of it (any more).
func (s *Single) Wait(ctx context.Context, id string, idle func()) (*Result, error) {
	p, err := s.Engine.Wait(ctx, id, func(p Progress) {
		if p.NoWorkers {
			idle()
		}
	})
	if err != nil {
		return nil, err
	}
	for _, parked := range p.Parked {
		return &Result{Error: ParkedFault(parked.Refused, "resume tries it again")}, nil
	}
	last := FirstTurn(0)
	for _, turn := range p.Turns {
		last = turn
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

// ParkedFault is the fault of a chain that is not tried again. remedy is a sentence.
func ParkedFault(refused bool, remedy string) *fault.Error {
	if refused {
		return fault.New(fault.BadRequest, "no worker could take it on, as their journal is another one: all who take part need the same one. %s",
			remedy)
	}
	return fault.New(fault.Internal, "its workers ended each time, or could not take it on, and it is not tried again: see their logs. %s", remedy)
}
