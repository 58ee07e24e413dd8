// Package temporal runs batches of chains on a Temporal server (https://docs.temporal.io): a batch is a workflow, and each chunk of its
// chains an activity of a worker. Only the journal records what chains did. Histories hold ids, counts and outcomes, but no chains
// and no results.
package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/durable"
)

const (
	scheme        = "temporal"
	defaultPort   = "7233"
	dialTimeout   = 10 * time.Second
	progressEvery = 250 * time.Millisecond
	workerGrace   = 2 * time.Second // how long workers that start along with a client may take to ask for work
)

// Engine is a durable.Engine on a Temporal server.
type Engine struct {
	client client.Client
	queue  string
	server string // the server's address and namespace, for messages
}

var _ durable.Engine = (*Engine)(nil)

// Open connects to temporal://host:port/namespace?queue=name. The default port is 7233, the default queue is o.Queue, and the default
// namespace is that of Temporal's configuration, or else "default". TLS, API keys and headers come from the environment and files that
// all Temporal programs read (https://docs.temporal.io/develop/environment-configuration). It fails with bad_request if the URL
// or that configuration is wrong or the namespace does not exist, with denied if the server refuses the credentials, and with unavailable
// if no server answers within ten seconds.
func Open(ctx context.Context, address string, o *durable.Options) (durable.Engine, error) {
	options, queue, err := optionsOf(address)
	if err != nil {
		return nil, err
	}
	if options.MetricsHandler, err = metricsHandler(o.Metrics); err != nil {
		return nil, err
	}
	return dial(ctx, options, cmp.Or(queue, o.Queue))
}

func dial(ctx context.Context, options client.Options, queue string) (*Engine, error) {
	options.Logger = sdklog.NewStructuredLogger(slog.Default())
	e := &Engine{queue: queue, server: fmt.Sprintf("%s, namespace %s", options.HostPort, options.Namespace)}
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var err error
	if e.client, err = client.DialContext(dialCtx, options); err != nil {
		return nil, e.fault(err)
	}
	// The connection alone says nothing about the namespace.
	if _, err = e.client.DescribeTaskQueue(dialCtx, queue, enums.TASK_QUEUE_TYPE_ACTIVITY); err != nil {
		e.client.Close()
		return nil, e.fault(err)
	}
	return e, nil
}

// optionsOf returns the options of a client, and the task queue that the address names.
func optionsOf(address string) (options client.Options, queue string, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != scheme || u.Hostname() == "" || u.User != nil {
		return options, "", fault.New(fault.BadRequest, "the engine's address must be like temporal://host:7233/namespace. Credentials "+
			"belong in Temporal's own variables, such as TEMPORAL_API_KEY")
	}
	query := u.Query()
	queue = query.Get("queue")
	if query.Del("queue"); len(query) > 0 {
		return options, "", fault.New(fault.BadRequest, "the engine's address has ?%s: only queue= is known there. TLS and API keys are set "+
			"by Temporal's own variables, such as TEMPORAL_TLS and TEMPORAL_API_KEY",
			fault.Clip(strings.Join(slices.Sorted(maps.Keys(query)), ", "), 100))
	}
	if options, err = envconfig.LoadDefaultClientOptions(); err != nil {
		return options, "", fault.New(fault.BadRequest, "Temporal's configuration, in the environment or its file, cannot be used: %v", err)
	}
	options.HostPort = u.Host
	if u.Port() == "" {
		options.HostPort = u.Host + ":" + defaultPort
	}
	if namespace := strings.Trim(u.Path, "/"); namespace != "" {
		options.Namespace = namespace
	} else if options.Namespace == "" {
		options.Namespace = client.DefaultNamespace
	}
	return options, queue, nil
}

// fault returns a coded error for an error of the server.
func (e *Engine) fault(err error) error {
	var (
		namespace *serviceerror.NamespaceNotFound
		denied    *serviceerror.PermissionDenied
		exhausted *serviceerror.ResourceExhausted
		invalid   *serviceerror.InvalidArgument
	)
	_, coded := fault.As(err)
	text := strings.ToLower(err.Error())
	switch {
	case coded, errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &namespace):
		return fault.New(fault.BadRequest, "the Temporal server has no namespace of that name (%s): create it (temporal operator namespace "+
			"create), or name another in the address", e.server)
	case errors.As(err, &denied), strings.Contains(text, "unauthorized"), strings.Contains(text, "unauthenticated"):
		return fault.New(fault.Denied, "the Temporal server refuses these credentials (%s): see TEMPORAL_API_KEY and TEMPORAL_TLS_…: %v",
			e.server, err)
	case errors.As(err, &exhausted):
		return fault.New(fault.Busy, "the Temporal server accepts no more work at the moment (%s): %v", e.server, err)
	case errors.As(err, &invalid):
		return fault.New(fault.LimitExceeded, "the Temporal server refuses this batch (%s): %v", e.server, err)
	}
	return fault.New(fault.Unavailable, "no Temporal server answers at %s: is it running, and reached with TLS if it wants TLS? %v", e.server,
		err)
}

