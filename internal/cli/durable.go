package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/durable"
)

const (
	maxChunk      = 20          // chains in a chunk, at most
	maxChunkBytes = 1 << 20     // bytes of the chains in a chunk, at most, unless it has a single chain
	cancelTime    = time.Minute // how long a cancelled batch may take to end
)

// engineFlag adds the flag that names the engine.
func (c *cli) engineFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.engineURL, "engine", "",
		"the `URL` of the engine of durable runs, temporal://host:7233/namespace (default: the configuration's)")
	c.hideWithoutEngine(cmd, "engine")
}

// hideWithoutEngine hides a flag that a program without an engine only refuses.
func (c *cli) hideWithoutEngine(cmd *cobra.Command, flag string) {
	if c.engineOpener == nil {
		_ = cmd.Flags().MarkHidden(flag) // the flag exists
	}
}

// isDurable reports whether workers run a chain: if the flag or the chain asks for it. The chain's field durable is ignored for a
// recording, a replay, a watch or a dry run.
func (f *runFlags) isDurable(e *chainfile.Entry, override chain.Override) bool {
	inProcess := f.record != "" || f.replay != "" || f.watch || override.DryRun
	return f.durable || gjson.GetBytes(e.Request, "durable").Bool() && !inProcess
}

// checkDurable refuses flags that only a run in this process can have, if the run is to be durable.
func (f *runFlags) checkDurable(cmd *cobra.Command) error {
	if !f.durable {
		return nil
	}
	for _, name := range []string{"record", "replay", "watch", "explain", "jobs"} {
		if cmd.Flags().Changed(name) {
			return usageErrorf("--%s is for chains that this process runs: leave it out, or --durable and --engine", name)
		}
	}
	return nil
}

// openEngine opens the engine that the flag or else the configuration names.
func (c *cli) openEngine(ctx context.Context, a *app.App) (durable.Engine, error) {
	url := c.engineURL
	if url == "" {
		url = a.EngineURL()
	}
	switch {
	case c.engineOpener == nil:
		return nil, usageErrorf("this program has no engine for durable runs: use onecall-temporal, which has one and is otherwise the same")
	case url == "":
		return nil, usageErrorf("no engine is named: add --engine temporal://127.0.0.1:7233/default, or engine: to the configuration")
	}
	if err := a.CheckShared(); err != nil {
		return nil, err
	}
	return c.engineOpener(ctx, url, &durable.Options{Queue: durable.QueueOf(a.Scope()), Metrics: a.Metrics()})
}

// batchRecord is the stored state of a batch.
type batchRecord struct {
	Name   string       `json:"name"`            // the name of the file or saved chain
	Scope  string       `json:"scope,omitempty"` // the scope of its runs in the journal
	Total  int          `json:"total"`
	Run    string       `json:"run,omitempty"` // the batch's run in the journal; "": the batch is a single chain
	Rounds []batchRound `json:"rounds"`
}

// batchRound is one start of a batch: of all its chains, or of those that had failed before.
type batchRound struct {
	Began     time.Time         `json:"began"`
	Chunks    []int             `json:"chunks"`
	Positions []int             `json:"positions,omitempty"` // the positions of its chains in the batch; nil: all chains, in order
	Progress  *durable.Progress `json:"progress,omitempty"`  // nil: the round is not known to have ended
}

// position returns the position of the n-th chain of a round.
func (r *batchRound) position(n int) int {
	if r.Positions == nil {
		return n
	}
	return r.Positions[n]
}

func recordKey(id string) string { return "batch/" + id }

// batchRun is a batch on an engine.
type batchRun struct {
	*cli
	app    *app.App
	engine durable.Engine
	store  durable.Store
	id     string
	record batchRecord

	chunk  int             // the chunk that was read last
	chains []durable.Chain // the chains of chunk; nil: none was read
}

// start stores chains as a round of the batch, and starts the round on the engine.
func (d *batchRun) start(ctx context.Context, chains []durable.Chain) error {
	b := d.batch(len(d.record.Rounds))
	var positions []int
	for i, chunk := range chunksOf(chains) {
		text, err := json.Marshal(chunk)
		if err != nil {
			return err
		}
		if err := d.store.Put(ctx, b.InputKey(i), text); err != nil {
			return app.Failure{Err: err}
		}
		b.Chunks = append(b.Chunks, len(chunk))
	}
	if b.Round > 0 {
		for i := range chains {
			positions = append(positions, chains[i].Position)
		}
	}
	d.record.Rounds = append(d.record.Rounds, batchRound{Began: time.Now(), Chunks: b.Chunks, Positions: positions})
	if err := d.storeRecord(ctx); err != nil {
		return err
	}
	return d.engine.Start(ctx, b)
}

