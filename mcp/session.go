package mcp

import (
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// session is a client's session. A client of a protocol version without sessions has none.
type session struct {
	*transport.Session
	toolset *toolset

	mu         sync.Mutex
	signatures map[string]knownSignature // what the client knows about each function
	level      sdk.LoggingLevel          // log level that the client asked for; "": no log messages

	spending spending
	stored   *steps.Session // what sources keep for the session
	view     *clientView    // the client's own view; nil: it sees what all clients see
}

// newSession returns the session of a new client.
func newSession(f *toolset, ts *transport.Session) *session {
	n := &session{Session: ts, toolset: f, signatures: map[string]knownSignature{}, stored: &steps.Session{}}
	n.view = f.openView(ts.SDK, askable{})
	return n
}

// sessionOf returns the session of a message's client; nil: none.
func sessionOf(r *transport.Request) *session {
	if r.Session == nil {
		return nil
	}
	return r.Session.HandlerState.(*session)
}

// knownSignature is what a client already knows about a function.
type knownSignature struct {
	signature string
	whole     bool // the client got the full description, not only the summary
}

// knows reports whether the client already has a function's signature, and if whole is set, also its full description. Without a
// session (n nil) it never does.
func (n *session) knows(entry *steps.Entry, whole bool) bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	known, ok := n.signatures[entry.Spec().Name]
	return ok && known.signature == entry.Signature() && (known.whole || !whole)
}

// learn records that the client gets a function's signature, with its full description if whole is set. n may be nil.
func (n *session) learn(entry *steps.Entry, whole bool) {
	if n == nil {
		return
	}
	whole = whole || n.knows(entry, true)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.signatures[entry.Spec().Name] = knownSignature{entry.Signature(), whole}
}
