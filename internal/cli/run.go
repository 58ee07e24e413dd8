package cli

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

type runFlags struct {
	chainFlags
	record, replay string
	jobs           int
	watch, durable bool
}

func newRunCommand(c *cli) *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run FILE|NAME|-...",
		Short: "Run chains and write their answers",
		Long: "Run a chain: a file, the name of a saved chain (NAME.chain.json, .jsonc or .yaml in the folder chains) or of such a\n" +
			"file here, or - for the standard input. Several files, or a .jsonl file with one chain per line, are a batch: the answer is one\n" +
			"line for each chain, in the order of the input. run NAME --help shows the params of a saved chain.",
		Args:              requireArg("a chain: a file, the name of a saved one, or - for the standard input"),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.runChains(cmd, f, args) },
		ValidArgsFunction: c.completeChains,
	}
	c.setChainHelp(cmd)
	f.chainFlags.add(cmd, c)
	flags := cmd.Flags()
	flags.IntVar(&f.jobs, "jobs", runtime.NumCPU(), "chains of a batch that run at once (default: one for each processor)")
	flags.Lookup("jobs").DefValue = "0" // the same help on every machine
	flags.BoolVar(&f.watch, "watch", false,
		"run again when the chain's file, its input or a saved chain changes; only for chains that read, or with --dry-run")
	flags.StringVar(&f.record, "record", "", "append each call to a `file`")
	flags.StringVar(&f.replay, "replay", "", "answer each call from a `file` of --record, and call nothing")
	flags.BoolVar(&f.durable, "durable", false, "have workers run the chains, which continue when a process ends; needs onecall-temporal")
	c.hideWithoutEngine(cmd, "durable")
	c.engineFlag(cmd)
	if err := cmd.RegisterFlagCompletionFunc("set", c.completeParams); err != nil {
		panic(err) // the flag exists
	}
	return cmd
}

func (f *runFlags) override(cmd *cobra.Command) (chain.Override, error) {
	if f.jobs < 1 {
		return chain.Override{}, usageErrorf("--jobs is %d: the minimum is 1", f.jobs)
	}
	return f.chainFlags.override(cmd)
}

func (c *cli) runChains(cmd *cobra.Command, f *runFlags, args []string) (err error) {
	override, err := f.override(cmd)
	if err != nil {
		return err
	}
	files, err := chainfile.Find(args, c.chainFolders())
	if err != nil {
		return exitErrorOfFiles(err)
	}
	f.durable = f.durable || cmd.Flags().Changed("engine")
	if err := f.checkDurable(cmd); err != nil {
		return err
	}
	if f.watch {
		return c.watch(cmd, f, files)
	}
	batch := len(files) > 1 || files[0].Lines
	c.replays = f.replay != ""
	if c.explain && batch { // the chains of a batch run side by side
		return usageErrorf("--explain goes with one chain: for a batch, --trace summary puts the steps in the answers")
	}
	if isFolder(f.out) && (batch || f.durable) {
		return usageErrorf("--out %s is a folder, which takes the images and files of one chain that this process runs: give a file", f.out)
	}
	a, err := c.open(cmd.Context(), app.Options{Calls: !f.durable, NoSources: f.durable, Record: f.record, Replay: f.replay})
	if err != nil {
		return err
	}
	defer closeInto(a, &err)
	if !batch {
		return c.runFile(cmd.Context(), a, &files[0], override, f)
	}
	out, err := c.newOutput(f.out)
	if err != nil {
		return err
	}
	defer out.discard()
	if f.durable {
		return c.runBatchDurably(cmd.Context(), a, files, override, out)
	}
	return c.runBatch(cmd.Context(), a, files, f.jobs, override, out)
}

// runFile runs the chain in a file.
func (c *cli) runFile(ctx context.Context, a *app.App, file *chainfile.File, override chain.Override, f *runFlags) error {
	out, err := c.newOutput(f.out)
	if err != nil {
		return err
	}
	defer out.discard()
	e, err := file.Read(ctx, c.in, a.MaxRequestBytes)
	if err != nil {
		return exitErrorOfFiles(err)
	}
	return c.answerOne(override, out, documentOf(e), func(caller *chain.Caller) *chain.Answer {
		caller.Chain = c.chainName(file)
		if f.isDurable(e, override) && len(e.Faults) == 0 {
			return c.runDurably(ctx, a, e, caller)
		}
		return answerEntry(ctx, a, e, caller)
	})
}

// answerEntry runs the chain of an entry. Faults get their positions in the file.
func answerEntry(ctx context.Context, a *app.App, e *chainfile.Entry, caller *chain.Caller) *chain.Answer {
	if len(e.Faults) > 0 {
		return a.Engine.Refuse(ctx, e.Faults, caller)
	}
	caller.Line = e.Line
	return answerOf(ctx, a, e, e.Request, caller)
}

// answerOf runs a request that was made from an entry. Faults get their positions in the file.
func answerOf(ctx context.Context, a *app.App, e *chainfile.Entry, request []byte, caller *chain.Caller) *chain.Answer {
	answer := a.Run(ctx, request, caller)
	changed := !bytes.Equal(request, e.Request)
	for _, f := range answer.Faults {
		if changed { // the lines of the request are not those of the file
			f.Line, f.Column = 0, 0
		} else if e.Line > 0 && f.Line >= e.Line { // positions are relative to the chain's first line
			f.Line -= e.Line - 1
		}
	}
	e.Locate(answer.Faults)
	if answer.Error != nil && len(answer.Faults) == 0 && answer.Error.At != "" {
		e.Locate([]*fault.Error{answer.Error})
	}
	return answer
}

