package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/durable"
)

func newWorkerCommand(c *cli) *cobra.Command {
	var (
		jobs    int
		metrics string
		ready   atomic.Bool
	)
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Carry out durable runs and batches (onecall-temporal)",
		Long: "Carry out the chains that onecall run --durable and its batches hand to the engine, with the functions and the rights of this\n" +
			"configuration. Workers of one engine need the same journal and store of results. A worker waits for an engine that is not\n" +
			"there yet. At an interrupt it takes no more chains; those under way have ten seconds to end, or go on at another worker.",
		Args:        noArgs,
		Annotations: map[string]string{serviceAnnotation: "yes"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if jobs < 1 {
				return usageErrorf("--jobs is %d: the minimum is 1", jobs)
			}
			monitor := &app.Monitor{Metrics: metrics, Ready: func(context.Context) error {
				if !ready.Load() {
					return fault.New(fault.Unavailable, "not ready: the engine has not answered yet")
				}
				return nil
			}}
			return c.withJournal(cmd.Context(), app.Options{Calls: true, Monitor: monitor}, func(a *app.App) error {
				engine, err := c.awaitEngine(cmd.Context(), a)
				if err != nil {
					return err
				}
				defer engine.Close()
				return engine.Work(cmd.Context(), &durable.Worker{Jobs: jobs, Run: c.chainRunner(a), Store: a.BatchStore(),
					Ready: func() {
						ready.Store(true)
						c.noticef("ready: up to %d chains at once, from %s", jobs, engine.Queue())
					},
					Check: func(ctx context.Context, b *durable.Batch) error { return checkJournal(ctx, a, b) },
					Renew: func(ctx context.Context, b *durable.Batch, chunk int) error { return renew(ctx, a, b, chunk) },
					End: func(ctx context.Context, parent string, ok bool, code fault.Code) error {
						status := journal.OK
						if !ok {
							status = journal.Failed
						}
						return a.Journal.SetBatchStatus(ctx, parent, status, code)
					},
				})
			})
		},
	}
	cmd.Flags().IntVar(&jobs, "jobs", 8*runtime.NumCPU(), "chains that run at once (default: eight for each processor)")
	cmd.Flags().Lookup("jobs").DefValue = "0" // the same help on every machine
	cmd.Flags().StringVar(&metrics, "metrics", "", "serve /metrics, /healthz and /readyz on this `address`; :9090 is 127.0.0.1:9090")
	c.engineFlag(cmd)
	return cmd
}

// awaitEngine opens the engine. It waits while the engine cannot be reached, since a machine's services may start in any order.
func (c *cli) awaitEngine(ctx context.Context, a *app.App) (durable.Engine, error) {
	for reported := false; ; reported = true {
		engine, err := c.openEngine(ctx, a)
		if fault.CodeOf(err) != fault.Unavailable || ctx.Err() != nil {
			return engine, err
		}
		if !reported {
			c.noticef("waiting for the engine: %s", fault.Message(err))
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Second):
		}
	}
}

// withKey adds a key to a chain that has none, or whose key is null. Any other request, also one that is not a JSON object, stays as
// it is.
func withKey(request []byte, key string) []byte {
	trimmed := bytes.TrimRight(request, " \t\r\n")
	runKey := gjson.GetBytes(request, "key")
	switch {
	case !gjson.ValidBytes(request) || !bytes.HasSuffix(trimmed, []byte{'}'}):
		return request
	case runKey.Exists() && runKey.Type == gjson.Null:
		return slices.Concat(request[:runKey.Index], jsonText(key), request[runKey.Index+len(runKey.Raw):])
	case runKey.Exists():
		return request
	}
	object := bytes.TrimRight(trimmed[:len(trimmed)-1], " \t\r\n")
	comma := ","
	if bytes.HasSuffix(object, []byte{'{'}) {
		comma = ""
	}
	return fmt.Appendf(bytes.Clone(object), `%s"key":%s}`, comma, jsonText(key)) // at its end, so that the positions of faults remain right
}

// suspendFrom is the shortest pause for which a chain gives up its slot. Shorter pauses are not worth a resume, which reads the whole run.
const suspendFrom = 10 * time.Second

// chainRunner returns the function that runs a chain of a batch in this process (durable.Worker.Run). Its last argument is when the chain
// was first tried; zero: this is the first try.
func (c *cli) chainRunner(a *app.App) func(context.Context, *durable.Batch, *durable.Chain, time.Time) (*durable.Result, error) {
	return func(ctx context.Context, b *durable.Batch, ch *durable.Chain, first time.Time) (*durable.Result, error) {
		if ch.Run != "" {
			return c.runHandedOver(ctx, a, ch)
		}
		request, key := []byte(ch.Text), b.RunKey(ch.Position)
		if ch.Request != nil {
			request = withKey(ch.Request, key)
		}
		if first.IsZero() {
			first = ch.Begun
		}
		caller := &chain.Caller{Label: ch.Label, Line: ch.Line, Chain: ch.Name, Parent: b.Parent, Override: ch.Override, Log: c.logFunc()}
		f, err := checkStillStored(ctx, a, gjson.GetBytes(request, "key").Str, first)
		if err != nil {
			return nil, err // the chain is tried again
		}
		if ch.Journal != "" && ch.Journal != a.JournalID() {
			f = fault.New(fault.BadRequest, "nothing was run: the worker that took the chain has another journal than this command. The command "+
				"and all workers need the same journal, and with SQLite the same configuration file")
		}
		if gjson.GetBytes(request, "resume").Type != gjson.Null { // it would have no key of its own
			f = fault.New(fault.NotSupported, "workers only begin chains: use onecall resume to resume this run").Under("/resume")
		}
		if f != nil {
			return durable.ResultOf(ch.Position, a.Engine.Refuse(ctx, []*fault.Error{f}, caller)), nil
		}
		r, err := runOnce(ctx, a, ch, request, caller)
		if err != nil {
			return nil, err
		}
		if derived, _ := durable.BatchIDOf(a.Scope(), gjson.GetBytes(request, "key").Str); derived != b.ID {
			r.Approval = false // a decision would not reach this batch; the answer says how to resume the run
		}
		return r, nil
	}
}

