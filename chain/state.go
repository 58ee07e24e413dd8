package chain

import (
	"context"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// absentKeys is the member of a run's values of $state that lists the keys which were not there when the run read them. No key is empty.
const absentKeys = ""

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
	var absent, keys []string
	for _, name := range gjson.Parse(values.Get(absentKeys)).Array() {
		absent = append(absent, name.Str)
	}
	for _, use := range p.State {
		if !values.Has(use.Key) && !slices.Contains(absent, use.Key) {
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
		for _, key := range keys {
			if !values.Has(key) {
				absent = append(absent, key)
			}
		}
		if len(absent) > 0 {
			names, _ := rawjson.Marshal(absent) // texts can always be encoded
			values.Set(absentKeys, string(names))
		}
		s.state = rawjson.AppendObject(nil, values.List)
	}
	values.Remove(absentKeys)
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
		s.o.StateRead(ctx, rawjson.AppendObject(nil, values.List))
	}
	return nil
}
