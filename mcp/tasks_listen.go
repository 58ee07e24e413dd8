package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp/internal/raw"
	"github.com/onecall-mcp/onecall/mcp/transport"
)

// taskStream tells a client what becomes of its tasks (notifications/tasks), on the stream of its subscriptions/listen.
type taskStream struct {
	toolset *toolset
	session *sdk.ServerSession
	meta    sdk.Meta
	ids     []string // of tasks that go on

	acknowledged chan struct{}   // closed when the client knows which tasks it is told of
	subscription json.RawMessage // the id of the subscription; set before acknowledged is closed
}

type taskStreamKey struct{}

// maxFollowed bounds the tasks of a stream. The client reads in the acknowledgement which they are.
const maxFollowed = 100

// receiveListen adds notifications of tasks to the stream of a client that asks for them. If it asks for nothing else, the stream ends with
// the last of the tasks.
func (f *toolset) receiveListen(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		listen, ok := req.(*sdk.SubscriptionsListenRequest)
		if !ok || listen.Params == nil || listen.Params.Meta[transport.MetaTaskIDs] == nil {
			return next(ctx, method, req)
		}
		s, err := f.newTaskStream(ctx, listen)
		if err != nil {
			return nil, err
		}
		ctx, stop := context.WithCancel(context.WithValue(ctx, taskStreamKey{}, s))
		defer stop()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.follow(ctx)
		}()
		result, err := next(ctx, method, req) // returns when it has acknowledged, or when the stream ends
		if err != nil {
			stop()
		}
		<-ended
		return result, err
	}
}

// newTaskStream returns the stream of a request, with those of the first maxFollowed tasks that are the caller's: each is looked up.
func (f *toolset) newTaskStream(ctx context.Context, listen *sdk.SubscriptionsListenRequest) (*taskStream, error) {
	asked := gjson.ParseBytes(marshal(listen.Params.Meta[transport.MetaTaskIDs]))
	delete(listen.Params.Meta, transport.MetaTaskIDs) // nobody else must see it
	s := &taskStream{toolset: f, session: listen.Session, meta: listen.Params.Meta, ids: []string{},
		acknowledged: make(chan struct{})}
	isNoText := func(id gjson.Result) bool { return id.Type != gjson.String }
	if !asked.IsArray() || slices.ContainsFunc(asked.Array(), isNoText) {
		return nil, invalidParams("notifications.taskIds must be an array of the ids of tasks")
	}
	q, end, err := s.request(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	all := asked.Array()
	for _, id := range all[:min(len(all), maxFollowed)] {
		_, err := q.run(ctx, id.Str)
		switch {
		case err == nil && !slices.Contains(s.ids, id.Str):
			s.ids = append(s.ids, id.Str)
		case err != nil && !errors.Is(err, errNoTask):
			return nil, err
		}
	}
	return s, nil
}

// request returns a request about tasks with the configuration of the moment, which it keeps until end.
func (s *taskStream) request(ctx context.Context) (q *taskRequest, end func(), err error) {
	ctx, end = handler{s.toolset.server}.BeginMessage(ctx)
	if q, err = s.toolset.newTaskRequest(ctx, s.session, s.meta); err != nil {
		end()
		return nil, nil, err
	}
	return q, end, nil
}

// acknowledge returns a handler that adds the tasks to the SDK's acknowledgement.
func (s *taskStream) acknowledge(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		defer close(s.acknowledged)
		params := marshal(req.GetParams())
		s.subscription = json.RawMessage(gjson.GetBytes(params, "_meta."+gjson.Escape(sdk.MetaKeySubscriptionID)).Raw)
		agreed := raw.With(json.RawMessage(gjson.GetBytes(params, "notifications").Raw), "taskIds", marshal(s.ids))
		return next(ctx, method, rawRequest(s.session, raw.With(params, "notifications", agreed)))
	}
}

func rawRequest(ss *sdk.ServerSession, params json.RawMessage) sdk.Request {
	return &sdk.ServerRequest[*raw.Params]{Session: ss, Params: &raw.Params{Body: params}}
}

// followed is what a stream knows of a task.
type followed struct {
	id     string
	state  string // what the client was told
	goesOn bool   // it changes without a change of its run, or could not be read
}

// follow tells the client of each task as it is, and then whenever it changes, until all have ended. A task that goes on is looked at as
// often as a client should that polls, however much is recorded; one that waits, when its run may have changed.
func (s *taskStream) follow(ctx context.Context) {
	select {
	case <-s.acknowledged:
	case <-ctx.Done():
		return
	}
	if len(s.ids) == 0 { // and maybe no journal
		return
	}
	changes := s.toolset.server.opts().Engine.Journal().Subscribe(ctx)
	ticks := time.NewTicker(taskPollInterval)
	defer ticks.Stop()
	open := make([]*followed, len(s.ids))
	for i, id := range s.ids {
		open[i] = &followed{id: id}
	}
	due := func(*followed) bool { return true }
	for ticked := 0; ; {
		open = slices.DeleteFunc(open, func(f *followed) bool { return due(f) && s.tell(ctx, f) })
		if len(open) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case change, isOpen := <-changes:
			due = func(f *followed) bool { return !f.goesOn && (change.Run == "" || change.Run == f.id) }
			if !isOpen {
				changes = nil
			}
		case <-ticks.C:
			ticked++
			all := ticked%expiryTicks == 0
			due = func(f *followed) bool { return all || f.goesOn }
		}
	}
}

// expiryTicks is how many times a stream looks at tasks that go on before it looks whether the others are kept.
const expiryTicks = 60

// tell tells the client of a task if its state has changed, and reports whether nothing more is to come.
func (s *taskStream) tell(ctx context.Context, f *followed) (ended bool) {
	q, end, err := s.request(ctx)
	if err != nil {
		return true
	}
	defer end()
	ctx = context.WithValue(ctx, generationKey{}, q.now)
	shown, err := q.get(ctx, f.id)
	if f.goesOn = err != nil || shown.Status == taskWorking; err != nil {
		return errors.Is(err, errNoTask) // it is not kept any more; else the next tick looks again
	}
	state := shown.Status + " " + shown.Message + " " + strings.Join(slices.Sorted(maps.Keys(shown.Requests)), " ")
	if state != f.state {
		f.state = state
		shown.ResultType = ""
		body := raw.With(marshal(shown), "_meta", raw.With(nil, sdk.MetaKeySubscriptionID, s.subscription))
		ctx := context.WithValue(ctx, taskNotificationKey{}, body)
		err = s.session.NotifyElicitationComplete(ctx, &sdk.ElicitationCompleteParams{ElicitationID: f.id})
	}
	return err != nil || shown.Status != taskWorking && shown.Status != taskAsks
}

// taskNotificationKey is the key of the params of a notification of a task, which take the place of those of its carrier.
type taskNotificationKey struct{}

// sendTasks is the middleware for what the streams of tasks send.
func (f *toolset) sendTasks(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if body, ok := ctx.Value(taskNotificationKey{}).(json.RawMessage); ok && method == transport.TaskCarrier {
			return next(ctx, method, rawRequest(req.GetSession().(*sdk.ServerSession), transport.AsTask(body)))
		}
		if s, ok := ctx.Value(taskStreamKey{}).(*taskStream); ok && method == "notifications/subscriptions/acknowledged" {
			return s.acknowledge(next)(ctx, method, req)
		}
		return next(ctx, method, req)
	}
}
