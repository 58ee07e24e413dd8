package chain

import (
	"slices"

	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
)

// BoundTo returns the sources, or functions, that a run calls with the credential of its caller: only a request that brings the same one
// can continue the run or undo it.
func BoundTo(past *journal.Past) []string { return ledger.BoundTo(past) }

// credentialsOf returns the credentials of the request's caller with which a plan may call functions, each once.
func (s *request) credentialsOf(p *plan.Plan) (ids []string) {
	if s.rights.Credentials == "" {
		return nil
	}
	for _, e := range p.Callable() {
		if id := e.Spec().Credential; id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// checkCredentials adds the fault of a chain that outlasts its request, although it calls functions with what the request brings. p nil:
// the chain does not compile.
func (s *request) checkCredentials(r *plan.Request, p *plan.Plan, faults *decode.Faults) {
	field := ""
	switch {
	case r.Async:
		field = "async"
	case r.AsyncAfterMs != nil:
		field = "asyncAfterMs"
	case r.Durable != nil && *r.Durable:
		field = "durable"
	}
	if field == "" || p == nil || s.rights.Credentials == "" {
		return
	}
	for _, e := range p.Callable() {
		if spec := e.Spec(); spec.Credential != "" && !spec.KeepsCredential {
			faults.Add(fault.New(fault.NotSupported, "%s calls its source with the credential of this request, which is not kept after the "+
				"answer: leave %s out", e.Spec().Name, field).Under("/" + field))
			return
		}
	}
}
