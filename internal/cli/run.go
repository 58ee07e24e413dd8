package cli

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// answerFlags are the flags of every verb that answers with a chain's answer.
type answerFlags struct {
	lite   bool
	budget int
}

func (f *answerFlags) add(cmd *cobra.Command, s *streams) {
	cmd.Flags().BoolVar(&s.asJSON, "json", false, "answer JSON in one line, and ask nothing, at a terminal too")
	cmd.Flags().BoolVar(&f.lite, "lite", false, "the leanest answer: the result and nothing else")
	cmd.Flags().IntVar(&f.budget, "budget", 0, "most `tokens` of the answer, 150 at least (default: none)")
	cmd.Flags().BoolVar(&s.raw, "raw", false, "the result alone, a text as it is")
	cmd.MarkFlagsMutuallyExclusive("json", "raw")
}

// override is what the flags set over the request.
func (f *answerFlags) override(cmd *cobra.Command) (chain.Override, error) {
	o := chain.Override{MaxTotalTokens: f.budget}
	if cmd.Flags().Changed("budget") && f.budget < budget.LeastTokens {
		return o, usage("--budget is %d: the least is %d", f.budget, budget.LeastTokens)
	}
	if cmd.Flags().Changed("lite") {
		o.Lite = &f.lite
	}
	return o, nil
}

// chainFlags are the flags of the verbs that run a chain: run and resume.
type chainFlags struct {
	answerFlags
	input  string
	set    []string
	dryRun bool
	trace  string
	out    string
}

func (f *chainFlags) add(cmd *cobra.Command, c *cli) {
	f.answerFlags.add(cmd, c.streams)
	flags := cmd.Flags()
	flags.StringVar(&f.input, "input", "", "what the chain reads as $input: a `JSON` object, or @FILE")
	flags.StringArrayVar(&f.set, "set", nil, "one value of the input, `key=value`: JSON if it parses, else text")
	flags.BoolVar(&f.dryRun, "dry-run", false, "answer the plan and run nothing")
	flags.StringVar(&f.trace, "trace", "", "what is told of each step: none, summary or full")
	flags.BoolVar(&c.explain, "explain", false, "show each step as it ends, and how its result begins, on stderr")
	flags.StringVar(&f.out, "out", "", "write the answer to a `file`, which appears whole")
}

func (f *chainFlags) override(cmd *cobra.Command) (chain.Override, error) {
	o, err := f.answerFlags.override(cmd)
	if err != nil {
		return o, err
	}
	o.DryRun, o.Trace = f.dryRun, f.trace
	if traces := []string{"none", "summary", "full"}; cmd.Flags().Changed("trace") && !slices.Contains(traces, f.trace) {
		return o, usage("--trace is %q: use %s", f.trace, strings.Join(traces, ", "))
	}
	for _, text := range f.set {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return o, usage("--set %s: write it as key=value", fault.Clip(text, 100))
		}
		o.Set = append(o.Set, chain.Setting{Key: key, Value: value})
	}
	if cmd.Flags().Changed("input") {
		o.Input, err = jsonObject("--input", f.input)
	}
	return o, err
}

type runFlags struct {
	chainFlags
	record, replay string
	jobs           int
	watch          bool
}

func newRunCommand(c *cli) *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run FILE|NAME|-...",
		Short: "Run chains and write their answers",
		Long: "Run a chain: a file, the name of a saved chain (NAME.chain.json, .jsonc or .yaml here or in the folder chains), or\n" +
			"- for the standard input. Several files, or a .jsonl file with a chain in each line, are a batch: one line of\n" +
			"answer for each chain, in the order of the input. run NAME --help shows what a saved chain takes.",
		Args:              needs("a chain: a file, the name of a saved one, or - for the standard input"),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.runChains(cmd, f, args) },
		ValidArgsFunction: c.completeChains,
	}
	c.helpOfChains(cmd)
	f.chainFlags.add(cmd, c)
	flags := cmd.Flags()
	flags.IntVar(&f.jobs, "jobs", runtime.NumCPU(), "chains of a batch that run at once (default: one for each processor)")
	flags.Lookup("jobs").DefValue = "0" // the same help on each machine
	flags.BoolVar(&f.watch, "watch", false, "run again when the chain's file, its input or a saved chain is saved; only what reads, or --dry-run")
	flags.StringVar(&f.record, "record", "", "append each call to a `file`")
	flags.StringVar(&f.replay, "replay", "", "answer each call from such a `file`, and call nothing")
	if err := cmd.RegisterFlagCompletionFunc("set", c.completeParams); err != nil {
		panic(err) // the flag is there
	}
	return cmd
}

