package mcp

import (
	"context"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain"
)

// chainHeader says by which id logs know a call of a tool, in the response over HTTP: a model reads nothing of it. The request
// has the same id when it comes to the SDK, which hands its headers to the call, but not its context where there is a session.
const chainHeader = "Onecall-Chain"

// named gives a call of a tool its id.
func (s *Server) named(w http.ResponseWriter, r *http.Request, m *message) {
	r.Header.Del(chainHeader) // no client chooses it
	if m.method != "tools/call" {
		return
	}
	if _, id := s.o().Engine.Identify(r.Context(), ""); id != "" {
		r.Header.Set(chainHeader, id)
		w.Header().Set(chainHeader, id)
	}
}

// identified gives the context of a call of a tool, in which logs know it by its id, and the id that a failure of it has to
// name: "" where the header of the response does, or nobody gives ids.
func identified(ctx context.Context, engine *chain.Engine, extra *sdk.RequestExtra) (own context.Context, run string) {
	given := ""
	if extra != nil {
		given = extra.Header.Get(chainHeader)
	}
	own, run = engine.Identify(ctx, given)
	if given != "" {
		run = ""
	}
	return own, run
}
