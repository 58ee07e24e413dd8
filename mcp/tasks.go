package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
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
	taskAsks      = "input_required" // see Requests
	taskCompleted = "completed"      // the task has a result, which may be a failure
	taskFailed    = "failed"         // the task has no result
	taskCancelled = "cancelled"
)

// task is a run as the extension shows it.
type task struct {
	ResultType string              `json:"resultType,omitempty"` // "": in a notification
	ID         string              `json:"taskId"`
	Status     string              `json:"status"`
	Message    string              `json:"statusMessage,omitempty"`
	Created    string              `json:"createdAt"`
	Updated    string              `json:"lastUpdatedAt"`
	TTL        *int64              `json:"ttlMs"` // how long the task is known, from Created; nil: no limit, as it has no answer that expires
	Interval   int64               `json:"pollIntervalMs"`
	Requests   sdk.InputRequestMap `json:"inputRequests,omitempty"` // what the client asks its user, by keys that are never used again
	Result     json.RawMessage     `json:"result,omitempty"`
	Error      *jsonrpc.Error      `json:"error,omitempty"`
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
type taskOffer struct {
	resumes bool  // the call is goOn's
	task    *task // nil: it follows none
}

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
		if err != nil || offer.task == nil {
			return result, err
		}
		offer.task.ResultType = "task"
		return raw.Result(raw.Version(call.Session, req), method, marshal(offer.task))
	}
}

// offerTask offers the call's run, which goes on, as a task.
func (c *call) offerTask(run *chain.DetachedRun) {
	if offer, ok := c.ctx.Value(taskOfferKey{}).(*taskOffer); ok {
		offer.task, _ = taskOf(run)
	}
}

// taskOf returns a run as a task. It fails if the run has ended, and its answer is not kept any more.
func taskOf(r *chain.DetachedRun) (*task, error) {
	t := &task{ResultType: "complete", ID: r.ID, Status: taskWorking, Created: stamp(r.Began), Updated: stamp(r.Last),
		Interval: taskPollInterval.Milliseconds(), Message: r.Note}
	if r.Done >= 0 && r.Note == "" {
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
	case r.Code == fault.Cancelled:
		t.Status, t.Message = taskCancelled, noteOf(r.Status, r.ID)
	default:
		return nil, errNoTask
	}
	return t, nil
}

// taskParams are the params of tasks/get, tasks/update and tasks/cancel.
type taskParams struct {
	sdk.ParamsBase
	ID        string          `json:"taskId"`
	Responses json.RawMessage `json:"inputResponses,omitempty"`
}

// taskRequest is a request about a task of its client's.
type taskRequest struct {
	toolset *toolset
	now     *generation
	session *sdk.ServerSession
	meta    sdk.Meta
	from    *transport.Request
	caller  *chain.Caller
}

