package state

import (
	"context"
	"crypto/rand"
	"strings"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// sessionKey is the key of the space of a session: an owner's, in one journal.
type sessionKey struct {
	journal *journal.Journal
	owner   string
}

// session is the space of an MCP session. No other space has its name: callers cannot write the blank.
type session struct {
	sessionKey
	space string
	ended atomic.Bool
}

// sessionOf returns the space of a session.
func (s *Source) sessionOf(client *steps.Session, owner string) *session {
	key := sessionKey{s.o.Journal(), owner}
	return client.Value(key, func() any {
		return &session{sessionKey: key, space: sessionSpace + " " + strings.ToLower(rand.Text())}
	}).(*session)
}

// SessionEnded implements steps.SessionEnder. A change that is decided later is refused, and one that was decided before has the values
// locked until it is done, so nothing stays. Where the journal cannot be reached, the values stay until they expire.
func (n *session) SessionEnded() {
	n.ended.Store(true)
	_ = n.journal.RemoveStates(context.Background(), n.owner, n.space, lockSpace(n.space))
}

// commit changes a value, unless the session that it belongs to has ended.
func (s *Source) commit(ctx context.Context, p *place, key journal.StateKey, decide journal.Decision) ([]byte, error) {
	return s.o.Journal().ChangeState(ctx, p.caller, key, func(now journal.StateNow) (*journal.StateChange, []byte, error) {
		if p.session != nil && p.session.ended.Load() {
			return nil, nil, fault.New(fault.FunctionFailed, "the session has ended, and its values with it: use another space").Under("/space")
		}
		return decide(now)
	})
}
