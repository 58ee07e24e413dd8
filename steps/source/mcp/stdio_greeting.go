package mcp

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
)

// discoverPatience is how long a server over stdio may take to answer server/discover, which versions before 2026-07-28
// do not know. Most answer at once that they do not; a few say nothing.
const discoverPatience = time.Second

// greeting follows what becomes of the greeting of a server over stdio. One that does not answer server/discover in time
// is sent initialize as well, as it may know that only (MCP 2026-07-28, "stdio", backward compatibility). But it may as
// well have been slow to start: then it reads both in a row, answers the first, and may refuse the second for having
// got the first. Its late answer is then taken for what it is: a server of the newest version, to be greeted as such.
type greeting struct {
	open atomic.Bool // answers may still be those that are waited for here

	mu                   sync.Mutex
	discover, initialize int64  // the ids of the requests; 0: not sent
	overdue              bool   // server/discover was answered in the server's place
	answered             bool   // by the server itself
	modern               bool   // it has answered late, with a result
	refusal              string // of initialize, which waits for the answer to server/discover; "": there is none
	mistaken             bool   // the refusal was for having got server/discover
}

// sent notes the id of a request that may be one of the greeting.
func (g *greeting) sent(method string, id int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case method == methodDiscover:
		g.discover = id
		g.open.Store(true)
	case method == methodInitialize && g.overdue:
		g.initialize = id
	}
}

// giveUp gives the id of server/discover if it has not been answered; 0: it has.
func (g *greeting) giveUp() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.answered {
		return 0
	}
	g.overdue = true
	return g.discover
}

// hear looks at a message of the server, and gives what the SDK is to read in its place; "": nothing. kept: it is a refusal
// of initialize, which waits for the answer to server/discover, but not for longer than the server's time to answer.
func (g *greeting) hear(text string) (pass string, kept bool) {
	if !g.open.Load() {
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
		if !g.overdue {
			g.open.Store(false)
			return text, false
		}
		for _, version := range m.result.Get("supportedVersions").Array() {
			g.modern = g.modern || version.Str > protocol.Stateful
		}
		return g.refused(), false
	case id == g.initialize && m.err.Exists():
		g.refusal = text
		if g.answered {
			return g.refused(), false
		}
		return "", true
	case id == g.initialize:
		g.open.Store(false)
	}
	return text, false
}

// release gives the refusal that is waiting, for whose reason nothing more is waited; "": there is none.
func (g *greeting) release() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refused()
}

// refused gives the refusal of initialize, if there is one by now. The caller holds g.mu.
func (g *greeting) refused() string {
	text := g.refusal
	if text != "" {
		g.refusal, g.mistaken = "", g.modern
		g.open.Store(false)
	}
	return text
}

// again reports whether the server is to be greeted once more, on the same pipes, in the newest version.
func (g *greeting) again() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mistaken
}

// giveUpOn answers server/discover in the server's place if it has not been answered after a while.
func (p *stdioPipe) giveUpOn(request jsonrpc.ID) {
	p.after(func() {
		if p.greeting.giveUp() != 0 {
			_ = p.pass(&jsonrpc.Response{ID: request, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no answer"}})
		}
	})
}

// after calls f once a server's time to answer is over, unless the connection has ended before.
func (p *stdioPipe) after(f func()) {
	go func() {
		timer := time.NewTimer(p.patience)
		defer timer.Stop()
		select {
		case <-timer.C:
			f()
		case <-p.failed:
		case <-p.closed:
		}
	}()
}
