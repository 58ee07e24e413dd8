package mcp

import (
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// session is what is kept of a client between its calls. A client without sessions has none.
type session struct {
	*transport.Session
	toolset *toolset

	mu     sync.Mutex
	taught map[string]lesson // by function
	level  sdk.LoggingLevel  // that the client has asked for; "": no log messages

	spent spending
	kept  *steps.Session // what others keep for as long as the session lasts
	own   *variant       // what it sees for itself; nil: what all see
}

// newSession makes what is kept of a session.
func newSession(f *toolset, of *transport.Session) *session {
	n := &session{Session: of, toolset: f, taught: map[string]lesson{}, kept: &steps.Session{}}
	n.own = f.open(of.SDK)
	return n
}

// sessionOf is what is kept of the client that has sent a message; nil: it has no session.
func sessionOf(r *transport.Request) *session {
	if r.Session == nil {
		return nil
	}
	return r.Session.Kept.(*session)
}

// lesson is what a client was told of a function.
type lesson struct {
	signature string
	whole     bool // with the whole description, not only its summary
}

// knows reports whether the client has been told so much of a function. A client without a session knows nothing.
func (n *session) knows(entry *steps.Entry, whole bool) bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	told, ok := n.taught[entry.Spec().Name]
	return ok && told.signature == entry.Signature() && (told.whole || !whole)
}

// learn takes note of what the client is told.
func (n *session) learn(entry *steps.Entry, whole bool) {
	if n == nil {
		return
	}
	whole = whole || n.knows(entry, true)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.taught[entry.Spec().Name] = lesson{entry.Signature(), whole}
}
