package cli

import (
	"context"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/durable"
)

func newWorkerCommand(c *cli) *cobra.Command {
	var jobs int
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Carry out durable runs and batches",
		Long: "Carry out the chains that onecall run --durable and its batches hand to the engine, with the functions and the rights of this\n" +
			"configuration. Workers of one engine need the same journal and store of results. A worker waits for an engine that is not\n" +
			"there yet. At an interrupt it takes no more chains; those under way have ten seconds to end, or go on at another worker.",
		Args:        cobra.NoArgs,
		Annotations: map[string]string{isService: "yes"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if jobs < 1 {
				return usageErrorf("--jobs is %d: the least is 1", jobs)
			}
			return c.withJournal(cmd.Context(), app.Options{Calls: true}, func(a *app.App) error {
				engine, err := c.awaitEngine(cmd.Context(), a)
				if err != nil {
					return err
				}
				defer engine.Close()
				c.note("ready: up to %d chains at once", jobs)
				return engine.Work(cmd.Context(), &durable.Worker{Jobs: jobs, Run: c.runOfBatch(a), Store: a.Kept()})
			})
		},
	}
	cmd.Flags().IntVar(&jobs, "jobs", 8*runtime.NumCPU(), "chains that run at once (default: eight for each processor)")
	cmd.Flags().Lookup("jobs").DefValue = "0" // the same help on every machine
	c.engineFlag(cmd)
	return cmd
}

// awaitEngine opens the engine. A machine's services may start in any order, so it waits for one that cannot be reached.
func (c *cli) awaitEngine(ctx context.Context, a *app.App) (durable.Engine, error) {
	for said := false; ; said = true {
		engine, err := c.openEngine(ctx, a)
		if fault.CodeOf(err) != fault.Unavailable || ctx.Err() != nil {
			return engine, err
		}
		if !said {
			c.note("waiting for the engine: %s", fault.Message(err))
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Second):
		}
	}
}