// batch returns a round as the engine knows it.
func (d *batchRun) batch(round int) *durable.Batch {
	b := &durable.Batch{ID: d.id, Name: d.record.Name, Parent: d.record.Run, Round: round}
	if round < len(d.record.Rounds) {
		b.Chunks = d.record.Rounds[round].Chunks
	}
	return b
}

// storeRecord stores the record.
func (d *batchRun) storeRecord(ctx context.Context) error {
	text, err := json.Marshal(d.record)
	if err == nil {
		err = d.store.Put(ctx, recordKey(d.id), text)
	}
	if err != nil {
		return app.Failure{Err: err}
	}
	return nil
}

// chunksOf divides chains into a hundred chunks or more, if there are enough chains, so that workers share the chains and a worker that
// dies leaves only a few of them unfinished.
func chunksOf(chains []durable.Chain) (chunks [][]durable.Chain) {
	limit := min(max(len(chains)/100, 1), maxChunk)
	size := 0
	for i := range chains {
		n := len(chunks)
		if n == 0 || len(chunks[n-1]) == limit || size+len(chains[i].Request) > maxChunkBytes {
			chunks, n, size = append(chunks, nil), n+1, 0
		}
		chunks[n-1] = append(chunks[n-1], chains[i])
		size += len(chains[i].Request)
	}
	return chunks
}

// wait waits until the batch has ended. If ctx ends first, wait cancels the batch and waits again, for at most cancelTime. It fails with
// cancelled if the batch has not ended by then, or if there is no worker to end it.
func (d *batchRun) wait(ctx context.Context, show func(durable.Progress)) (durable.Progress, error) {
	p, err := d.engine.Wait(ctx, d.id, show)
	if ctx.Err() == nil {
		return p, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	if err := d.engine.Cancel(ctx, d.id); err != nil {
		return p, err
	}
	p, err = d.engine.Wait(ctx, d.id, func(p durable.Progress) {
		if p.NoWorkers {
			cancel() // nobody would end the batch: do not wait
		}
	})
	if ctx.Err() != nil {
		return p, fault.New(fault.Cancelled, "the run ends when a worker notices the cancellation: onecall-temporal resume %s then writes the "+
			"answers", d.id)
	}
	return p, err
}

// forEachResult calls handle for each chain of a round that has ended, in order, with its result; nil: the chain was cancelled before it
// could begin, or the store has lost its result. chunk and item are where the chain is in the round.
func (d *batchRun) forEachResult(ctx context.Context, round int, handle func(position, chunk, item int, r *durable.Result) error) error {
	b, recorded := d.batch(round), &d.record.Rounds[round]
	later, parked := map[int][]durable.Assignment{}, map[durable.ChunkItem]*fault.Error{}
	for _, next := range recorded.Progress.Assignments {
		later[next.Chunk] = append(later[next.Chunk], next)
	}
	for _, p := range recorded.Progress.Parked {
		parked[p.ChunkItem] = durable.ParkedFault(p.Refused, "onecall-temporal resume "+d.id+" tries it again")
	}
	n := 0
	for chunk, size := range b.Chunks {
		list := make([]*durable.Result, size)
		for _, next := range append([]durable.Assignment{durable.FirstAssignment(chunk)}, later[chunk]...) {
			if err := d.readResults(ctx, b, next, list); err != nil {
				return err
			}
		}
		for item, r := range list {
			if f := parked[durable.ChunkItem{Chunk: chunk, Item: item}]; f != nil {
				r = &durable.Result{Error: f}
			}
			if err := handle(recorded.position(n), chunk, item, r); err != nil {
				return err
			}
			n++
		}
	}
	return nil
}

// readResults puts the results of an assignment into list, which has an element for each chain of the chunk. An assignment that was cut off
// has no results.
func (d *batchRun) readResults(ctx context.Context, b *durable.Batch, from durable.Assignment, list []*durable.Result) error {
	text, err := d.store.Get(ctx, b.ResultKey(from))
	if fault.CodeOf(err) == fault.TokenExpired {
		return nil
	}
	var read []*durable.Result
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		return app.Failure{Err: err}
	}
	for i, r := range read {
		// An assignment of the whole chunk (durable.Whole is -1) begins at its first item.
		if item := max(from.Item, 0) + i; r != nil && item < len(list) {
			list[item] = r
		}
	}
	return nil
}

