package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
)

// teller tells a client how far a call is, and what functions log meanwhile, in the order in which it happens. A client
// that reads slowly holds up nothing: what it does not take is dropped, the end of a step last.
type teller struct {
	call  *call
	token any
	queue chan func(ctx context.Context)
	ended chan struct{} // nothing is added any more
	done  chan struct{} // all is told
	last  float64       // progress that was told; it only grows
}

// Bounds of what waits for a client, and of how long the end of a call waits for it.
const (
	maxTold  = 256
	tellTime = time.Second
)

// listen has the caller's progress and log told to the client, where the client has asked for them.
func (c *call) listen() *teller {
	token := c.request.Params.GetProgressToken()
	logs := c.logs()
	if token == nil && !logs {
		return nil
	}
	t := &teller{call: c, token: token, queue: make(chan func(context.Context), maxTold), ended: make(chan struct{}), done: make(chan struct{}), last: -1}
	if token != nil {
		c.caller.Progress = t.progress
	}
	if logs {
		c.caller.Log = t.log
	}
	go t.work()
	return t
}

// logs tells whether the client has asked for log messages.
func (c *call) logs() bool {
	if _, asked := c.request.Params.GetMeta()[metaLogLevel]; asked {
		return true
	}
	return c.session.wantsLogs()
}

// metaLogLevel is where a request of a client without a session says which log messages it wants (MCP 2026-07-28).
const metaLogLevel = "io.modelcontextprotocol/logLevel"

func (t *teller) work() {
	defer close(t.done)
	ctx := context.WithoutCancel(t.call.ctx)
	for {
		select {
		case tell := <-t.queue:
			tell(ctx)
		case <-t.ended:
			for len(t.queue) > 0 {
				(<-t.queue)(ctx)
			}
			return
		}
	}
}

// end waits until all is told, for a moment.
func (t *teller) end() {
	if t == nil {
		return
	}
	close(t.ended)
	timer := time.NewTimer(tellTime)
	defer timer.Stop()
	select {
	case <-t.done:
	case <-timer.C:
	}
}

func (t *teller) add(tell func(context.Context)) {
	select {
	case <-t.ended:
	case t.queue <- tell:
	default:
	}
}

// progress tells of a step's end, and of how far a step is. The engine calls it one call at a time, and not after the end.
func (t *teller) progress(p chain.Progress) {
	value, message := float64(p.Done), p.Function
	switch {
	case p.Whole > 0:
		value += min(max(p.Part/p.Whole, 0), 1) * 0.99
	case !p.Ended && p.Message == "" && p.Part == 0:
		return // a step has begun: nothing has been done yet
	}
	if p.Message != "" {
		message += ": " + p.Message
	}
	if value <= t.last {
		return // the protocol has it grow with each notification
	}
	t.last = value
	params := &sdk.ProgressNotificationParams{ProgressToken: t.token, Progress: value, Total: float64(p.Total), Message: message}
	t.add(func(ctx context.Context) { _ = t.call.request.Session.NotifyProgress(ctx, params) })
}

// attend has a function that is called without a chain tell what it has to tell. It may do so at any time.
func (t *teller) attend(a *steps.Attendant) {
	if t == nil {
		return
	}
	var mu sync.Mutex
	if t.token != nil {
		a.Progress = func(_ context.Context, done, total float64, message string) {
			mu.Lock()
			defer mu.Unlock()
			t.pass(done, total, message)
		}
	}
	if t.call.caller.Log != nil {
		a.Log = func(_ context.Context, level, logger string, data []byte) {
			t.log(chain.LogMessage{Level: level, Logger: logger, Data: slices.Clone(data)})
		}
	}
}

// pass tells of progress in the function's own numbers.
func (t *teller) pass(done, total float64, message string) {
	if done <= t.last {
		return
	}
	t.last = done
	params := &sdk.ProgressNotificationParams{ProgressToken: t.token, Progress: done, Total: total, Message: message}
	t.add(func(ctx context.Context) { _ = t.call.request.Session.NotifyProgress(ctx, params) })
}

// log tells what a function logs.
func (t *teller) log(m chain.LogMessage) {
	logger := m.Function
	switch {
	case logger == "":
		logger = m.Logger
	case m.Logger != "":
		logger += ": " + m.Logger
	}
	params := &sdk.LoggingMessageParams{Level: sdk.LoggingLevel(m.Level), Logger: logger, Data: json.RawMessage(m.Data)}
	t.add(func(ctx context.Context) { _ = t.call.request.Session.Log(ctx, params) })
}

// setLevel takes note that the client wants log messages.
func (n *session) setLevel(level sdk.LoggingLevel) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.level = level
}

func (n *session) wantsLogs() bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.level != ""
}
