package cli

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
)

func newCheckCommand(c *cli) *cobra.Command {
	var recordings []string
	bounds := false
	cmd := &cobra.Command{
		Use:   "check [FILE...]",
		Short: "Check chains without running them",
		Long: "Check chains and report every fault with its position, on stderr. At a terminal, a line on stdout says what a chain\n" +
			"without faults does; with --json, or in a pipe, stdout has a line of JSON for each chain. Params without a value are not\n" +
			"faults.\n\n" +
			"Without FILE, check compares the functions with onecall.lock beside the configuration (see onecall lock), and says of each\n" +
			"saved chain whether a change breaks it. The exit status is 3 if one is broken, 4 if the lock is, and 5 if a source is\n" +
			"unavailable, so that nothing can be said of the chains that need it. --replay also checks the calls of a recording, made\n" +
			"with run --record, against the functions as they are now: their arguments, and their results.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && bounds {
				return usageErrorf("--bounds goes with files: name them")
			}
			if len(args) == 0 {
				return c.checkLock(cmd, recordings)
			}
			if len(recordings) > 0 {
				return usageErrorf("--replay goes with the lock: leave the files out")
			}
			return c.check(cmd.Context(), args, bounds)
		},
	}
	cmd.Flags().StringArrayVar(&recordings, "replay", nil, "without FILE: also check the calls of a `recording`; may be given several times")
	cmd.Flags().BoolVar(&bounds, "bounds", false, "say what a run of each chain takes: calls, bytes of results, tokens, time")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "answer JSON, one line for each chain, at a terminal too")
	return cmd
}

func (c *cli) check(ctx context.Context, args []string, bounds bool) (err error) {
	files, err := chainfile.Find(args, c.chainFolders())
	if err != nil {
		return exitErrorOfFiles(err)
	}
	a, err := c.open(ctx, app.Options{Calls: true})
	if err != nil {
		return err
	}
	defer closeInto(a, &err)
	out, err := c.newOutput("")
	if err != nil {
		return err
	}
	lite, many := false, len(files) > 1 || files[0].Lines
	b := &chainfile.Batch{Files: files, Stdin: c.in, Jobs: 1, MaxLine: a.MaxRequestBytes,
		Run: func(ctx context.Context, e *chainfile.Entry) *chain.Answer {
			caller := &chain.Caller{Override: chain.Override{Check: true, Bounds: bounds, Operator: bounds, Lite: &lite}}
			if many {
				caller.Label = e.Label()
			}
			defer c.startProgress().stop() // one chain is checked at a time
			return answerEntry(ctx, a, e, caller)
		}}
	first := error(nil)
	err = b.Each(ctx, func(e *chainfile.Entry) error {
		if first == nil {
			first = exitErrorOf(e.Answer)
		}
		c.showCheckResult(e)
		if !out.forPerson {
			return out.writeLine(e.Answer.JSON)
		}
		if e.Answer.OK {
			label := ""
			if many {
				label = textfile.Printable(e.Label()) + ": "
			}
			out.writeLines(label + c.paint(green, "ok") + ": " + checkSummary(e.Answer.Checked) + "\n")
			if bounds {
				out.writeLines(label + boundLine(&e.Answer.Plan.Bound) + "\n")
			}
		}
		return nil
	}, out.flush)
	if err == nil {
		err = out.commit()
	}
	if err != nil {
		return exitErrorOfFiles(err)
	}
	return first
}

// checkSummary returns the number of a chain's steps, and how many of them, inline ones included, have each effect.
func checkSummary(checked *chain.Checked) string {
	parts := []string{plural(int64(checked.Steps), "step")}
	for _, effect := range []steps.Effect{steps.Read, steps.Write, steps.Destroy} {
		if n := checked.Counts[effect]; n > 0 {
			parts = append(parts, plural(int64(n), effect.String()))
		}
	}
	return strings.Join(parts, ", ")
}

// showCheckResult shows the faults and warnings of one chain.
func (c *cli) showCheckResult(e *chainfile.Entry) {
	doc := documentOf(e)
	faults := e.Answer.Faults
	if len(faults) == 0 && e.Answer.Error != nil {
		faults = append(faults, e.Answer.Error)
	}
	c.showFaults(doc, faults)
	c.showWarnings(e.Label(), e.Answer)
	if checked := e.Answer.Checked; checked != nil {
		for i := range checked.Flows {
			if f := &checked.Flows[i]; f.Do != "warn" { // the warnings have those
				c.noticef("%s: %s", textfile.Printable(e.Label()), flowLine(f))
			}
		}
	}
}

// documentOf returns the text of a chain as it is in its file: the whole file, or the chain's line in a file with many.
func documentOf(e *chainfile.Entry) *document {
	doc := &document{name: cmp.Or(e.File.Path, e.File.Name), text: e.Request, file: e.File.Path, line: max(e.Line, 1)}
	if e.Written != nil {
		doc.text = e.Written
	}
	return doc
}
