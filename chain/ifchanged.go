package chain

import (
	"context"

	"github.com/onecall-mcp/onecall/chain/internal/answer"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// compareWith has the answer compared with an earlier one, if the request asks for that.
func (s *request) compareWith(ctx context.Context, r *plan.Request) {
	if r.IfChanged == nil {
		return
	}
	session := steps.SessionOf(ctx)
	switch {
	case s.form.Results == nil:
		s.warn(fault.New(fault.NotSupported, "ifChanged does nothing here: there is no store for results").Under("/ifChanged"))
		return
	case *r.IfChanged == "" && session == nil && s.form.Lite:
		s.warn(fault.New(fault.BadRequest, "ifChanged: true does nothing here: without a session, send the continuation_token of the earlier "+
			"answer in its place. An answer has one unless it is lite; on the command line: in a pipe, or with --json").Under("/ifChanged"))
		return
	}
	s.form.IfChanged = &answer.IfChanged{Token: *r.IfChanged, Session: session, Results: s.form.Results.WithReserve(s.memory.Reserve)}
}
