package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/durable"
)

// runBatchDurably runs many chains on the engine and, when all have ended, writes a line for each.
func (c *cli) runBatchDurably(ctx context.Context, a *app.App, files []chainfile.File, override chain.Override, out *output) error {
	var chains []durable.Chain
	b := &chainfile.Batch{Files: files, Stdin: c.in, MaxLine: a.MaxRequestBytes}
	err := b.Read(func(e *chainfile.Entry) error {
		one := durable.Chain{Position: len(chains), Request: e.Request, Label: e.Label(), Line: e.Line, Override: override}
		if len(e.Faults) > 0 || !json.Valid(e.Request) {
			one.Request, one.Text = nil, string(e.Request) // not JSON: the worker's engine refuses the text
		}
		chains = append(chains, one)
		return ctx.Err()
	})
	if err != nil {
		return exitErrorOfFiles(err)
	}
	engine, err := c.openEngine(ctx, a)
	if err != nil {
		return err
	}
	defer engine.Close()
	d := &batchRun{cli: c, app: a, engine: engine, store: a.BatchStore(), id: durable.NewID()}
	d.record.Name, d.record.Scope, d.record.Total = files[0].Name, a.Scope(), len(chains)
	if d.record.Run, err = a.BeginBatch(ctx, d.id, files[0].Name, len(chains)); err != nil {
		return app.Failure{Err: err}
	}
	if err := d.start(ctx, chains); err != nil {
		d.finish(ctx, journal.Failed, fault.CodeOf(err))
		return err
	}
	c.noticef("batch %s: if this command ends, onecall-temporal resume %s continues the batch", d.id, d.id)
	return d.answer(ctx, out)
}

// resumeBatch continues a batch: it waits for a running batch, and otherwise runs the failed chains again. Then it writes the answers of
// all chains.
func (c *cli) resumeBatch(ctx context.Context, a *app.App, id, path string) error {
	d := &batchRun{cli: c, app: a, store: a.BatchStore(), id: id}
	text, err := d.store.Get(ctx, recordKey(id))
	if fault.CodeOf(err) == fault.TokenExpired {
		return opErrorf("there is no batch %s, or it is not kept any more", fault.Clip(id, 60))
	}
	if err == nil {
		err = json.Unmarshal(text, &d.record)
	}
	if err != nil {
		return app.Failure{Err: err}
	}
	switch {
	case d.record.Scope == a.Scope():
	case d.record.Scope == "":
		return opErrorf("this batch was begun without a configuration file: resume it in a folder that has none")
	default: // with this configuration, functions may differ, and the runs of the batch would not be found
		return opErrorf("this batch was begun with another configuration: add --config %s", d.record.Scope)
	}
	if d.engine, err = c.openEngine(ctx, a); err != nil {
		return err
	}
	defer d.engine.Close()
	running, err := d.engine.Running(ctx, id)
	if err == nil && !running {
		err = d.restart(ctx)
	}
	if err != nil {
		return err
	}
	out, err := c.newOutput(path)
	if err != nil {
		return err
	}
	defer out.discard()
	return d.answer(ctx, out)
}

// restart starts a batch again that is not running: its last round if that round may not have begun, or else a round of the failed chains.
func (d *batchRun) restart(ctx context.Context) error {
	last := &d.record.Rounds[len(d.record.Rounds)-1]
	if last.Progress == nil {
		p, err := d.engine.Wait(ctx, d.id, nil)
		switch {
		case fault.CodeOf(err) == fault.TokenExpired, errors.Is(err, durable.ErrEnded):
			return d.engine.Start(ctx, d.batch(len(d.record.Rounds)-1))
		case err != nil:
			return err
		}
		last.Progress = &p
	}
	var failed []durable.Chain
	lost := 0
	err := d.forEachNewest(ctx, func(chainOf func() (*durable.Chain, error), r *durable.Result) error {
		if r != nil && r.OK {
			return nil
		}
		one, err := chainOf()
		if fault.CodeOf(err) == fault.TokenExpired {
			lost++
			return nil
		}
		if err == nil && d.mayHaveBegun(ctx, one, r) {
			one.Begun = d.record.Rounds[0].Began
		}
		if err == nil {
			failed = append(failed, *one)
		}
		return err
	})
	if lost > 0 {
		d.noticef("%s cannot be run again: the store of results has lost the text of each", plural(int64(lost), "chain"))
	}
	if err != nil || len(failed) == 0 {
		return err
	}
	d.noticef("running %s of %d again: the others are done", plural(int64(len(failed)), "chain"), d.record.Total)
	d.finish(ctx, journal.Running, "")
	return d.start(ctx, failed)
}

// finish records the status of the batch, unless it is a single chain, whose run has a status. A failure of the journal is only reported,
// because the chains' own runs say what they did.
func (d *batchRun) finish(ctx context.Context, status journal.Status, code fault.Code) {
	if d.record.Run == "" {
		return
	}
	err := d.app.Journal.SetBatchStatus(context.WithoutCancel(ctx), d.record.Run, status, code)
	if err != nil && !errors.Is(err, journal.ErrBusy) { // if it is busy, another client is recording the status
		d.noticef("the status of the batch could not be recorded: %s", fault.Message(err))
	}
}

