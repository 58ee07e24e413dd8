package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

func newApproveCommand(c *cli) *cobra.Command {
	var deny, show bool
	var digest string
	cmd := &cobra.Command{
		Use:   "approve RUN",
		Short: "Approve the calls that a run waits with; onecall resume makes them",
		Long: "Approve the calls that a run waits with, each of which may be made once. At a terminal it asks first. They are written as\n" +
			"JSON, as they will be sent.",
		Args: cobra.MatchAll(needs("the id of a run: onecall runs lists them"), cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withJournal(cmd.Context(), app.Options{NoSources: true}, func(a *app.App) error {
				id, err := found(cmd.Context(), a, args[0])
				if err != nil {
					return err
				}
				calls, err := chain.Waiting(cmd.Context(), a.Journal, id)
				if digest == "" && !show && err == nil { // between the question and the answer others may come to wait
					digest = chain.DigestOf(calls)
					if yes, err := c.decided(cmd.Context(), calls, deny); err != nil {
						return err
					} else if !yes {
						return answered(exitFailed)
					}
				}
				switch {
				case err != nil || show:
				case deny:
					calls, err = chain.Deny(cmd.Context(), a.Journal, id, digest)
				default:
					calls, err = chain.Approve(cmd.Context(), a.Journal, id, digest)
				}
				switch {
				case journal.IsBusy(err):
					return met{fault.New(fault.Busy, "the run goes on: ask again when it has ended")}
				case err != nil:
					return err
				}
				answer := []json.RawMessage{}
				for _, call := range calls {
					answer = append(answer, json.RawMessage(call.Raw))
				}
				told := map[string]any{"run": id, "calls": answer, "digest": chain.DigestOf(calls)}
				if !show {
					told["approved"] = !deny
				}
				if !show && !deny {
					c.note("onecall resume%s %s makes them", c.configFlag(), id)
				}
				if !show && c.asks() && c.outTerminal {
					return nil // the question has shown them
				}
				return c.writeValue(told)
			})
		},
	}
	cmd.Flags().BoolVar(&deny, "deny", false, "refuse them")
	cmd.Flags().BoolVar(&show, "show", false, "only show them")
	cmd.Flags().StringVar(&digest, "digest", "", "the `digest` that --show gave with the calls: where others wait by now, nothing is approved")
	cmd.MarkFlagsMutuallyExclusive("deny", "show")
	return cmd
}

// decided asks about calls that wait, if somebody is there to answer: else who gave the command has decided.
func (c *cli) decided(ctx context.Context, calls []gjson.Result, deny bool) (bool, error) {
	if !c.asks() {
		return true, nil
	}
	shown := make([]string, len(calls))
	for i, call := range calls {
		shown[i] = call.Raw
	}
	if deny {
		return c.confirmed(ctx, "Refuse", shown)
	}
	return c.confirmed(ctx, "Approve", shown)
}

// approver has the person at the terminal asked when a run stops for approval; nil: nobody is there.
func (c *cli) approver(p *progress) func(context.Context, []chain.ApprovalCall) (bool, error) {
	if !c.asks() {
		return nil
	}
	return func(ctx context.Context, calls []chain.ApprovalCall) (bool, error) {
		defer p.hide()()
		shown := make([]string, len(calls))
		for i := range calls {
			shown[i] = string(calls[i].JSON())
		}
		return c.confirmed(ctx, "Approve", shown)
	}
}

// asks reports whether a person can be asked.
func (s *streams) asks() bool { return s.inTerminal && s.errTerminal && !s.asJSON }

// confirmed shows calls, JSON each, and asks whether to do so with them.
func (c *cli) confirmed(ctx context.Context, what string, calls []string) (bool, error) {
	for _, call := range calls {
		fmt.Fprintf(c.err, "%s\n", rawjson.Visible([]byte(call)))
	}
	return c.ask(ctx, fmt.Sprintf("%s %s? [y/N] ", what, counted(int64(len(calls)), "call")))
}
