package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
)

// tap stands between the wire and the SDK. It takes the raw results of calls and of tool lists out of the messages, so
// that the SDK decodes a few bytes in their place, and passes progress and log messages on to the calls they belong to.
// All else it lets through as it came.
type tap struct {
	max   int64                           // bytes of one message
	name  string                          // the source's, for faults
	warn  func(*fault.Error)              // what is odd
	stray func(*fault.Error)              // what stands on stdout and is no message
	log   func(level string, data string) // log messages that belong to no call
	scrub *scrubber                       // takes secrets out of texts
	link  *linked                         // what the server asks and tells goes there; nil: the session belongs to no client
	asks  *asks                           // what the server asks
	token atomic.Int64
	turn  atomic.Int64

	mu        sync.Mutex
	exchanges map[int64]*exchange // by the request's id
	progress  map[int64]*exchange // by its progress token
	ended     bool                // the session has
	broken    *fault.Error        // why the connection was given up here; nil: it was not
}

func newTap(s *Source) *tap {
	return &tap{
		max: s.options.MaxMessageBytes, name: s.options.Name, warn: s.warn, stray: s.strayed, scrub: s.scrub,
		log: func(level, data string) {
			if s.options.Log != nil {
				s.options.Log(s.scrub.excerpt(level+": "+data, maxLogLine))
			}
		},
		exchanges: map[int64]*exchange{}, progress: map[int64]*exchange{},
	}
}

// message is one JSON-RPC message (JSON-RPC 2.0, sections 4 and 5), its members still raw.
type message struct{ id, method, params, result, err gjson.Result }

func parseMessage(text string) (m message) {
	gjson.Parse(text).ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "id":
			m.id = value
		case "method":
			m.method = value
		case "params":
			m.params = value
		case "result":
			m.result = value
		case "error":
			if value.Type != gjson.Null {
				m.err = value
			}
		}
		return true
	})
	return m
}

// register notes that ctx's exchange goes out as the request with this id; nil when it is that of another request.
func (t *tap) register(ctx context.Context, id int64) *exchange {
	x := exchangeOf(ctx)
	if x == nil || x.stub == nil {
		return x
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.id != 0 && x.id != id {
		return nil
	}
	if x.id == 0 {
		x.turn = t.turn.Add(1)
	}
	x.id = id
	t.exchanges[id] = x
	if t.ended && x.cancel != nil {
		x.cancel()
	}
	return x
}

// end cancels the requests that are on their way, and those that are still to come.
func (t *tap) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for _, x := range t.exchanges {
		if x.cancel != nil {
			x.cancel()
		}
	}
}

// progressToken gives an exchange a token by which progress is told to it.
func (t *tap) progressToken(x *exchange) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	x.token = t.token.Add(1)
	t.progress[x.token] = x
	return x.token
}

// forget ends an exchange: what still comes for it is dropped.
func (t *tap) forget(x *exchange) {
	t.mu.Lock()
	if t.exchanges[x.id] == x {
		delete(t.exchanges, x.id)
	}
	delete(t.progress, x.token)
	if x.notes != nil {
		close(x.notes)
		x.notes = nil
	}
	if x.over != nil {
		x.over()
	}
	last := t.link != nil && t.latest() == nil
	t.mu.Unlock()
	if last {
		t.asks.idle()
	}
}

// latest is the request of a client that was made last of those in flight; nil: there is none. The caller holds t.mu.
func (t *tap) latest() (last *exchange) {
	for _, x := range t.exchanges {
		if x.ctx != nil && (last == nil || x.turn > last.turn) {
			last = x
		}
	}
	return last
}

// idOf is the id that an exchange has gone out with; 0: none.
func (t *tap) idOf(x *exchange) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return x.id
}

// find gives the exchange that waits for an answer with this id; nil when there is none.
func (t *tap) find(id int64) *exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exchanges[id]
}

// giveUp puts down why the connection is given up, which the SDK does not pass on.
func (t *tap) giveUp(f *fault.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = f
}

// givenUp is why the connection was given up here; nil: it was not.
func (t *tap) givenUp() *fault.Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.broken
}

// filter looks at a message that is valid JSON, and returns what the SDK is to read in its place: the same, a short
// form, or nothing. owner is the exchange whose answer stream the message came in, nil where there is none.
func (t *tap) filter(text string, owner *exchange) string {
	m := parseMessage(text)
	switch {
	case m.method.Exists():
		if !m.id.Exists() && t.notified(&m, owner) || m.id.Exists() && t.asks != nil && t.asks.take(&m, owner) {
			return ""
		}
	case m.id.Type == gjson.Number:
		if x := t.find(m.id.Int()); x != nil {
			x.answered(&m)
			if m.err.Exists() {
				return text
			}
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, m.id.Int(), x.stub(m.result))
		}
	}
	return text
}

// notified takes a progress or log message, and reports whether it was one.
func (t *tap) notified(m *message, owner *exchange) bool {
	switch m.method.Str {
	case "notifications/progress":
		n := note{
			done: m.params.Get("progress").Float(), total: m.params.Get("total").Float(),
			message: t.scrub.excerpt(m.params.Get("message").String(), maxErrorText),
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if x := t.progress[m.params.Get("progressToken").Int()]; x != nil {
			x.hear(n)
		}
		return true
	case "notifications/message":
		if t.link != nil {
			return t.link.notified(m, owner)
		}
		level, data := m.params.Get("level").String(), m.params.Get("data").Raw
		if data == "" {
			data = "null"
		}
		t.mu.Lock()
		x := owner
		if x == nil && len(t.exchanges) == 1 {
			for _, x = range t.exchanges {
			}
		}
		heard := x != nil && x.hear(note{level: levelOf(level), logger: m.params.Get("logger").String(), data: []byte(data)})
		t.mu.Unlock()
		if !heard {
			t.log(levelOf(level), data)
		}
		return true
	}
	return t.link != nil && t.link.notified(m, owner)
}

// hear queues a note; false when nobody listens. The caller holds tap.mu.
func (x *exchange) hear(n note) bool {
	if x.notes == nil {
		return false
	}
	select {
	case x.notes <- n:
	default: // lost: callbacks that slow do not follow any more
	}
	return true
}

// levelOf is the level of a log message; one that RFC 5424 does not know counts as info.
func levelOf(word string) string {
	if _, known := protocol.LogLevels[word]; !known {
		return "info"
	}
	return word
}

// tooLong is the fault of a call whose answer passes MaxMessageBytes.
func (t *tap) tooLong() *fault.Error {
	return fault.New(fault.LimitExceeded, "the answer of MCP server %q is longer than %d bytes: ask for less, or raise limits.maxResultBytes",
		t.name, t.max)
}

// refuse ends the exchange with this id, and gives the message that tells the SDK so; "" when none waits for it.
func (t *tap) refuse(id int64, f *fault.Error) string {
	x := t.find(id)
	if x == nil {
		return ""
	}
	x.fail(f)
	return refusal(id, f)
}

// refusal is the answer that the SDK gets where the real one cannot be used.
func refusal(id int64, f *fault.Error) string {
	text, err := json.Marshal(f.Message)
	if err != nil {
		text = []byte(`"unusable answer"`)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32603,"message":%s}}`, id, text)
}
