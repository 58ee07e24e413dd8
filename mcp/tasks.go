package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
	"github.com/onecall-mcp/onecall/mcp/transport"
)

// tasksExtension is the extension of clients that accept a task in place of an answer (SEP-2663).
const tasksExtension = "io.modelcontextprotocol/tasks"

// codeMissingCapability is the error for a client that does not declare an extension (MCP 2026-07-28).
const codeMissingCapability = -32021

// taskPollInterval is how often clients should poll a task.
const taskPollInterval = time.Second

// Statuses of tasks.
const (
	taskWorking   = "working"
	taskCompleted = "completed" // the task has a result, which may be a failure
	taskFailed    = "failed"    // the task has no result
	taskCancelled = "cancelled"
)

// task is a run as the extension shows it.
type task struct {
	ResultType string          `json:"resultType"`
	ID         string          `json:"taskId"`
	Status     string          `json:"status"`
	Message    string          `json:"statusMessage,omitempty"`
	Created    string          `json:"createdAt"`
	Updated    string          `json:"lastUpdatedAt"`
	TTL        *int64          `json:"ttlMs"` // how long the task is known, from Created; nil: no limit, as it has no answer that expires
	Interval   int64           `json:"pollIntervalMs"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      *jsonrpc.Error  `json:"error,omitempty"`
}

// declaresTasks reports whether a client accepts tasks. It declares this in the _meta of each request, or before MCP 2026-07-28 in
// initialize.
func declaresTasks(ss *sdk.ServerSession, meta map[string]any) bool {
	if declared, ok := meta[sdk.MetaKeyClientCapabilities]; ok {
		return gjson.ParseBytes(marshal(declared)).Get("extensions." + gjson.Escape(tasksExtension)).IsObject()
	}
	if ss == nil {
		return false
	}
	params := ss.InitializeParams()
	if params == nil || params.Capabilities == nil {
		return false
	}
	_, ok := params.Capabilities.Extensions[tasksExtension]
	return ok
}

// taskOffer receives the run that the client of a tool call follows as a task.
type taskOffer struct{ body json.RawMessage }

type taskOfferKey struct{}

// receiveTasks answers a tool call with a task if the call's run continues in the background and the client accepts tasks.
func (f *toolset) receiveTasks(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		call, ok := req.(*sdk.CallToolRequest)
		if !ok || !declaresTasks(call.Session, call.Params.GetMeta()) {
			return next(ctx, method, req)
		}
		offer := &taskOffer{}
		result, err := next(context.WithValue(ctx, taskOfferKey{}, offer), method, req)
		if err != nil || offer.body == nil {
			return result, err
		}
		return raw.Result(raw.Version(call.Session, req), method, offer.body)
	}
}

// offerTask offers the call's run, which continues in the background, as a task.
func (c *call) offerTask(id string) {
	offer, ok := c.ctx.Value(taskOfferKey{}).(*taskOffer)
	if !ok {
		return
	}
	begun, ok := c.toolset.server.runs.find(id, c.caller.ID)
	if !ok { // workers have it
		past, err := c.now.Engine.PastRun(c.ctx, id, c.caller)
		if err != nil {
			return
		}
		begun.BackgroundRun = begunOf(&past.Row)
	}
	begun.done, begun.updated, begun.ended = 0, begun.Began, time.Time{} // tasks/get reports its end
	shown := taskOf(&begun)
	shown.ResultType = "task"
	offer.body = marshal(shown)
}

// begunOf returns a run of the journal as a run in the background.
func begunOf(row *journal.Row) chain.BackgroundRun {
	return chain.BackgroundRun{ID: row.ID, Steps: row.Steps, Began: row.Began}
}

// taskOf returns a run as a task without its result.
func taskOf(r *backgroundRun) *task {
	t := &task{ResultType: "complete", ID: r.ID, Status: taskWorking, Created: stamp(r.Began), Updated: stamp(r.updated),
		Interval: taskPollInterval.Milliseconds(), Message: fmt.Sprintf("%d of %d steps have ended", r.done, r.Steps)}
	switch {
	case r.ended.IsZero():
	case r.cancelled && r.code == fault.Cancelled:
		t.Status = taskCancelled
	default:
		t.Status = taskCompleted
	}
	return t
}

// taskParams are the params of tasks/get, tasks/update and tasks/cancel. Inputs of tasks/update are ignored: no task asks for any.
type taskParams struct {
	sdk.ParamsBase
	ID string `json:"taskId"`
}

// addTaskMethods adds the methods of the extension to a server.
func (f *toolset) addTaskMethods(server *sdk.Server) {
	for method, answer := range map[string]func(context.Context, *taskCaller, string) (*task, error){
		"tasks/get": f.getTask, "tasks/update": f.updateTask, "tasks/cancel": f.cancelTask,
	} {
		err := sdk.AddReceivingCustomMethod(server, method, func(ctx context.Context, ss *sdk.ServerSession, p *taskParams) (sdk.Result, error) {
			if p == nil {
				p = &taskParams{}
			}
			if !declaresTasks(ss, p.GetMeta()) {
				return nil, &jsonrpc.Error{Code: codeMissingCapability, Message: "the client must declare the extension " + tasksExtension,
					Data: []byte(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`)}
			}
			from := transport.RequestIn(ctx)
			caller := &taskCaller{now: ctx.Value(generationKey{}).(*generation), Caller: chain.Caller{ID: from.Caller.ID}}
			if from.Token {
				caller.Rights = budget.Rights{Level: int(from.Caller.Tier), Scope: from.Caller.Functions}
			}
			shown, err := answer(ctx, caller, p.ID)
			if err != nil {
				return nil, err
			}
			body := json.RawMessage(`{"resultType":"complete"}`)
			if shown != nil {
				body = marshal(shown)
			}
			return raw.Result("", method, body)
		})
		if err != nil {
			panic(err) // a method of the SDK has this name
		}
	}
}