// newTaskRequest returns the request of a client. It fails if the client does not declare tasks.
func (f *toolset) newTaskRequest(ctx context.Context, ss *sdk.ServerSession, meta sdk.Meta) (*taskRequest, error) {
	if !declaresTasks(ss, meta) {
		return nil, &jsonrpc.Error{Code: codeMissingCapability, Message: "the client must declare the extension " + tasksExtension,
			Data: []byte(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`)}
	}
	q := &taskRequest{toolset: f, now: ctx.Value(generationKey{}).(*generation), session: ss, meta: meta, from: transport.RequestIn(ctx)}
	q.caller = f.server.caller(q.from, q.now)
	if labels := q.now.Labels; labels != nil {
		if n := sessionOf(q.from); n != nil {
			ctx = steps.WithSession(ctx, n.stored)
		}
		q.caller.Labels = labels(ctx, q.caller.ID, nil)
	}
	return q, nil
}

// addTaskMethods adds the methods of the extension to a server.
func (f *toolset) addTaskMethods(server *sdk.Server) {
	for method, answer := range map[string]func(*taskRequest, context.Context, *taskParams) (*task, error){
		"tasks/get":    func(q *taskRequest, ctx context.Context, p *taskParams) (*task, error) { return q.get(ctx, p.ID) },
		"tasks/update": (*taskRequest).update,
		"tasks/cancel": (*taskRequest).cancel,
	} {
		err := sdk.AddReceivingCustomMethod(server, method, func(ctx context.Context, ss *sdk.ServerSession, p *taskParams) (sdk.Result, error) {
			if p == nil {
				p = &taskParams{}
			}
			q, err := f.newTaskRequest(ctx, ss, p.GetMeta())
			if err != nil {
				return nil, err
			}
			shown, err := answer(q, ctx, p)
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

var errNoTask = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no such task of yours, or it is not kept any more"}

// run returns a run of the caller, wherever it goes on.
func (q *taskRequest) run(ctx context.Context, id string) (*chain.DetachedRun, error) {
	run, refused := q.now.Engine.DetachedRun(ctx, id, true, q.caller)
	if refused != nil {
		return nil, taskError(refused)
	}
	return run, nil
}

const (
	answerDelay    = 3 * time.Second        // how long the answer of a run that has just ended elsewhere is looked for
	answerInterval = 100 * time.Millisecond // how often
	justEnded      = time.Minute            // a longer time ago is no answer stored any more; more than the clocks of two hosts differ
)

// get returns a task. If somebody has decided about what it asked, it goes on. The process of a run stores its answer a moment after the
// journal has its end: the answer is waited for, by the clock of this process.
func (q *taskRequest) get(ctx context.Context, id string) (*task, error) {
	for began := time.Now(); ; {
		run, err := q.run(ctx, id)
		if err != nil {
			return nil, err
		}
		shown, err := q.show(ctx, run)
		if !errors.Is(err, errNoTask) || time.Since(run.Last).Abs() > justEnded || time.Since(began) >= answerDelay ||
			!sleep(ctx, answerInterval) {
			return shown, err
		}
	}
}

// sleep reports whether ctx goes on after that time.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// show returns a run as a task; see get.
func (q *taskRequest) show(ctx context.Context, run *chain.DetachedRun) (*task, error) {
	if !waitsIn(run) && !wasDecided(run) {
		return taskOf(run)
	}
	questions, decided, f := q.now.Engine.OpenQuestions(ctx, run.ID, q.caller)
	if f != nil && f.Code != fault.TokenExpired {
		return nil, taskError(f)
	}
	if requests := q.requests(run.ID, questions); requests != nil {
		return askingTask(run, requests), nil
	}
	if decided {
		return q.goOn(ctx, run)
	}
	return taskOf(run) // whoever cannot be asked gets the answer, which asks
}

// waitsIn reports whether a run waits for approval.
func waitsIn(r *chain.DetachedRun) bool {
	return r.Note == "" && r.Status == journal.Waiting && r.Code == fault.ApprovalRequired
}

// wasDecided reports whether a run may have been decided about, and not resumed since.
func wasDecided(r *chain.DetachedRun) bool {
	return r.Status == journal.MayContinue || r.Status == journal.Failed && r.Code == fault.Denied && r.Answer == nil
}

// goOn resumes a run in the background, as its caller can do with the tool chain, and returns it as a task. The task has not ended if that
// is refused: with other rights or another configuration the run goes on.
func (q *taskRequest) goOn(ctx context.Context, r *chain.DetachedRun) (*task, error) {
	offer := &taskOffer{resumes: true}
	resume := &sdk.CallToolRequest{Session: q.session, Params: &sdk.CallToolParamsRaw{Meta: q.meta, Name: "chain",
		Arguments: marshal(map[string]any{"resume": r.ID, "async": true})}}
	result, err := q.toolset.receiveRaw(q.toolset.handle)(context.WithValue(ctx, taskOfferKey{}, offer), "tools/call", resume)
	if err != nil || offer.task != nil {
		return offer.task, err
	}
	t := &task{ResultType: "complete", ID: r.ID, Status: taskWorking, Created: stamp(r.Began), Updated: stamp(r.Last),
		Interval: taskPollInterval.Milliseconds()}
	answer := marshal(result)
	switch refusal := gjson.Get(gjson.GetBytes(answer, "content.0.text").Str, "error"); fault.Code(refusal.Get("code").Str) {
	case "":
		t.Status, t.Result = taskCompleted, answer
	case fault.TokenExpired:
		return nil, errNoTask
	default:
		t.Message = fault.ClipRunes(refusal.Get("message").Str, 300)
	}
	return t, nil
}

// cancel cancels a task. It stays as it is if neither this process nor workers have it, and it waits for nothing.
func (q *taskRequest) cancel(ctx context.Context, p *taskParams) (*task, error) {
	return nil, whileBusy(ctx, func() (*fault.Error, error) {
		run, err := q.run(ctx, p.ID)
		switch {
		case err != nil:
			return nil, err
		case waitsIn(run) || wasDecided(run):
			return q.now.Engine.StopWaiting(ctx, p.ID, q.caller), nil
		}
		err = run.Cancel(ctx, fault.New(fault.Cancelled, "the task was cancelled"))
		if err != nil {
			q.now.Log.WarnContext(ctx, "a run could not be cancelled", "run", p.ID, "error", fault.Message(err))
			err = &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
				Message: "the run was not cancelled because its workers cannot be reached: try again"}
		}
		return nil, err
	})
}

// whileBusy does something about a task that waits, again for a second while another request has the task: one that decides about it gives
// it back at once, and after one that has it go on there is something else to do.
func whileBusy(ctx context.Context, do func() (*fault.Error, error)) error {
	for began := time.Now(); ; {
		f, err := do()
		switch {
		case f == nil:
			return err
		case f.Code != fault.Busy || time.Since(began) >= time.Second || !sleep(ctx, 50*time.Millisecond):
			return taskError(f)
		}
	}
}

// taskError returns the error of the protocol for a fault.
func taskError(f *fault.Error) error {
	switch f.Code {
	case fault.TokenExpired:
		return errNoTask
	case fault.BadRequest:
		if len(f.Available) == 0 {
			return invalidParams(f.Message)
		}
		return invalidParams(f.Message + ": there are " + strings.Join(f.Available, ", "))
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: f.Message, Data: marshal(map[string]any{"code": f.Code})}
}
