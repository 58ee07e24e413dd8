package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
)

func newCheckCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "Check chains without running them",
		Long: "Check chains and report every fault with its position. A line of JSON for each chain goes to stdout; the faults, in\n" +
			"readable form, go to stderr. Params without a value are not faults.",
		Args: requireArg("a chain: a file, the name of a saved one, or - for the standard input"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.check(cmd.Context(), args) },
	}
}

func (c *cli) check(ctx context.Context, args []string) (err error) {
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
	lite := false
	b := &chainfile.Batch{Files: files, Stdin: c.in, Jobs: 1, MaxLine: a.MaxRequestBytes,
		Run: func(ctx context.Context, e *chainfile.Entry) *chain.Answer {
			caller := &chain.Caller{Override: chain.Override{Check: true, Lite: &lite}}
			if len(files) > 1 || files[0].Lines {
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
		return out.writeLine(e.Answer.JSON)
	}, out.flush)
	if err == nil {
		err = out.commit()
	}
	if err != nil {
		return exitErrorOfFiles(err)
	}
	return first
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
}

// documentOf returns the text of a chain as it is in its file: the whole file, or the chain's line in a file with many.
func documentOf(e *chainfile.Entry) *document {
	doc := &document{name: e.File.Name, text: e.Request, file: e.File.Path, line: max(e.Line, 1)}
	if e.Written != nil {
		doc.text = e.Written
	}
	return doc
}
