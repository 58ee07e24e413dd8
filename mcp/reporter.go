package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// reporter sends a call's progress and log messages to the client. A slow client delays only the end of the call, by at most flushTimeout:
// when the queue is full, new progress replaces the newest queued progress, and new log messages are dropped.
type reporter struct {
	call  *call
	token any
	last  float64 // the last progress; it only grows

	mu    sync.Mutex
	queue []notification
	wake  chan struct{} // gets a token for each notification, and at the end of the call
	ended bool
	done  chan struct{} // closed when everything was sent
}

// notification is a queued notification.
type notification struct {
	progress *sdk.ProgressNotificationParams
	log      *sdk.LoggingMessageParams
}

// Limits of the queue, and of the time that the end of a call waits for it.
const (
	maxQueued    = 256
	flushTimeout = time.Second
)

// startReporter reports the call's progress and log messages if the client asked for them; nil: it asked for neither.
func (c *call) startReporter() *reporter {
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
	go t.run()
	return t
}

// metaLogLevel is the member of _meta for the wanted log level of a client without a session (MCP 2026-07-28).
const metaLogLevel = "io.modelcontextprotocol/logLevel"

func (t *reporter) run() {
	defer close(t.done)
	ctx := context.WithoutCancel(t.call.ctx)
	for range t.wake {
		for {
			next, ok := t.next()
			if !ok {
				break
			}
			if next.progress != nil {
				_ = t.call.request.Session.NotifyProgress(ctx, next.progress) // an error means that the client has left
			} else {
				_ = t.call.request.Session.Log(ctx, next.log)
			}
		}
		if t.isEnded() {
			return
		}
	}
}

func (t *reporter) next() (n notification, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		return n, false
	}
	n, t.queue = t.queue[0], t.queue[1:]
	return n, true
}

func (t *reporter) isEnded() bool {
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

// end waits a moment for the queue and drops the rest: nothing may follow the answer.
func (t *reporter) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.signal()
	timer := time.NewTimer(flushTimeout)
	defer timer.Stop()
	select {
	case <-t.done:
	case <-timer.C:
		t.mu.Lock()
		t.queue = nil
		t.mu.Unlock()
	}
}

func (t *reporter) add(n notification) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	if len(t.queue) < maxQueued {
		t.queue = append(t.queue, n)
		t.signal()
		return
	}
	for i := len(t.queue) - 1; i >= 0 && n.progress != nil; i-- {
		if t.queue[i].progress != nil {
			t.queue[i] = n // newer progress replaces the queued one
			return
		}
	}
}

// progress reports the progress of a chain. The engine calls it sequentially, and not after the end.
func (t *reporter) progress(p chain.Progress) {
	value, message := float64(p.Done), stepText(p)
	switch {
	case p.FunctionTotal > 0:
		value += min(max(p.FunctionDone/p.FunctionTotal, 0), 1) * 0.99 // less than 1, so that the end of the step is still progress
	case !p.Ended && p.Message == "" && p.FunctionDone == 0: // a step has begun: no progress yet
		return
	}
	if p.Message != "" {
		message += ": " + p.Message
	}
	if value <= t.last {
		return // the protocol requires it to grow
	}
	t.last = value
	params := &sdk.ProgressNotificationParams{
		ProgressToken: t.token, Progress: value, Total: float64(p.Total), Message: fault.ClipRunes(message, maxProgress),
	}
	t.add(notification{progress: params})
}

// maxProgress is the number of characters of a progress message that hosts show.
const maxProgress = 200

// stepText names a step of a chain and its function, if any.
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

// addCallbacks adds the callbacks for a function that is called without a chain. They may be called at any time.
func (t *reporter) addCallbacks(a *steps.Callbacks) {
	var mu sync.Mutex
	if t.token != nil {
		a.Progress = func(_ context.Context, done, total float64, message string) {
			mu.Lock()
			defer mu.Unlock()
			t.functionProgress(done, total, message)
		}
	}
	if t.call.caller.Log != nil {
		a.Log = func(_ context.Context, level, logger string, data []byte) {
			t.log(chain.LogMessage{Level: level, Logger: logger, Data: slices.Clone(data)})
		}
	}
}

// functionProgress reports progress in the function's own units.
func (t *reporter) functionProgress(done, total float64, message string) {
	if done <= t.last {
		return
	}
	t.last = done
	params := &sdk.ProgressNotificationParams{ProgressToken: t.token, Progress: done, Total: total, Message: message}
	t.add(notification{progress: params})
}

// log reports a function's log message.
func (t *reporter) log(m chain.LogMessage) {
	logger := m.Function
	switch {
	case logger == "":
		logger = m.Logger
	case m.Logger != "":
		logger += ": " + m.Logger
	}
	params := &sdk.LoggingMessageParams{Level: sdk.LoggingLevel(m.Level), Logger: logger, Data: json.RawMessage(m.Data)}
	t.add(notification{log: params})
}

// logLevels are the levels of log messages, least severe first (MCP 2025-11-25, server/utilities/logging).
var logLevels = []sdk.LoggingLevel{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// setLevel handles logging/setLevel. A level that MCP does not know is refused: -32602.
func setLevel(r *transport.Request, req sdk.Request) error {
	params, ok := req.GetParams().(*sdk.SetLoggingLevelParams)
	switch {
	case !ok:
		return nil
	case !slices.Contains(logLevels, params.Level):
		unknown := fault.ClipRunes(string(params.Level), maxName)
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown log level %q: send one of %v", unknown, logLevels)}
	case r.Session != nil:
		sessionOf(r).setLevel(params.Level)
	}
	return nil
}

// setLevel sets the client's log level.
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