// Close closes the connection.
func (e *Engine) Close() { e.client.Close() }

// workflowID returns the id of a batch's workflow.
func workflowID(id string) string { return "onecall-" + id }

// Start implements durable.Engine.
func (e *Engine) Start(ctx context.Context, b *durable.Batch) error {
	_, err := e.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: workflowID(b.ID), TaskQueue: e.queue,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:            b.Name, // Temporal's web pages show the summary and the memo
		Memo:                     map[string]any{"chain": b.Name, "run": b.Parent},
	}, batchWorkflow, &input{Batch: *b})
	if err != nil {
		return e.fault(err)
	}
	return nil
}

// Wait implements durable.Engine.
func (e *Engine) Wait(ctx context.Context, id string, progress func(durable.Progress)) (durable.Progress, error) {
	var watching sync.WaitGroup
	defer watching.Wait() // the caller's output must not be mixed with progress
	waitCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	if progress != nil {
		watching.Go(func() { e.watch(waitCtx, id, progress) })
	}
	var p durable.Progress
	err := e.client.GetWorkflow(waitCtx, workflowID(id), "").Get(waitCtx, &p)
	var missing *serviceerror.NotFound
	cancelled := new(temporal.CanceledError)
	switch {
	case err == nil:
		return p, nil
	case ctx.Err() != nil:
		return p, ctx.Err()
	case errors.As(err, &cancelled):
		err = cancelled.Details(&p) // p becomes the progress until then, and the cancellation itself is no error
		return p, err
	case errors.As(err, &missing):
		return p, fault.New(fault.TokenExpired, "the Temporal server has no batch %s any more (%s)", id, e.server)
	}
	if ended := new(temporal.WorkflowExecutionError); errors.As(err, &ended) {
		f := fault.New(fault.Internal, "the batch %s ended before its chains (%s): %v", id, e.server, err)
		f.Err = durable.ErrEnded
		return p, f
	}
	return p, e.fault(err)
}

// watch calls progress with the state of a batch from time to time, until ctx ends.
func (e *Engine) watch(ctx context.Context, id string, progress func(durable.Progress)) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if e.NoWorkers(ctx) { // a query would wait for a worker
			if time.Since(began) > workerGrace {
				progress(durable.Progress{NoWorkers: true})
			}
			continue
		}
		value, err := e.client.QueryWorkflow(ctx, workflowID(id), "", progressQuery)
		var p durable.Progress
		if err == nil && value.Get(&p) == nil && ctx.Err() == nil {
			progress(p)
		}
	}
}

// Queue implements durable.Engine.
func (e *Engine) Queue() string { return fmt.Sprintf("%s, queue %s", e.server, e.queue) }

// NoWorkers implements durable.Engine. The server still lists a worker for a while after its last request for work.
func (e *Engine) NoWorkers(ctx context.Context) bool {
	description, err := e.client.DescribeTaskQueue(ctx, e.queue, enums.TASK_QUEUE_TYPE_ACTIVITY)
	return err == nil && len(description.Pollers) == 0
}

// Running implements durable.Engine.
func (e *Engine) Running(ctx context.Context, id string) (bool, error) {
	description, err := e.client.DescribeWorkflowExecution(ctx, workflowID(id), "")
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		return false, nil
	case err != nil:
		return false, e.fault(err)
	}
	return description.WorkflowExecutionInfo.Status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

// Cancel implements durable.Engine.
func (e *Engine) Cancel(ctx context.Context, id string) error {
	if err := e.client.CancelWorkflow(ctx, workflowID(id), ""); err != nil {
		return e.fault(err)
	}
	return nil
}

// SignalDecision implements durable.Engine.
func (e *Engine) SignalDecision(ctx context.Context, id string, position int) (running bool, err error) {
	err = e.client.SignalWorkflow(ctx, workflowID(id), "", decidedSignal, position)
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		return false, nil
	case err != nil:
		return false, e.fault(err)
	}
	return true, nil
}