// answer waits for a batch and writes the answers of its chains in order.
func (d *batchRun) answer(ctx context.Context, out *output) error {
	last := &d.record.Rounds[len(d.record.Rounds)-1]
	if last.Progress == nil {
		bar := d.newCountBar()
		p, err := d.wait(ctx, d.reporter(bar))
		d.endCountBar()
		if err != nil {
			return err
		}
		last.Progress = &p
		if err := d.storeRecord(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	first, status, code := error(nil), journal.OK, fault.Code("")
	ok := 0
	err := d.forEachAnswer(context.WithoutCancel(ctx), func(answer *chain.Answer) error { // a cancelled batch has answers, too
		d.showWarnings("", answer)
		if answer.OK {
			ok++
		} else if first == nil {
			first, status, code = exitErrorOf(answer), journal.Failed, answer.Error.Code
		}
		return out.writeLine(answer.JSON)
	})
	if err == nil {
		d.finish(ctx, status, code)
		err = out.commit()
	}
	if err == nil && first != nil && d.record.Run != "" {
		d.noticef("%d of %d ok: onecall-temporal resume %s runs the others again", ok, d.record.Total, d.id)
	}
	if err != nil {
		d.noticef("the batch has ended, and its answers are kept: onecall-temporal resume %s --out FILE writes them", d.id)
		return err
	}
	return first
}

// forEachAnswer calls handle with the answer of each chain of the batch, in order.
func (d *batchRun) forEachAnswer(ctx context.Context, handle func(*chain.Answer) error) error {
	return d.forEachNewest(ctx, func(chainOf func() (*durable.Chain, error), r *durable.Result) error {
		if r != nil && r.Answer != nil {
			return handle(r.ChainAnswer())
		}
		one, err := chainOf()
		if fault.CodeOf(err) == fault.TokenExpired {
			one, err = &durable.Chain{}, nil
			r = cmp.Or(r, &durable.Result{Error: fault.New(fault.TokenExpired, "the store of results has lost this chain and its answer: "+
				"onecall runs knows what it did. results.maxBytes and journal.keep say how much is kept, and how long")})
		}
		if err != nil {
			return err
		}
		f := (*fault.Error)(nil)
		if r != nil {
			f = r.Error
		} else if f, err = d.missingFault(ctx, one); err != nil {
			return err
		}
		return handle(d.app.Engine.Refuse(ctx, []*fault.Error{f}, &chain.Caller{Label: one.Label, Override: one.Override}))
	})
}

// mayHaveBegun reports whether a chain, with result r, may have begun in an earlier round. It may have if the batch is so old that the
// journal may have removed the run, or if the journal cannot be read.
func (d *batchRun) mayHaveBegun(ctx context.Context, one *durable.Chain, r *durable.Result) bool {
	if r != nil || time.Since(d.record.Rounds[0].Began) > d.app.Keep()/2 {
		return true
	}
	return !errors.Is(d.findRun(ctx, one), journal.ErrNotFound)
}

// findRun returns nil if the journal has a run of a chain, and journal.ErrNotFound if it has none.
func (d *batchRun) findRun(ctx context.Context, one *durable.Chain) error {
	_, err := d.app.FindRun(ctx, keyOf(one.Request, d.batch(0).RunKey(one.Position)))
	return err
}

// missingFault returns the fault of a chain whose result is not in the store. The journal knows whether the chain was begun.
func (d *batchRun) missingFault(ctx context.Context, one *durable.Chain) (*fault.Error, error) {
	switch err := d.findRun(ctx, one); {
	case errors.Is(err, journal.ErrNotFound):
		return fault.New(fault.Cancelled, "the chain was cancelled before a worker began it"), nil
	case err != nil:
		return nil, app.Failure{Err: err}
	}
	return fault.New(fault.TokenExpired, "the chain was begun, but the store of results has lost its answer: onecall-temporal resume %s "+
		"brings the answer back and repeats no call. results.maxBytes and journal.keep say how much is kept, and how long", d.id), nil
}

// forEachNewest calls handle for each chain of the batch, in order, with the newest result that the store has of the chain; nil: none. The
// results of rounds after the first are held in memory.
func (d *batchRun) forEachNewest(ctx context.Context, handle func(chainOf func() (*durable.Chain, error), r *durable.Result) error) error {
	later := map[int]*durable.Result{}
	for round := 1; round < len(d.record.Rounds); round++ {
		err := d.forEachResult(ctx, round, func(position, _, _ int, r *durable.Result) error {
			if r != nil {
				later[position] = r
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return d.forEachResult(ctx, 0, func(position, chunk, item int, r *durable.Result) error {
		if newer := later[position]; newer != nil {
			r = newer
		}
		return handle(func() (*durable.Chain, error) { return d.chain(ctx, chunk, item) }, r)
	})
}

// chain returns a chain of the first round.
func (d *batchRun) chain(ctx context.Context, chunk, item int) (*durable.Chain, error) {
	if d.chunk != chunk || d.chains == nil {
		text, err := d.store.Get(ctx, d.batch(0).InputKey(chunk))
		d.chunk, d.chains = chunk, nil
		if err == nil {
			err = json.Unmarshal(text, &d.chains)
		}
		if err != nil {
			return nil, app.Failure{Err: err}
		}
	}
	return &d.chains[item], nil
}

// newCountBar returns a function that shows how many chains have ended; nil: stderr is not a terminal, or the answers go to the terminal.
func (d *batchRun) newCountBar() func(chain.Progress) {
	if d.status == nil || d.outTerminal {
		return nil
	}
	return func(p chain.Progress) {
		d.status.show(func(w io.Writer) { fmt.Fprintf(w, "%schains: %d of %d", clearLine, p.Done, p.Total) })
	}
}

func (d *batchRun) endCountBar() {
	if d.status != nil {
		d.status.hide()
	}
}
