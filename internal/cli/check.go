package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/app"
)

func newCheckCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "Check chains without running them",
		Long: "Check chains and tell every fault with its place. A line of JSON for each chain goes to stdout, the faults for\n" +
			"reading to stderr. What params leaves open may stay open.",
		Args: needs("a chain: a file, the name of a saved one, or - for the standard input"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.check(cmd.Context(), args) },
	}
}

func (c *cli) check(ctx context.Context, args []string) (err error) {
	files, err := c.findChains(args)
	if err != nil {
		return err
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
	standard := false
	b := &batch{files: files, stdin: c.in, jobs: 1, maxLine: a.MaxRequestBytes,
		run: func(ctx context.Context, e *entry) *chain.Answer {
			caller := &chain.Caller{Override: chain.Override{Check: true, Lite: &standard}}
			if len(files) > 1 || files[0].lines {
				caller.Label = e.label()
			}
			return e.run(ctx, a, caller)
		}}
	first := error(nil)
	err = b.each(ctx, func(e *entry) error {
		if first == nil {
			first = statusOf(e.answer)
		}
		c.showChecked(e)
		return out.line(e.answer.JSON)
	}, out.flush)
	if err == nil {
		err = out.commit()
	}
	if err != nil {
		return err
	}
	return first
}

// showChecked tells the faults and warnings of one chain.
func (c *cli) showChecked(e *entry) {
	src := &source{name: e.file.name, text: e.request, line: max(e.line, 1)}
	if e.written != nil {
		src.text = e.written
	}
	faults := e.answer.Faults
	if len(faults) == 0 && e.answer.Error != nil {
		faults = append(faults, e.answer.Error)
	}
	c.showFaults(src, faults)
	c.showWarnings(e.label(), e.answer)
}
