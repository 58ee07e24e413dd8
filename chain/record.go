package chain

import (
	"cmp"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// beginRecord begins to record what the plan does, in the engine's journal. If the engine has none and the run needs one, the run gets a
// journal of its own in memory. A single call that is safe to repeat and needs no approval is not recorded.
func (s *request) beginRecord(p *plan.Plan, r *plan.Request) *fault.Error {
	needsApproval := p.NeedsApproval()
	switch {
	case s.o.Journal == nil && needsApproval:
		return fault.New(fault.Denied,
			"the chain has calls that need approval, and there is no journal to keep them in: the configuration says journal: {store: off}")
	case s.o.Journal == nil && !p.NeedsRecord():
		return nil
	case s.single != nil && p.Steps[0].Repeatable && !needsApproval:
		return nil
	}
	effect, _ := p.Effect()
	key := ""
	if r.Key != nil {
		key = *r.Key
	}
	return s.ledger.Begin(&journal.Start{Key: key, Parent: s.parent, Chain: s.runName(p, r), Hash: func() string { return p.Hash(r) },
		Text: s.effectiveText(p, r), State: s.state, Labels: s.literalLabels(), Credentials: s.credentialsOf(p),
		Steps: len(p.Steps), Functions: p.FunctionNames(),
		Writes: effect != steps.Read || needsApproval || p.MayBeSuspended(s.longestWait()), Lookup: p.Undoes(), KeepResults: needsApproval})
}

// longestWait is how long the run may do nothing but pause; 0: as long as it wants, as it cannot be resumed.
func (s *request) longestWait() time.Duration {
	if s.o.Journal == nil {
		return 0
	}
	return s.suspend
}

// runName returns the name of the run's chain, or "". A saved chain has the name with which it is called, whatever it says of itself.
func (s *request) runName(p *plan.Plan, r *plan.Request) string {
	if strings.HasPrefix(s.chainName, steps.ChainSource+".") {
		return s.chainName
	}
	return cmp.Or(r.Name, s.chainName, p.SavedName())
}

// effectiveText returns the chain as it runs: with the input that the front end set.
func (s *request) effectiveText(p *plan.Plan, r *plan.Request) []byte {
	if s.override.Input == nil && s.override.Set == nil {
		return []byte(r.Text)
	}
	all := rawjson.NewTable([]byte(r.Text))
	all.Set("input", string(p.Input))
	return rawjson.AppendObject(nil, all.List)
}