// runRequest runs one request, with a line of progress, and writes its answer.
func (c *cli) runRequest(ctx context.Context, a *app.App, request []byte, override chain.Override, out *output) error {
	return c.answerOne(override, out, &document{name: "onecall"}, func(caller *chain.Caller) *chain.Answer {
		return a.Run(ctx, request, caller)
	})
}

// answerOne makes one answer, with a line of progress, writes it (as JSON, or for a person at a terminal) and commits out. It returns the
// error that gives the answer's exit status. doc is the text of the chain.
func (c *cli) answerOne(override chain.Override, out *output, doc *document, makeAnswer func(*chain.Caller) *chain.Answer) error {
	forPerson := (out.forPerson || out.raw) && !override.DryRun
	lite := forPerson && (out.raw || override.Trace == "" || override.Trace == "none") // a failure shows the trace even if lite
	if forPerson {
		override.Lite = &lite
	}
	doc.fromFlags = flagsIn(doc.fromFlags, &override)
	p := c.startProgress()
	caller := &chain.Caller{Override: override, Log: c.logFunc(), Approve: c.approver(p), User: userName()}
	switch {
	case c.explain:
		caller.Progress = c.stepReporter(p)
	case p.status != nil:
		caller.Progress = p.report
	}
	caller.AllBlocks = out.folder != ""
	answer := makeAnswer(caller)
	p.stop()
	c.showWarnings("", answer)
	out.unrepeatable = answer.Unrepeatable
	show := func() error { return out.writeAnswer(answer.JSON) }
	switch {
	case forPerson && answer.Text:
		show = func() error { return out.writeText(string(answer.JSON)) }
	case out.forPerson && answer.Plan != nil:
		show = func() error {
			out.writeLines(drawPlan(answer.Plan, c.outWidth()))
			return nil
		}
	case out.raw && answer.OK && forPerson:
		show = func() error { return out.writeResult(answer.JSON) }
	case out.forPerson && forPerson:
		show = func() error { return c.showAnswer(out, doc, answer, lite) }
	}
	err := show()
	if err == nil {
		err = out.commit()
	}
	if err != nil {
		return c.answerElsewhere(out, answer, err)
	}
	if out.folder != "" {
		if err := c.writeBlocks(out, answer); err != nil {
			return err
		}
	}
	switch {
	case out.fullSize > 0:
		c.warnCut(out, out.fullSize)
	case out.path != "" && c.errTerminal && !c.asJSON && !answer.OK:
		c.showFailure(doc, answer, gjson.ParseBytes(answer.JSON))
	}
	return exitErrorOf(answer)
}

// answerElsewhere writes an answer that could not be written to its file to stdout instead, because only the answer says what the chain
// did. It returns err, the failure to write the file.
func (c *cli) answerElsewhere(out *output, answer *chain.Answer, err error) error {
	if out.file == nil {
		return err
	}
	stdout, failed := c.newOutput("")
	if failed == nil {
		failed = stdout.writeLine(answer.JSON)
	}
	if failed == nil {
		failed = stdout.commit()
	}
	if failed == nil {
		c.noticef("the chain was run: its answer is on stdout instead")
	}
	return err
}

// flagsIn returns a copy of flags, with the flags added that set members of the input. The keys are JSON Pointers into the request.
func flagsIn(flags map[string]string, o *chain.Override) map[string]string {
	all := map[string]string{}
	maps.Copy(all, flags)
	gjson.ParseBytes(o.Input).ForEach(func(key, _ gjson.Result) bool {
		all[fault.Key("/input", key.String())] = "--input"
		return true
	})
	for _, setting := range o.Set {
		all[fault.Key("/input", setting.Key)] = "--set " + setting.Key
	}
	return all
}

// runBatch runs many chains and writes a line for each. It returns the error of the first chain that failed.
func (c *cli) runBatch(ctx context.Context, a *app.App, files []chainfile.File, jobs int, override chain.Override, out *output) error {
	b := &chainfile.Batch{Files: files, Stdin: c.in, Jobs: jobs, MaxLine: a.MaxRequestBytes,
		Run: func(ctx context.Context, e *chainfile.Entry) *chain.Answer {
			return answerEntry(ctx, a, e, &chain.Caller{Label: e.Label(), Chain: c.chainName(e.File), Override: override, Log: c.logFunc()})
		}}
	bar := c.newBatchBar(files)
	defer bar.stop()
	first := error(nil)
	answers := 0
	err := b.Each(ctx, func(e *chainfile.Entry) error {
		answers++
		bar.add(e)
		c.showWarnings(e.Label(), e.Answer)
		if first == nil {
			first = exitErrorOf(e.Answer)
		}
		return out.writeLine(e.Answer.JSON)
	}, out.flush)
	bar.stop()
	if ctx.Err() != nil {
		if out.path != "" {
			c.noticef("interrupted: %s%s holds the answers so far", out.path, partialSuffix)
		} else {
			c.noticef("interrupted: %d chains were answered", answers)
		}
		return out.commitPartial()
	}
	if err == nil {
		err = out.commit()
	} else if failed := (app.Failure{}); !errors.As(err, &failed) {
		return exitErrorOfFiles(err)
	}
	if err != nil {
		c.noticef("%d chains were run: onecall runs%s shows what each did", answers, c.configFlag())
		return err
	}
	return first
}

// logFunc returns a function that shows what functions log; nil without --verbose.
func (c *cli) logFunc() func(chain.LogMessage) {
	if !c.verbose {
		return nil
	}
	return func(m chain.LogMessage) {
		c.noticef("step %d: %s: %s", m.Step, textfile.Printable(m.Level), textfile.Printable(string(m.Data)))
	}
}

func (c *cli) showWarnings(label string, a *chain.Answer) {
	if label != "" {
		label += ": "
	}
	for _, w := range a.Warnings {
		c.warnf("%s%s", label, w.Error())
	}
}
