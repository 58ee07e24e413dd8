package chain

import (
	"context"

	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// readState reads the values of $state that a run sees from now on: those that it has seen so far, and others as they are now.
func (s *request) readState(ctx context.Context, p *plan.Plan) *fault.Error {
	caller, known := s.caller, []byte("{}")
	if past := s.ledger.Leased(); past != nil {
		caller = past.Row.Caller
		if past.State != nil {
			known, s.state = past.State, past.State
		}
	}
	values := rawjson.NewTable(known)
	var keys []string
	for _, use := range p.State {
		if !values.Has(use.Key) {
			keys = append(keys, use.Key)
		}
	}
	if len(keys) > 0 {
		found, err := s.o.ReadState(ctx, caller, keys)
		if err != nil {
			return fault.From(err, "")
		}
		for _, m := range rawjson.ListMembers(found) {
			values.Set(m.Name, m.Raw)
		}
		s.state = rawjson.AppendObject(nil, values.List)
	}
	for _, use := range p.State {
		if use.Needed && !values.Has(use.Key) {
			f := fault.New(fault.ReferenceMissing, "there is no %q in state, or it has expired: give a default with ??, or set it by state.set",
				fault.ClipRunes(use.Key, 60)).Under(use.At)
			f.Available = values.Names()
			f.Nearest = fault.Nearest(use.Key, f.Available, 3)
			return f
		}
	}
	if len(p.State) > 0 && s.o.StateRead != nil {
		s.o.StateRead(ctx, s.state)
	}
	return nil
}