// taskCaller is the caller of a method of the extension.
type taskCaller struct {
	chain.Caller
	now *generation
}

var errNoTask = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no such task of yours, or it is not kept any more"}

// getTask answers tasks/get.
func (f *toolset) getTask(ctx context.Context, c *taskCaller, id string) (*task, error) {
	r, ok := f.server.runs.find(id, c.ID)
	if !ok {
		return c.journaledTask(ctx, id)
	}
	t := taskOf(&r)
	if r.ended.IsZero() {
		return t, nil
	}
	answer, lifetime, err := c.now.Engine.StoredResult(ctx, r.token, &c.Caller)
	if err != nil {
		return nil, errNoTask
	}
	ttl := (time.Since(r.Began) + lifetime).Milliseconds()
	if t.TTL = &ttl; t.Status == taskCompleted {
		t.Result = marshal(&sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(answer)}}, IsError: r.code != ""})
	}
	return t, nil
}

// journaledTask answers tasks/get for a run that this process does not have.
func (c *taskCaller) journaledTask(ctx context.Context, id string) (*task, error) {
	past, err := c.now.Engine.PastRun(ctx, id, &c.Caller)
	if err != nil {
		return nil, errNoTask
	}
	row := &past.Row
	t := taskOf(&backgroundRun{BackgroundRun: begunOf(row), updated: row.Last})
	t.Message = ""
	if r := c.now.handedOver(ctx, &c.Caller, past); r != nil {
		r.describe(t)
		return t, nil
	}
	switch row.Status {
	case journal.Running:
		return t, nil
	case journal.Interrupted:
		t.Status, t.Message = taskFailed, "the server ended: "+noteOf(row.Status, id)
		t.Error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: t.Message}
		return t, nil
	}
	return nil, errNoTask
}

// updateTask answers tasks/update. It only checks that the task exists: see taskParams.
func (f *toolset) updateTask(ctx context.Context, c *taskCaller, id string) (*task, error) {
	_, err := f.getTask(ctx, c, id)
	return nil, err
}

// cancelTask answers tasks/cancel. A run that has ended, or that neither this process nor workers have, stays as it is.
func (f *toolset) cancelTask(ctx context.Context, c *taskCaller, id string) (*task, error) {
	if f.server.runs.stop(id, c.ID) {
		return nil, nil
	}
	past, err := c.now.Engine.PastRun(ctx, id, &c.Caller)
	if err != nil {
		return nil, errNoTask
	}
	if r := c.now.handedOver(ctx, &c.Caller, past); r != nil && r.answer == nil {
		return nil, c.now.cancel(ctx, r)
	}
	return f.updateTask(ctx, c, id)
}
