package mcp

import (
	"context"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

// marks are the parts of a session's budget, in percent, at which its client is warned.
var marks = []int{75, 90, 100}

// spending adds up the tokens of the answers to one session.
type spending struct {
	mu      sync.Mutex
	tokens  int
	told    int  // the highest mark that the client was warned of; 0: none
	telling bool // a call that is under way has a warning to tell
}

// spender is what one call has to do with the spending of its session.
type spender struct {
	of     *session
	o      *Options
	tokens int      // spent before the call
	told   int      // the highest mark that the client was warned of before
	mark   int      // that its answer is to warn of; 0: none
	warns  bool     // the answer does so
	passed []string // what a client reads of an upstream's answer that is passed on
}

// soFar is what was spent, and the highest mark that the client was warned of.
func (s *spending) soFar() (tokens, told int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens, s.told
}

// small is how many tokens an answer may have when a session's are used up.
func (o *Options) small() int { return 2 * budget.Least(o.Counter) }

// beginSpending looks at what was spent before this call: what it may answer, and what it is to warn of. Calls that run at
// the same time are not known to one another.
func (c *call) beginSpending() {
	s := &spender{of: c.session, o: &c.now.Options}
	s.tokens, s.told = c.session.spent.soFar()
	c.spends = s
	if s.tokens >= s.o.SessionTokens {
		c.caller.MaxTotalTokens = s.o.small()
	}
	mark := 0
	for _, m := range marks {
		if float64(s.tokens)*100 >= float64(s.o.SessionTokens)*float64(m) {
			mark = m
		}
	}
	if mark <= s.told || !c.session.spent.tell() {
		return
	}
	s.mark = mark
	c.caller.Warnings = []*fault.Error{s.warning()}
}

// tell reports whether a call is to carry a warning: not while another does.
func (s *spending) tell() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := !s.telling
	s.telling = true
	return free
}

// warning is what the client is told.
func (s *spender) warning() *fault.Error {
	if most := s.o.SessionTokens; s.tokens >= most {
		return fault.New(fault.LimitExceeded, "the answers of this session have used up its %d tokens: an answer has at most %d now, "+
			"larger results are probes; fetches are not bounded by it", most, s.o.small())
	}
	return fault.New(fault.LimitExceeded, "the answers of this session have used %d of its %d tokens; past them an answer has at most %d, "+
		"fetches excepted", s.tokens, s.o.SessionTokens, s.o.small())
}

// passOn takes note of an upstream's answer that the client is given in the place of the call's result.
func (c *call) passOn(raw []byte, err error) {
	if c.spends == nil {
		return
	}
	c.spends.passed = textsOf(raw, c.now.Counter)
	if wire := wireErrorOf(err); wire != nil && len(raw) == 0 {
		c.spends.passed = []string{c.toolset.server.wireError(wire).Message}
	}
}

// end adds the tokens of the call's answer to those of its session. A client that has given up the request, whose context
// ctx is, does not read its warning.
func (s *spender) end(ctx context.Context, result *sdk.CallToolResult) {
	n := s.o.count(result)
	for _, text := range s.passed {
		n += s.o.Counter.Count([]byte(text), -1)
	}
	told := 0
	if s.warns && ctx.Err() == nil {
		told = s.mark
	}
	s.of.spent.add(n, told, s.mark > 0)
}

// add takes note of what was spent, and of the mark that the client was warned of (0: none) by the call that was to
// (telling).
func (s *spending) add(tokens, told int, telling bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens += tokens
	s.told = max(s.told, told)
	if telling {
		s.telling = false
	}
}

// count is what the text of a result costs. structuredContent is a copy of it.
func (o *Options) count(result *sdk.CallToolResult) (tokens int) {
	if result == nil {
		return 0
	}
	for _, block := range result.Content {
		if text, ok := block.(*sdk.TextContent); ok {
			tokens += o.Counter.Count([]byte(text.Text), -1)
		}
	}
	return tokens
}

// textsOf are the texts in a result as its upstream wrote it: those of its content, or its structuredContent if that costs
// more, since which of the two a client reads is not known. What images and sound cost is not known either.
func textsOf(raw []byte, counter budget.Counter) (texts []string) {
	result, tokens := gjson.ParseBytes(raw), 0
	add := func(text string) {
		texts = append(texts, text)
		tokens += counter.Count([]byte(text), -1)
	}
	result.Get("content").ForEach(func(_, block gjson.Result) bool {
		switch block.Get("type").Str {
		case "text":
			add(block.Get("text").String())
		case "resource":
			add(block.Get("resource.text").String())
		}
		return true
	})
	if structured := result.Get("structuredContent"); structured.IsObject() && counter.Count([]byte(structured.Raw), tokens) > tokens {
		return []string{structured.Raw}
	}
	return texts
}

// wireErrorOf is the error that an upstream answered a call with; nil: there is none. One by which a session could not begin, or
// by which the SDK marks what it has not delivered, is no answer to the call.
func wireErrorOf(err error) *jsonrpc.Error {
	f, ok := fault.As(err)
	var wire *jsonrpc.Error
	if !ok || f == nil || f.Code != fault.FunctionFailed && f.Code != fault.BadArguments || !errors.As(f.Err, &wire) {
		return nil
	}
	return wire
}

// mayPass reports whether an upstream's answer may be passed on as it is: if the session's tokens are used up, only a small
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
	return c.now.Counter.Count(raw, most) <= most
}

// reduced gives the result of a flat tool within what the session has left: as it is if that suffices, else by what it
// can be fetched with. raw is an upstream's result, nil if there is none, and value what was made of it.
func (c *call) reduced(result *sdk.CallToolResult, raw, value []byte) *sdk.CallToolResult {
	most := c.caller.MaxTotalTokens
	if most == 0 || len(raw) == 0 && c.now.count(result) <= most {
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

// spentShown is what the session has spent; nil if nothing is added up.
func (c *call) spentShown() *sessionShown {
	most := c.now.SessionTokens
	if most == 0 {
		return nil
	}
	if c.spends == nil {
		return &sessionShown{MaxTokens: most, Note: "this client has no session: nothing is added up"}
	}
	return &sessionShown{Tokens: c.spends.tokens, MaxTokens: most}
}