// runDurably runs one chain on the engine, and returns its answer.
func (c *cli) runDurably(ctx context.Context, a *app.App, e *chainfile.Entry, caller *chain.Caller) *chain.Answer {
	answer, err := c.tryDurably(ctx, a, e, caller)
	if err == nil {
		e.Locate(answer.Faults)
		return answer
	}
	f, coded := fault.As(err)
	if !coded {
		f = fault.New(fault.Internal, "%v", err)
	}
	return a.Engine.Refuse(context.WithoutCancel(ctx), []*fault.Error{f}, caller)
}

func (c *cli) tryDurably(ctx context.Context, a *app.App, e *chainfile.Entry, caller *chain.Caller) (*chain.Answer, error) {
	engine, err := c.openEngine(ctx, a)
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	d := &batchRun{cli: c, app: a, engine: engine, store: a.BatchStore(), id: durable.NewID()}
	if key := keyOf(e.Request, ""); key != "" {
		d.id = durable.SingleIDOf(a.Scope(), key)
	}
	d.record.Name, d.record.Scope, d.record.Total = cmp.Or(caller.Chain, e.File.Name), a.Scope(), 1
	one := durable.Chain{Journal: a.JournalID(), Request: e.Request, Label: caller.Label, Line: e.Line, Name: caller.Chain,
		Override: caller.Override}
	if !json.Valid(e.Request) {
		one.Request, one.Text = nil, string(e.Request)
	}
	if err := d.start(ctx, []durable.Chain{one}); err != nil {
		return nil, err
	}
	c.noticef("durable run %s", d.id)
	p, err := d.wait(ctx, d.reporter(caller.Progress))
	if err != nil {
		return nil, err
	}
	d.record.Rounds[0].Progress = &p
	var answer *chain.Answer
	err = d.forEachAnswer(context.WithoutCancel(ctx), func(result *chain.Answer) error { answer = result; return nil })
	return answer, err
}

// reporter returns a function that shows progress. It says once that no worker asks for work, and once that chains wait for approval.
func (d *batchRun) reporter(show func(chain.Progress)) func(durable.Progress) {
	reportedWaiting, reportedIdle := false, false
	return func(p durable.Progress) {
		if p.NoWorkers && !reportedIdle {
			reportedIdle = true
			d.noticef("no worker is polling: onecall-temporal worker%s starts one", d.workerFlags())
		}
		if p.Waits > 0 && !reportedWaiting {
			reportedWaiting = true
			d.noticef("waiting for the approval of %s: onecall runs --status waiting lists the runs, onecall approve RUN approves one",
				plural(int64(p.Waits), "chain"))
		}
		if show != nil {
			show(chain.Progress{Done: p.Ended, Total: p.Total})
		}
	}
}

// workerFlags returns the flags of a worker that takes the chains of this command, with a space before them; "": none.
func (d *batchRun) workerFlags() string {
	if d.engineURL == "" {
		return d.configFlag()
	}
	return d.configFlag() + " --engine " + d.engineURL
}

// keyOf returns the key in a request, or otherwise if the request has none.
func keyOf(request []byte, otherwise string) string {
	return cmp.Or(gjson.GetBytes(request, "key").Str, otherwise)
}

// reportDecision tells the engine, if one is configured, that the approval of a run was decided. It returns whether the run continues
// there.
func (c *cli) reportDecision(ctx context.Context, a *app.App, id string) (bool, error) {
	if c.engineOpener == nil || c.engineURL == "" && a.EngineURL() == "" {
		return false, nil
	}
	past, err := a.Journal.Read(ctx, id, nil)
	if err != nil || past.Row.Key == "" {
		return false, err
	}
	engine, err := c.openEngine(ctx, a)
	if err != nil {
		return false, err
	}
	defer engine.Close()
	batch, position := durable.BatchIDOf(a.Scope(), past.Row.CallersKey())
	return engine.SignalDecision(ctx, batch, position)
}
