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

// warningMarks are the percentages of a session's budget at which its client is warned.
var warningMarks = []int{75, 90, 100}

// spending counts the tokens of the answers to one session.
type spending struct {
	mu      sync.Mutex
	tokens  int
	warned  int  // the highest mark that the client was warned of; 0: none
	warning bool // a running call will warn the client
}

// callSpending is one call's share of the spending of its session.
type callSpending struct {
	session *session
	options *Options
	tokens  int      // the session's tokens before the call
	warned  int      // the highest mark before the call
	mark    int      // the mark that its answer should warn of; 0: none
	warns   bool     // the answer contains the warning
	blocks  int      // tokens of the blocks that go with the answer
	passed  []string // texts of an upstream's answer that is passed on
}

// totals returns the tokens spent and the highest mark that the client was warned of.
func (s *spending) totals() (tokens, warned int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens, s.warned
}

// spentLimit is the token limit of an answer when the session's budget is used up.
func (o *Options) spentLimit() int { return 2 * budget.MinTokensFor(o.Counter) }

// beginSpending sets the limit and the warning of a call from what was spent before it. Concurrent calls do not see each other's
// tokens.
func (c *call) beginSpending() {
	s := &callSpending{session: c.session, options: &c.now.Options}
	s.tokens, s.warned = c.session.spending.totals()
	c.spending = s
	if s.tokens >= s.options.SessionTokens {
		c.caller.MaxTotalTokens = s.options.spentLimit()
	}
	mark := 0
	for _, m := range warningMarks {
		if float64(s.tokens)*100 >= float64(s.options.SessionTokens)*float64(m) {
			mark = m
		}
	}
	if mark <= s.warned || !c.session.spending.claimWarning() {
		return
	}
	s.mark = mark
	c.caller.Warnings = []*fault.Error{s.warning()}
}

// claimWarning reports whether the call may warn the client, and reserves the warning for it: only one call at a time may. add ends that.
func (s *spending) claimWarning() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := !s.warning
	s.warning = true
	return free
}

// warning returns the warning for the client.
func (s *callSpending) warning() *fault.Error {
	if limit := s.options.SessionTokens; s.tokens >= limit {
		return fault.New(fault.LimitExceeded, "the answers of this session have used up its %d tokens: an answer has at most %d now, "+
			"larger results are probes; fetches are exempt", limit, s.options.spentLimit())
	}
	return fault.New(fault.LimitExceeded, "the answers of this session have used %d of its %d tokens; when none are left, an answer "+
		"has at most %d; fetches are exempt", s.tokens, s.options.SessionTokens, s.options.spentLimit())
}

// countPassed records an upstream's answer that the client gets in place of the call's result.
func (c *call) countPassed(raw []byte, err error) {
	if c.spending == nil {
		return
	}
	c.spending.passed = textsOf(raw, c.now.Counter)
	if rpcErr := upstreamError(err); rpcErr != nil && len(raw) == 0 {
		c.spending.passed = []string{c.toolset.server.clientError(rpcErr).Message}
	}
}

// end adds the tokens of the call's answer to its session. If the client has canceled the request, whose context is ctx, it has
// not read the warning.
func (s *callSpending) end(ctx context.Context, result *sdk.CallToolResult) {
	n := s.options.count(result) + s.blocks
	for _, text := range s.passed {
		n += s.options.Counter.Count([]byte(text), -1)
	}
	warned := 0
	if s.warns && ctx.Err() == nil {
		warned = s.mark
	}
	s.session.spending.add(n, warned, s.mark > 0)
}

// add adds tokens, and the mark that the client was warned of (0: none). If claimed is true, the call has claimed the warning, and another
// call may claim it now.
func (s *spending) add(tokens, warned int, claimed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens += tokens
	s.warned = max(s.warned, warned)
	if claimed {
		s.warning = false
	}
}

// count returns the tokens of a result's text. structuredContent is a copy of it.
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

// textsOf returns the texts in an upstream's result: those of its content, or its structuredContent if that costs more, because
// clients may read either. The cost of images and audio is not known.
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

// upstreamError returns the error that an upstream answered a call with; nil: none. A failed session or an undelivered request is
// not an answer.
func upstreamError(err error) *jsonrpc.Error {
	f, ok := fault.As(err)
	var rpcErr *jsonrpc.Error
	if !ok || f == nil || f.Code != fault.FunctionFailed && f.Code != fault.BadArguments || !errors.As(f.Err, &rpcErr) {
		return nil
	}
	return rpcErr
}

// mayPass reports whether an upstream's answer may be passed on unchanged. When the session's budget is used up, only small
// answers and requests for input may.
func (c *call) mayPass(raw []byte, err error) bool {
	limit := c.caller.MaxTotalTokens
	if limit == 0 {
		return true
	}
	if asks := gjson.GetManyBytes(raw, "resultType", "inputRequests"); asks[0].Str == "input_required" || asks[1].IsObject() {
		return true
	}
	if rpcErr := upstreamError(err); rpcErr != nil && len(raw) == 0 {
		raw = append([]byte(rpcErr.Message), rpcErr.Data...)
	}
	return c.now.Counter.Count(raw, limit) <= limit
}

// reduced returns the result of a flat tool: unchanged if the session's budget is not used up or the result is small enough, else as a
// preview with a token. raw is the upstream's result; nil: none. value is the value that the engine made of it.
func (c *call) reduced(result *sdk.CallToolResult, raw, value []byte) *sdk.CallToolResult {
	limit := c.caller.MaxTotalTokens
	if limit == 0 || len(raw) == 0 && c.now.count(result) <= limit {
		return result
	}
	content := gjson.GetBytes(raw, "content")
	content.ForEach(func(_, block gjson.Result) bool {
		if block.Get("type").Str != "text" { // such as an image, which value may lack
			value = []byte(content.Raw)
		}
		return true
	})
	reduced, _ := c.deliver(value, 0)
	return reduced
}

// sessionUsage is a session's budget in the answer of info.
type sessionUsage struct {
	Tokens    int    `json:"tokens"` // the tokens of earlier answers
	MaxTokens int    `json:"maxTokens"`
	Note      string `json:"note,omitempty"`
}

// sessionUsage returns the session's usage; nil: tokens are not counted.
func (c *call) sessionUsage() *sessionUsage {
	limit := c.now.SessionTokens
	if limit == 0 {
		return nil
	}
	if c.spending == nil {
		return &sessionUsage{MaxTokens: limit, Note: "this client has no session, so its use is not summed"}
	}
	return &sessionUsage{Tokens: c.spending.tokens, MaxTokens: limit}
}
