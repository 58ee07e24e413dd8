package mcp

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain"
)

// pagePrefix begins the requestState of a question whose answer is given in the console. The run follows. It needs no proof: it lets its
// caller do what resume does.
const pagePrefix = "ocp_"

// decisionWait bounds how long a call waits for a decision in the console once the client has opened the page. It is below the minute after
// which many clients give up a call; then the caller gets the waiting answer, and resumes the run later.
const decisionWait = 45 * time.Second

// pageQuestion sends the client's user to the page of the console that shows what a run waits for. The page asks who they are.
func (c *call) pageQuestion(q *chain.Question) *sdk.ElicitParams {
	text := fmt.Sprintf("%d calls wait for approval. The page shows them as they will be sent; approve or deny them there.", len(q.Calls))
	if len(q.Calls) == 1 {
		text = q.Calls[0].Function + " waits for approval. The page shows the call as it will be sent; approve or deny it there."
	}
	return &sdk.ElicitParams{Mode: "url", Message: text, URL: c.console + "runs/" + q.Run + "/approve"}
}

// awaitDecision waits a while until somebody has decided about the calls of a run, and reports whether somebody has.
func (c *call) awaitDecision(run string) bool {
	ctx, cancel := context.WithTimeout(c.ctx, decisionWait)
	defer cancel()
	return c.now.Engine.AwaitDecision(ctx, run, c.caller)
}

// untilDecided carries out a request to the engine. If its run stops for approval, and the client takes requests during a call and opens
// pages only, the run goes on when its user has decided in the console, if that is soon.
func (c *call) untilDecided(carryOut func() *chain.Answer) *chain.Answer {
	for {
		a := carryOut()
		if c.console == "" || c.asksByResult || a.Question == nil || !c.sendToConsole(a.Question) {
			return a
		}
		c.caller.Decision = &chain.Decision{Run: a.Question.Run, Elsewhere: true}
	}
}

// sendToConsole has the client open the page, and reports whether its user has decided there. That they opened it decides nothing.
func (c *call) sendToConsole(q *chain.Question) bool {
	ctx, cancel := context.WithTimeout(c.ctx, maxWait)
	defer cancel()
	question := c.pageQuestion(q)
	question.ElicitationID = rand.Text()
	answer, err := c.request.Session.Elicit(ctx, question)
	if err != nil || answer.Action != "accept" || !c.awaitDecision(q.Run) || !c.isSigned() {
		return false
	}
	_ = c.request.Session.NotifyElicitationComplete(ctx, &sdk.ElicitationCompleteParams{ElicitationID: question.ElicitationID})
	return true
}
