package mcp

import (
	"context"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// marks are the parts of a session's budget, in percent, at which its client is warned.
var marks = []int{75, 90, 100}

// spending adds up the tokens of the answers to one session.
type spending struct {
	counter budget.Counter
	most    int // Options.SessionTokens
	small   int // tokens of an answer when most are used up

	mu      sync.Mutex
	tokens  int
	told    int  // the highest mark that the client was warned of; 0: none
	telling bool // a call that is under way has a warning to tell
}

// newSpending is that of a new session; nil: nothing is added up.
func newSpending(o *Options) *spending {
	if o.SessionTokens == 0 {
		return nil
	}
	return &spending{counter: o.Counter, most: o.SessionTokens, small: 2 * budget.Least(o.Counter)}
}

// spender is what one call has to do with the spending of its session.
type spender struct {
	of     *spending
	mark   int      // that its answer is to warn of; 0: none
	warns  bool     // the answer does so
	passed []string // what a client reads of an upstream's answer that is passed on
}

// beginSpending looks at what was spent before this call: what it may answer, and what it is to warn of. Calls that run at
// the same time are not known to one another.
func (c *call) beginSpending() {
	if c.session == nil || c.session.spent == nil {
		return
	}
	s := c.session.spent
	c.spends = &spender{of: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens >= s.most {
		c.caller.MaxTotalTokens = s.small
	}
	mark := 0
	for _, m := range marks {
		if float64(s.tokens)*100 >= float64(s.most)*float64(m) {
			mark = m
		}
	}
	if mark <= s.told || s.telling {
		return
	}
	s.telling, c.spends.mark = true, mark
	c.caller.Warnings = []*fault.Error{s.warning()}
}

// warning is what the client is told. The caller holds the lock.
func (s *spending) warning() *fault.Error {
	if s.tokens >= s.most {
		return fault.New(fault.LimitExceeded, "the answers of this session have used up its %d tokens: an answer has at most %d now, "+
			"larger results are probes; fetches are not bounded by it", s.most, s.small)
	}
	return fault.New(fault.LimitExceeded, "the answers of this session have used %d of its %d tokens; past them an answer has at most %d, "+
		"fetches excepted", s.tokens, s.most, s.small)
}

// warned takes note of whether an answer carries the call's warning: one in its lite form does not, and the next answer
// is to.
func (s *spender) warned(a *chain.Answer) {
	if s != nil && a.Warned {
		s.warns = true
	}
}

// passOn takes note of an upstream's answer that the client is given in the place of the call's result.
func (c *call) passOn(raw []byte, err error) {
	if c.spends == nil {
		return
	}
	c.spends.passed = textsOf(raw)
	if wire := wireErrorOf(err); wire != nil && len(raw) == 0 {
		c.spends.passed = []string{c.face.told(wire).Message}
	}
}

// end adds the tokens of the call's answer to those of its session. A client that has given up the request, whose context
// ctx is, does not read its warning.
func (s *spender) end(ctx context.Context, result *sdk.CallToolResult) {
	if s == nil {
		return
	}
	n := s.of.count(result)
	for _, text := range s.passed {
		n += s.of.counter.Count([]byte(text), -1)
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.tokens += n
	if s.mark > 0 {
		s.of.telling = false
		if s.warns && ctx.Err() == nil {
			s.of.told = max(s.of.told, s.mark)
		}
	}
}

// count is what the text of a result costs. structuredContent is a copy of it.
func (s *spending) count(result *sdk.CallToolResult) (tokens int) {
	if result == nil {
		return 0
	}
	for _, block := range result.Content {
		if text, ok := block.(*sdk.TextContent); ok {
			tokens += s.counter.Count([]byte(text.Text), -1)
		}
	}
	return tokens
}

// textsOf are the texts in a result as its upstream wrote it: those of its content, else its structuredContent. What images
// and sound cost is not known.
func textsOf(raw []byte) (texts []string) {
	result := gjson.ParseBytes(raw)
	result.Get("content").ForEach(func(_, block gjson.Result) bool {
		switch block.Get("type").Str {
		case "text":
			texts = append(texts, block.Get("text").String())
		case "resource":
			texts = append(texts, block.Get("resource.text").String())
		}
		return true
	})
	if structured := result.Get("structuredContent"); len(texts) == 0 && structured.IsObject() {
		texts = append(texts, structured.Raw)
	}
	return texts
}

// wireErrorOf is the error that an upstream answered a request with; nil: there is none.
func wireErrorOf(err error) *jsonrpc.Error {
	f, ok := fault.As(err)
	var wire *jsonrpc.Error
	if !ok || f == nil || !errors.As(f.Err, &wire) {
		return nil
	}
	return wire
}

// mayPass tells whether an upstream's answer may be passed on as it is: where the session's tokens are used up, only a small
// one, all that is in it counted, and one that asks the client for more.
func (c *call) mayPass(raw []byte, err error) bool {
	most := c.caller.MaxTotalTokens
	if most == 0 {
		return true
	}
	if asks := gjson.GetManyBytes(raw, "resultType", "inputRequests"); asks[0].Str == "input_required" || asks[1].IsObject() {
		return true
	}
	if wire := wireErrorOf(err); wire != nil && len(raw) == 0 {
		raw = append([]byte(wire.Message), wire.Data...)
	}
	return c.face.server.o.Counter.Count(raw, most) <= most
}

// reduced gives the result of a flat tool within what the session has left: as it is where that suffices, else by what it
// can be fetched with. raw is an upstream's result, nil where there is none, and value what was made of it.
func (c *call) reduced(result *sdk.CallToolResult, raw, value []byte) *sdk.CallToolResult {
	most := c.caller.MaxTotalTokens
	if most == 0 || len(raw) == 0 && c.session.spent.count(result) <= most {
		return result
	}
	content := gjson.GetBytes(raw, "content")
	content.ForEach(func(_, block gjson.Result) bool {
		if block.Get("type").Str != "text" { // a value does not hold all of an image
			value = []byte(content.Raw)
		}
		return true
	})
	reduced, _ := c.deliver(value, 0)
	return reduced
}

// sessionShown is what info tells of a session's budget.
type sessionShown struct {
	Tokens    int    `json:"tokens"` // of the answers so far, this one not counted
	MaxTokens int    `json:"maxTokens"`
	Note      string `json:"note,omitempty"`
}

// spentShown is what the session has spent; nil where nothing is added up.
func (c *call) spentShown() *sessionShown {
	most := c.face.server.o.SessionTokens
	if most == 0 {
		return nil
	}
	if c.session == nil {
		return &sessionShown{MaxTokens: most, Note: "this client has no session: nothing is added up"}
	}
	s := c.session.spent
	s.mu.Lock()
	defer s.mu.Unlock()
	return &sessionShown{Tokens: s.tokens, MaxTokens: most}
}
