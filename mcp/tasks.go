package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

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

// offerTask offers the call's run, which goes on, as a task.
func (c *call) offerTask(run *chain.DetachedRun) {
	if offer, ok := c.ctx.Value(taskOfferKey{}).(*taskOffer); ok {
		shown, _ := taskOf(run)
		shown.ResultType = "task"
		offer.body = marshal(shown)
	}
}

// taskOf returns a run as a task. It fails if the run has ended, and its answer is not kept any more.
func taskOf(r *chain.DetachedRun) (*task, error) {
	t := &task{ResultType: "complete", ID: r.ID, Status: taskWorking, Created: stamp(r.Began), Updated: stamp(r.Last),
		Interval: taskPollInterval.Milliseconds(), Message: r.Note}
	if r.Done >= 0 {
		t.Message = fmt.Sprintf("%d of %d steps have ended", r.Done, r.Steps)
	}
	switch {
	case r.Answer != nil:
		ttl := (time.Since(r.Began) + r.Lifetime).Milliseconds()
		if t.Status, t.TTL = taskCompleted, &ttl; r.Cancelled {
			t.Status = taskCancelled
			break
		}
		text := string(r.Answer)
		if r.Text {
			text = gjson.ParseBytes(r.Answer).Str
		}
		t.Result = marshal(&sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, IsError: r.Code != ""})
	case r.Status == journal.Running || r.Note != "": // workers may have more to say about it
	case r.Status == journal.Interrupted:
		t.Status, t.Message = taskFailed, "the server ended: "+noteOf(r.Status, r.ID)
		t.Error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: t.Message}
	default:
		return nil, errNoTask
	}
	return t, nil
}

// taskParams are the params of tasks/get, tasks/update and tasks/cancel. Inputs of tasks/update are ignored: no task asks for any.
type taskParams struct {
	sdk.ParamsBase
	ID string `json:"taskId"`
}

// addTaskMethods adds the methods of the extension to a server.
func (f *toolset) addTaskMethods(server *sdk.Server) {
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		err := sdk.AddReceivingCustomMethod(server, method, func(ctx context.Context, ss *sdk.ServerSession, p *taskParams) (sdk.Result, error) {
			if p == nil {
				p = &taskParams{}
			}
			if !declaresTasks(ss, p.GetMeta()) {
				return nil, &jsonrpc.Error{Code: codeMissingCapability, Message: "the client must declare the extension " + tasksExtension,
					Data: []byte(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`)}
			}
			now := ctx.Value(generationKey{}).(*generation)
			run, refused := now.Engine.DetachedRun(ctx, p.ID, false, f.server.caller(transport.RequestIn(ctx), now))
			if refused != nil {
				return nil, errNoTask
			}
			shown, err := taskOf(run)
			if err == nil && method == "tasks/cancel" && shown.Status == taskWorking {
				err = now.cancelTask(ctx, run)
			}
			if err != nil {
				return nil, err
			}
			body := json.RawMessage(`{"resultType":"complete"}`)
			if method == "tasks/get" {
				body = marshal(shown)
			}
			return raw.Result("", method, body)
		})
		if err != nil {
			panic(err) // a method of the SDK has this name
		}
	}
}

var errNoTask = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no such task of yours, or it is not kept any more"}

// cancelTask cancels a run. It stays as it is if neither this process nor workers have it.
func (g *generation) cancelTask(ctx context.Context, r *chain.DetachedRun) error {
	err := r.Cancel(ctx, fault.New(fault.Cancelled, "the task was cancelled"))
	if err == nil {
		return nil
	}
	g.Log.WarnContext(ctx, "a run could not be cancelled", "run", r.ID, "error", fault.Message(err))
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
		Message: "the run was not cancelled because its workers cannot be reached: try again"}
}
