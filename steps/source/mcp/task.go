package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Requests about tasks (MCP 2025-11-25, "Tasks").
const (
	methodTaskGet    = "tasks/get"
	methodTaskResult = "tasks/result"
	methodTaskCancel = "tasks/cancel"
)

// taskCancelTime bounds how long a call whose time is over waits to see what became of its task.
const taskCancelTime = time.Second

// taskRun is a call that runs as a task: what its requests have in common.
type taskRun struct {
	messages *pendingRequest // receives progress until the task ends, whichever request is under way
	token    int64           // the progress token; 0: nobody waits for progress
	meta     string          // the _meta of an ordinary call, raw; "": none
}

// beginTask prepares the requests of a call that runs as a task.
func (c *connection) beginTask(ctx context.Context, t *tool, args []byte) (run *taskRun, f *fault.Error) {
	run = &taskRun{messages: &pendingRequest{}}
	params, token, f := c.begin(ctx, run.messages, t, args)
	if f != nil {
		return nil, f
	}
	run.token = token
	if len(params.Meta) > 0 {
		meta, err := json.Marshal(params.Meta)
		if err != nil {
			c.tap.forget(run.messages)
			f = fault.New(fault.BadArguments, "the _meta of the call cannot be written as JSON: %s", cause(err))
			f.Outcome = fault.NotSent
			return nil, f
		}
		run.meta = string(meta)
	}
	return run, nil
}

// callTask calls a tool that runs only as a task, and waits for its result. A call whose earlier attempt has left a task asks for that.
func (c *connection) callTask(ctx context.Context, t *tool, args []byte) ([]byte, *fault.Error) {
	run, f := c.beginTask(ctx, t, args)
	if f != nil {
		return nil, f
	}
	defer run.messages.awaitDelivery(ctx)
	defer c.tap.forget(run.messages)
	recorded := steps.TaskOf(ctx)
	id := recorded.Known
	if id != "" {
		if f := c.checkTask(ctx, t, id); f != nil {
			return nil, f
		}
		return c.awaitTask(ctx, t, id, run)
	}
	result, err := c.requestFor(ctx, t, methodCall, run.callParams(t, args), run)
	if err != nil {
		return nil, c.taskFault(ctx, t, err)
	}
	if id = gjson.GetBytes(result, "task.taskId").String(); id == "" { // a server may answer at once
		return c.taskValue(ctx, t, result)
	}
	if recorded.Report != nil {
		_ = recorded.Report(id) // if it cannot be recorded, the task's end still can
	}
	return c.awaitTask(ctx, t, id, run)
}

// callParams returns the params of a call that asks for a task.
func (run *taskRun) callParams(t *tool, args []byte) json.RawMessage {
	var params objectBuilder
	params.text("name", t.name)
	params.raw("arguments", string(args))
	params.raw("task", "{}")
	if run.meta != "" {
		params.raw("_meta", run.meta)
	}
	return params.end()
}

// taskRef returns the params of a request about a task. meta is its _meta, raw; "": none.
func taskRef(id, meta string) json.RawMessage {
	var params objectBuilder
	params.text("taskId", id)
	if meta != "" {
		params.raw("_meta", meta)
	}
	return params.end()
}

// awaitTask waits for the result of a task. If the call's time is over before that, it cancels the task.
func (c *connection) awaitTask(ctx context.Context, t *tool, id string, run *taskRun) ([]byte, *fault.Error) {
	result, err := c.requestFor(ctx, t, methodTaskResult, taskRef(id, run.meta), run)
	switch {
	case err == nil:
		return c.taskValue(ctx, t, result)
	case ctx.Err() != nil:
		return c.cancelTask(ctx, t, id)
	}
	f := c.taskFault(ctx, t, err)
	var rpcErr *jsonrpc.Error
	if !errors.As(err, &rpcErr) || !c.hasEnded(ctx, id) { // the task may go on
		c.markUnknown(t, f)
	}
	return nil, f
}

// checkTask returns the fault of a call whose task the server does not know any more, or could not be asked for.
func (c *connection) checkTask(ctx context.Context, t *tool, id string) *fault.Error {
	_, err := c.request(ctx, methodTaskGet, taskRef(id, ""))
	if err == nil {
		return nil
	}
	f := c.taskFault(ctx, t, err)
	var rpcErr *jsonrpc.Error
	if errors.As(err, &rpcErr) {
		f = fault.New(fault.FunctionFailed, "%s: the server does not know the task of this call any more: it is not known whether its "+
			"work was done. Find out, and resume with assume", t.function)
	}
	c.markUnknown(t, f)
	return f
}

// taskStatus returns the status of a task from the answer about it, or "".
func taskStatus(answer json.RawMessage, err error) string {
	if err != nil {
		return ""
	}
	return gjson.GetBytes(answer, "status").String()
}

// hasEnded reports whether the server says that a task has ended.
func (c *connection) hasEnded(ctx context.Context, id string) bool {
	switch taskStatus(c.request(ctx, methodTaskGet, taskRef(id, ""))) {
	case "completed", "failed", "cancelled":
		return true
	}
	return false
}

// cancelTask cancels the task of a call whose time is over, and returns what became of it: its result if it has ended meanwhile. Unless
// that is seen, it is not known what the call did.
func (c *connection) cancelTask(ctx context.Context, t *tool, id string) ([]byte, *fault.Error) {
	f := stopped(ctx, t.function+" had not answered", "")
	c.markUnknown(t, f)
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), taskCancelTime)
	defer cancel()
	status := taskStatus(c.request(within, methodTaskCancel, taskRef(id, "")))
	if status == "" { // it cannot be cancelled any more, or never could
		status = taskStatus(c.request(within, methodTaskGet, taskRef(id, "")))
	}
	switch status {
	case "cancelled":
		if t.effect != steps.Read {
			f.Outcome = fault.Failed
		}
	case "completed", "failed":
		if result, err := c.request(within, methodTaskResult, taskRef(id, "")); err == nil {
			return c.taskValue(within, t, result)
		}
	}
	return nil, f
}

// markUnknown marks a failed call as one whose work may be done.
func (c *connection) markUnknown(t *tool, f *fault.Error) {
	if f.Outcome = fault.SentUnknown; t.effect == steps.Read {
		f.Outcome = ""
	}
}

// taskFault returns the fault of a request about a call's task.
func (c *connection) taskFault(ctx context.Context, t *tool, err error) *fault.Error {
	var rpcErr *jsonrpc.Error
	if f, ok := fault.As(err); ok && f != nil {
		copied := *f
		if copied.Outcome == "" && copied.Status == 0 { // an unreadable answer
			c.markUnknown(t, &copied)
		}
		return &copied
	}
	if !errors.As(err, &rpcErr) {
		rpcErr = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: c.source.errorText(err)}
	}
	f := c.source.refusedBy(ctx, t, &answerError{code: rpcErr.Code, word: strconv.FormatInt(rpcErr.Code, 10), message: rpcErr.Message,
		data: string(rpcErr.Data)})
	if c.tap.downstream != nil {
		f.Err = rpcErr
	}
	return f
}

// taskValue returns the value of the result of a call that ran as a task.
func (c *connection) taskValue(ctx context.Context, t *tool, result json.RawMessage) ([]byte, *fault.Error) {
	if verbatim := steps.CallbacksOf(ctx).Verbatim; verbatim != nil {
		verbatim(result)
	}
	value, f, done := c.source.valueInTime(ctx, t, result)
	if !done {
		f = stopped(ctx, t.function+" had answered, but its answer was not read", fault.Applied)
	}
	return value, f
}