func (f *runFlags) override(cmd *cobra.Command) (chain.Override, error) {
	if f.jobs < 1 {
		return chain.Override{}, usage("--jobs is %d: the least is 1", f.jobs)
	}
	return f.chainFlags.override(cmd)
}

// jsonObject reads the value of a flag that is a JSON object, or @ and the path of a file that holds one.
func jsonObject(flag, value string) ([]byte, error) {
	text := []byte(value)
	if path, ok := strings.CutPrefix(value, "@"); ok {
		file, err := textfile.Open(path)
		if err != nil {
			return nil, unable("%s: %s cannot be read: %v", flag, path, textfile.Cause(err))
		}
		defer file.Close()
		if text, err = textfile.ReadAll(file, chain.DefaultMaxRequestBytes); err != nil {
			return nil, unable("%s: %s cannot be read: %v", flag, path, textfile.Cause(err))
		}
		text = textfile.WithoutMark(text)
	}
	if len(text) > chain.DefaultMaxRequestBytes {
		return nil, usage("%s: more than %d bytes", flag, chain.DefaultMaxRequestBytes)
	}
	compact, err := jsontext.AppendFormat(nil, text, jsontext.PreserveRawStrings(true))
	if err != nil {
		return nil, usage("%s is not JSON: %s. In a shell, in single quotes: %s '{\"name\": \"value\"}'", flag, strings.TrimPrefix(err.Error(), "jsontext: "), flag)
	}
	if compact[0] != '{' {
		return nil, usage("%s must be a JSON object, not %s", flag, fault.Clip(string(compact), 60))
	}
	return compact, nil
}

func (c *cli) runChains(cmd *cobra.Command, f *runFlags, args []string) (err error) {
	override, err := f.override(cmd)
	if err != nil {
		return err
	}
	files, err := chainfile.Find(args, c.chainFolders())
	if err != nil {
		return statusOfFiles(err)
	}
	if f.watch {
		return c.watch(cmd, f, files)
	}
	batch := len(files) > 1 || files[0].Lines
	if c.explain && batch { // whose chains end side by side
		return usage("--explain goes with one chain: of a batch --trace summary has the steps in the answers")
	}
	a, err := c.open(cmd.Context(), app.Options{Calls: true, Record: f.record, Replay: f.replay})
	if err != nil {
		return err
	}
	defer closeInto(a, &err)
	if !batch {
		return c.runFile(cmd.Context(), a, &files[0], override, f.out)
	}
	out, err := c.newOutput(f.out)
	if err != nil {
		return err
	}
	defer out.discard()
	return c.runBatch(cmd.Context(), a, files, f.jobs, override, out)
}

// runFile runs the chain of a file. The answer goes to the file path; "": stdout.
func (c *cli) runFile(ctx context.Context, a *app.App, file *chainfile.File, override chain.Override, path string) error {
	out, err := c.newOutput(path)
	if err != nil {
		return err
	}
	defer out.discard()
	e, err := file.Read(ctx, c.in, a.MaxRequestBytes)
	if err != nil {
		return statusOfFiles(err)
	}
	return c.answerOne(override, out, sourceOf(e), func(caller *chain.Caller) *chain.Answer {
		caller.Chain = c.savedAs(file)
		return answerEntry(ctx, a, e, caller)
	})
}

// answerEntry answers a chain. What is wrong with it stands where it is in the file.
func answerEntry(ctx context.Context, a *app.App, e *chainfile.Entry, caller *chain.Caller) *chain.Answer {
	if len(e.Faults) > 0 {
		return a.Engine.Refuse(ctx, e.Faults, caller)
	}
	caller.Line = e.Line
	return answerOf(ctx, a, e, e.Request, caller)
}

