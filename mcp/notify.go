package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// reporter tells a client how far a call is, and what functions log meanwhile. A client that reads slowly holds up nothing:
// of the progress that it has not taken the newest is kept, and of the log messages the oldest.
type reporter struct {
	call  *call
	token any
	last  float64 // progress that was told; it only grows

	mu    sync.Mutex
	queue []note
	wake  chan struct{} // gets a token when there is something to tell, or the call has ended
	ended bool
	done  chan struct{} // all is told
}

// note is a notification that waits.
type note struct {
	progress *sdk.ProgressNotificationParams
	log      *sdk.LoggingMessageParams
}

// Bounds of what waits for a client, and of how long the end of a call waits for it.
const (
	maxTold  = 256
	tellTime = time.Second
)

// listen has the caller's progress and log told to the client, if the client has asked for them.
func (c *call) listen() *reporter {
	token := c.request.Params.GetProgressToken()
	_, logs := c.request.Params.GetMeta()[metaLogLevel]
	logs = logs || c.session != nil && c.session.wantsLogs()
	if token == nil && !logs {
		return nil
	}
	t := &reporter{call: c, token: token, wake: make(chan struct{}, 1), done: make(chan struct{}), last: -1}
	if token != nil {
		c.caller.Progress = t.progress
	}
	if logs {
		c.caller.Log = t.log
	}
	go t.work()
	return t
}

// metaLogLevel is where a request of a client without a session says which log messages it wants (MCP 2026-07-28).
const metaLogLevel = "io.modelcontextprotocol/logLevel"

func (t *reporter) work() {
	defer close(t.done)
	ctx := context.WithoutCancel(t.call.ctx)
	for range t.wake {
		for {
			next, ok := t.next()
			if !ok {
				break
			}
			if next.progress != nil {
				_ = t.call.request.Session.NotifyProgress(ctx, next.progress) // a client that has gone need not know
			} else {
				_ = t.call.request.Session.Log(ctx, next.log)
			}
		}
		if t.over() {
			return
		}
	}
}

func (t *reporter) next() (n note, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		return n, false
	}
	n, t.queue = t.queue[0], t.queue[1:]
	return n, true
}

func (t *reporter) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

func (t *reporter) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// end waits until all is told, for a moment. What the client has not taken then is dropped: nothing may follow the answer.
func (t *reporter) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.signal()
	timer := time.NewTimer(tellTime)
	defer timer.Stop()
	select {
	case <-t.done:
	case <-timer.C:
		t.mu.Lock()
		t.queue = nil
		t.mu.Unlock()
	}
}

func (t *reporter) add(n note) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	if len(t.queue) < maxTold {
		t.queue = append(t.queue, n)
		t.signal()
		return
	}
	for i := len(t.queue) - 1; i >= 0 && n.progress != nil; i-- {
		if t.queue[i].progress != nil {
			t.queue[i] = n // it says more than the one that waits
			return
		}
	}
}

// progress tells of a step's end, and of how far a step is. The engine calls it one call at a time, and not after the end.
func (t *reporter) progress(p chain.Progress) {
	value, message := float64(p.Done), stepText(p)
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
	params := &sdk.ProgressNotificationParams{ProgressToken: t.token, Progress: value, Total: float64(p.Total), Message: fault.ClipRunes(message, maxProgress)}
	t.add(note{progress: params})
}

// maxProgress is how many characters of a progress message hosts show.
const maxProgress = 200

// stepText names a step of a chain, and its function if it calls one.
func stepText(p chain.Progress) string {
	text := "step " + itoa(p.Step)
	if p.ID != "" {
		text += " " + p.ID
	}
	if p.Function != "" {
		text += ": " + p.Function
	}
	return text
}

// attend has a function that is called without a chain tell what it has to tell. It may do so at any time.
func (t *reporter) attend(a *steps.Callbacks) {
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
func (t *reporter) pass(done, total float64, message string) {
	if done <= t.last {
		return
	}
	t.last = done
	params := &sdk.ProgressNotificationParams{ProgressToken: t.token, Progress: done, Total: total, Message: message}
	t.add(note{progress: params})
}

// log tells what a function logs.
func (t *reporter) log(m chain.LogMessage) {
	logger := m.Function
	switch {
	case logger == "":
		logger = m.Logger
	case m.Logger != "":
		logger += ": " + m.Logger
	}
	params := &sdk.LoggingMessageParams{Level: sdk.LoggingLevel(m.Level), Logger: logger, Data: json.RawMessage(m.Data)}
	t.add(note{log: params})
}

// setLevel takes note that the client wants log messages.
func (n *session) setLevel(level sdk.LoggingLevel) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.level = level
}

func (n *session) wantsLogs() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.level != ""
}
