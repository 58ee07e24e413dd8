package mcp

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
)

// discoverTimeout is how long a stdio server may take to answer server/discover, which versions before 2026-07-28 do not know.
// Most refuse it immediately; a few do not answer.
const discoverTimeout = time.Second

// greeting tracks the greeting of a stdio server. A server that does not answer server/discover in time also gets initialize,
// because it may know only that (MCP 2026-07-28, "stdio", backward compatibility). But it may just be slow to start. Then it reads
// both, answers the first, and may refuse the second because of the first. Its late answer shows that it has the newest version, so
// it is greeted again in that version.
type greeting struct {
	pending atomic.Bool // an answer to the greeting is still expected

	mu                   sync.Mutex
	discover, initialize int64  // request ids; 0: not sent
	timedOut             bool   // the SDK got an answer to server/discover on the server's behalf
	answered             bool   // the server has answered server/discover
	newest               bool   // its late answer names the newest version
	refusal              string // the refusal of initialize, held back until server/discover is answered; "": none
	spurious             bool   // the refusal was caused by server/discover
}

// sent records the id of a request of the greeting.
func (g *greeting) sent(method string, id int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case method == methodDiscover:
		g.discover = id
		g.pending.Store(true)
	case method == methodInitialize && g.timedOut:
		g.initialize = id
	}
}

// giveUp returns the id of server/discover if it is unanswered, else 0, and records the timeout.
func (g *greeting) giveUp() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.answered {
		return 0
	}
	g.timedOut = true
	return g.discover
}

// filter returns what the SDK should read in place of a message; "": nothing. withheld reports that the message is a refusal of initialize,
// held back until server/discover is answered or the timeout is over.
func (g *greeting) filter(text string) (forward string, withheld bool) {
	if !g.pending.Load() {
		return text, false
	}
	m := parseMessage(text)
	if m.method.Exists() || m.id.Type != gjson.Number {
		return text, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch id := m.id.Int(); {
	case id == g.discover && !g.answered:
		g.answered = true
		if !g.timedOut {
			g.pending.Store(false)
			return text, false
		}
		for _, version := range m.result.Get("supportedVersions").Array() {
			g.newest = g.newest || version.Str > protocol.Stateful
		}
		return g.takeRefusal(), false
	case id == g.initialize && m.err.Exists():
		g.refusal = text
		if g.answered {
			return g.takeRefusal(), false
		}
		return "", true
	case id == g.initialize:
		g.pending.Store(false)
	}
	return text, false
}

// release returns the refusal that is held back; "": none.
func (g *greeting) release() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.takeRefusal()
}

// takeRefusal returns the refusal of initialize and ends the greeting; "": none. The caller holds g.mu.
func (g *greeting) takeRefusal() string {
	text := g.refusal
	if text != "" {
		g.refusal, g.spurious = "", g.newest
		g.pending.Store(false)
	}
	return text
}

// again reports whether to greet the server again, on the same pipes, in the newest version.
func (g *greeting) again() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.spurious
}

// giveUpOn answers server/discover on the server's behalf after the timeout.
func (p *stdioPipe) giveUpOn(request jsonrpc.ID) {
	p.after(func() {
		if p.greeting.giveUp() != 0 {
			_ = p.deliver(&jsonrpc.Response{ID: request, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no answer"}})
		}
	})
}

// after calls f after the timeout, unless the connection ends first.
func (p *stdioPipe) after(f func()) {
	go func() {
		timer := time.NewTimer(p.timeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			f()
		case <-p.failed:
		case <-p.closed:
		}
	}()
}