// answerOf answers a request that was made of an entry. What is wrong with it stands where it is in the file.
func answerOf(ctx context.Context, a *app.App, e *chainfile.Entry, request []byte, caller *chain.Caller) *chain.Answer {
	answer := a.Run(ctx, request, caller)
	other := !bytes.Equal(request, e.Request)
	for _, f := range answer.Faults {
		if other { // with lines of its own
			f.Line, f.Column = 0, 0
		} else if e.Line > 0 && f.Line >= e.Line { // what is shown counts from the chain's own first line
			f.Line -= e.Line - 1
		}
	}
	e.Locate(answer.Faults)
	if answer.Error != nil && len(answer.Faults) == 0 && answer.Error.At != "" {
		e.Locate([]*fault.Error{answer.Error})
	}
	return answer
}

// runOne runs one request, with a line of progress, and writes its answer.
func (c *cli) runOne(ctx context.Context, a *app.App, request []byte, override chain.Override, out *output) error {
	return c.answerOne(override, out, &source{name: "onecall"}, func(caller *chain.Caller) *chain.Answer { return a.Run(ctx, request, caller) })
}

// answerOne makes one answer, with a line of progress, and writes it: as JSON, or for a person at a terminal. src is the file of the
// chain.
func (c *cli) answerOne(override chain.Override, out *output, src *source, answered func(*chain.Caller) *chain.Answer) error {
	forPerson := (out.person || out.raw) && !override.DryRun
	lite := forPerson && (override.Trace == "" || override.Trace == "none")
	if forPerson {
		override.Lite = &lite
	}
	p := c.startProgress()
	caller := &chain.Caller{Override: override, Log: c.logged(), Approve: c.approver(p)}
	switch {
	case c.explain:
		caller.Progress = c.explained(p)
	case p.out != nil:
		caller.Progress = p.report
	}
	answer := answered(caller)
	p.stop()
	c.showWarnings("", answer)
	show := func() error { return out.answer(answer.JSON) }
	switch {
	case out.person && answer.Plan != nil:
		show = func() error {
			out.drawn(drawPlan(answer.Plan, c.outWidth()))
			return nil
		}
	case out.raw && answer.OK && forPerson:
		show = func() error { return out.text(answer.JSON) }
	case out.person && forPerson:
		show = func() error { return c.showAnswer(out, src, answer, lite) }
	}
	if err := show(); err != nil {
		return err
	}
	if err := out.commit(); err != nil {
		return err
	}
	switch {
	case out.cut > 0:
		c.noteCut(out.cut)
	case out.path != "" && c.errTerminal && !c.asJSON && !answer.OK:
		c.showFailure(src, answer, gjson.ParseBytes(answer.JSON))
	}
	return statusOf(answer)
}

// runBatch runs many chains and writes a line for each.
func (c *cli) runBatch(ctx context.Context, a *app.App, files []chainfile.File, jobs int, override chain.Override, out *output) error {
	b := &chainfile.Batch{Files: files, Stdin: c.in, Jobs: jobs, MaxLine: a.MaxRequestBytes,
		Run: func(ctx context.Context, e *chainfile.Entry) *chain.Answer {
			return answerEntry(ctx, a, e, &chain.Caller{Label: e.Label(), Override: override, Log: c.logged()})
		}}
	bar := c.newBar(files)
	defer bar.stop()
	first := error(nil)
	answered := 0
	err := b.Each(ctx, func(e *chainfile.Entry) error {
		answered++
		bar.add(e)
		c.showWarnings(e.Label(), e.Answer)
		if first == nil {
			first = statusOf(e.Answer)
		}
		return out.line(e.Answer.JSON)
	}, out.flush)
	bar.stop()
	if ctx.Err() != nil {
		if out.path != "" {
			c.note("interrupted: %s%s holds the answers so far", out.path, partialSuffix)
		} else {
			c.note("interrupted: %d chains were answered", answered)
		}
		return out.commitPartial()
	}
	if err != nil {
		return statusOfFiles(err)
	}
	if err := out.commit(); err != nil {
		return err
	}
	return first
}

// logged returns what shows the logs of functions; nil without --verbose.
func (c *cli) logged() func(chain.LogMessage) {
	if !c.verbose {
		return nil
	}
	return func(m chain.LogMessage) {
		c.note("step %d: %s: %s", m.Step, textfile.Printable(m.Level), textfile.Printable(string(m.Data)))
	}
}

func (c *cli) showWarnings(label string, a *chain.Answer) {
	if label != "" {
		label += ": "
	}
	for _, w := range a.Warnings {
		c.note("warning: %s%s", label, textfile.Printable(w.Error()))
	}
}