// runOnce runs a chain. An error means that its result is not known yet: another worker still has the run, or the journal cannot be
// reached.
func runOnce(ctx context.Context, a *app.App, ch *durable.Chain, request []byte, caller *chain.Caller) (*durable.Result, error) {
	if gjson.GetBytes(request, "key").Str != "" && a.Keep() >= 2*suspendFrom { // its run can be found and resumed
		caller.Suspend = suspendFrom
	}
	answer := a.Run(ctx, request, caller)
	switch {
	case answer.OK:
	case answer.Error.Code == fault.Busy: // another worker still has the run
		return nil, answer.Error
	case answer.Error.Code == fault.Unavailable && ctx.Err() == nil:
		if err := a.Journal.Check(ctx); err != nil { // not the chain's fault
			return nil, errors.Join(answer.Error, err)
		}
	}
	r := durable.ResultOf(ch.Position, answer)
	if latest := time.Now().Add(a.Keep() / 2); r.Resumes.After(latest) { // otherwise the journal would no longer have the run
		r.Resumes = latest
	}
	return r, nil
}

// runHandedOver continues a run that a server has handed over, on behalf of the server's caller. The journal has its chain.
func (c *cli) runHandedOver(ctx context.Context, a *app.App, ch *durable.Chain) (*durable.Result, error) {
	caller := &chain.Caller{Log: c.logFunc()}
	callerCtx, end := a.ActFor(ctx, caller, ch.Caller)
	defer end()
	past, err := a.Journal.Read(ctx, ch.Run, &caller.ID)
	var f *fault.Error
	switch {
	case callerCtx.Err() != nil && ctx.Err() == nil:
		f, _ = fault.As(context.Cause(callerCtx))
	case errors.Is(err, journal.ErrNotFound), errors.Is(err, journal.ErrUnreadable), err == nil && past.Row.Scope != a.Scope():
		f = fault.New(fault.BadRequest, "the worker's journal has no run %s: the server and its workers need the same journal", ch.Run)
	case err != nil:
		return nil, err
	case past.Row.LastLease == ch.Lease && past.Row.Status == journal.Failed:
		f = fault.New(fault.Cancelled, "the server gave this run up when it handed it over: resume it")
	}
	if f != nil {
		r := durable.ResultOf(ch.Position, a.Engine.Refuse(ctx, []*fault.Error{f}, caller))
		r.Rights = ch.Caller.Results
		return r, nil
	}
	r, err := runOnce(callerCtx, a, ch, fmt.Appendf(nil, `{"key":%s}`, jsonText(past.Row.CallersKey())), caller)
	if err != nil {
		return nil, err
	}
	r.Approval, r.Rights = false, ch.Caller.Results // the answer goes to the caller, and says how to continue
	if row, err := a.Journal.ReadRow(context.WithoutCancel(ctx), ch.Run, caller.ID, a.Scope()); err == nil {
		r.Lease = row.LastLease
	}
	return r, nil
}

// checkJournal fails if the worker's journal is not that of the batch. Such a worker would repeat what other workers have already done.
func checkJournal(ctx context.Context, a *app.App, b *durable.Batch) error {
	if b.Parent == "" { // a single chain
		return nil
	}
	past, err := a.Journal.Read(ctx, b.Parent, nil)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return fault.New(fault.BadRequest, "this worker's journal has no batch %s: the command and all workers need the same journal", b.ID)
	case err == nil && past.Row.Scope != a.Scope():
		return fault.New(fault.BadRequest, "the batch %s was begun with another configuration: start this worker with that one", b.ID)
	}
	return err
}

// renew extends the life of a waiting batch: its row in the journal, its record, and the waiting chunk.
func renew(ctx context.Context, a *app.App, b *durable.Batch, chunk int) error {
	stored := a.BatchStore()
	errs := []error{stored.Touch(ctx, recordKey(b.ID)), stored.Touch(ctx, b.InputKey(chunk))}
	if b.Parent != "" {
		// ErrBusy: another worker is renewing the row.
		if err := a.Journal.SetBatchStatus(ctx, b.Parent, journal.Running, ""); !errors.Is(err, journal.ErrBusy) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// checkStillStored refuses a chain that was first tried so long ago that the journal may have removed its run, unless that run can still be
// found. A nil fault: the chain may be run. If first is zero, the chain was not tried before. The error is one of the journal.
func checkStillStored(ctx context.Context, a *app.App, key string, first time.Time) (*fault.Error, error) {
	if first.IsZero() || time.Since(first) < a.Keep()/2 {
		return nil, nil
	}
	if _, err := a.FindRun(ctx, key); !errors.Is(err, journal.ErrNotFound) {
		return nil, err
	}
	return fault.New(fault.TokenExpired, "this chain was begun at %s, but the journal has no run of it any more: what it did is not "+
		"known. journal.keep says how long runs are kept", first.UTC().Format(time.RFC3339)), nil
}
