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
		Short: "Approve the calls that a run is waiting to make; onecall resume makes them",
		Long: "Approve the calls that a run is waiting to make. Each may then be made once. At a terminal, and without --digest, the\n" +
			"command asks first. The calls are written as JSON, as they will be sent.",
	}
	nameOf := runNameFlag(cmd, 0, 0, needsRun)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, _ := nameOf(args)
		return c.withJournal(cmd.Context(), app.Options{NoSources: true}, func(a *app.App) error {
			return c.approve(cmd.Context(), a, name, digest, deny, show)
		})
	}
	cmd.Flags().BoolVar(&deny, "deny", false, "refuse the calls")
	cmd.Flags().BoolVar(&show, "show", false, "only show the calls")
	cmd.Flags().StringVar(&digest, "digest", "", "the `digest` that --show gave with the calls: if other calls wait now, nothing is decided")
	cmd.MarkFlagsMutuallyExclusive("deny", "show")
	c.engineFlag(cmd)
	return cmd
}

// approve approves or refuses the calls that a run waits to make, or only shows them.
func (c *cli) approve(ctx context.Context, a *app.App, name runName, digest string, deny, show bool) error {
	id, err := name.find(ctx, c, a)
	if err != nil {
		return err
	}
	calls, err := chain.Waiting(ctx, a.Journal, id)
	asked := false
	if digest == "" && !show && err == nil { // the digest ties the decision to the calls that are shown: others may begin to wait meanwhile
		digest = chain.DigestOf(calls)
		asked = c.canAsk()
		if yes, err := c.askDecision(ctx, calls, deny); err != nil {
			return err
		} else if !yes {
			return exitError(exitFailed)
		}
	}
	switch {
	case err != nil || show:
	case deny:
		calls, err = chain.Deny(ctx, a.Journal, id, digest)
	default:
		calls, err = chain.Approve(ctx, a.Journal, id, digest)
	}
	switch {
	case journal.IsBusy(err):
		return opError{fault.New(fault.Busy, "the run is not over: try again when it has ended")}
	case err != nil:
		return err
	}
	answer := []json.RawMessage{}
	for _, call := range calls {
		answer = append(answer, json.RawMessage(call.Raw))
	}
	result := map[string]any{"run": id, "calls": answer, "digest": chain.DigestOf(calls)}
	if !show {
		result["approved"] = !deny
		continues, err := c.reportDecision(ctx, a, id)
		switch {
		case err != nil:
			c.noticef("the engine could not be told, so workers see the decision only within ten minutes: %s", fault.Message(err))
		case continues:
			c.noticef("workers continue the run")
		case !deny:
			c.noticef("onecall resume%s %s makes the calls", c.configFlag(), id)
		}
	}
	if asked && c.outTerminal {
		return nil // the question has shown the calls
	}
	return c.writeValue(result)
}

// askDecision asks whether to approve or refuse waiting calls. If there is no user to ask, the command itself is the decision.
func (c *cli) askDecision(ctx context.Context, calls []gjson.Result, deny bool) (bool, error) {
	if !c.canAsk() {
		return true, nil
	}
	shown := make([]string, len(calls))
	for i, call := range calls {
		shown[i] = call.Raw
	}
	if deny {
		return c.confirm(ctx, "Refuse", shown)
	}
	return c.confirm(ctx, "Approve", shown)
}

// approver returns a function that asks the user when a run stops for approval; nil if there is no user to ask.
func (c *cli) approver(p *progress) func(context.Context, []chain.ApprovalCall) (bool, error) {
	if !c.canAsk() {
		return nil
	}
	return func(ctx context.Context, calls []chain.ApprovalCall) (bool, error) {
		defer p.hide()()
		shown := make([]string, len(calls))
		for i := range calls {
			shown[i] = string(calls[i].JSON())
		}
		return c.confirm(ctx, "Approve", shown)
	}
}

// canAsk reports whether there is a user who can be asked: at a terminal, and without --json.
func (s *streams) canAsk() bool { return s.inTerminal && s.errTerminal && !s.asJSON }

// confirm shows calls as JSON and asks about them. verb begins the question, such as Approve.
func (c *cli) confirm(ctx context.Context, verb string, calls []string) (bool, error) {
	for _, call := range calls {
		fmt.Fprintf(c.err, "%s\n", rawjson.Visible([]byte(call)))
	}
	return c.ask(ctx, fmt.Sprintf("%s %s? [y/N] ", verb, plural(int64(len(calls)), "call")))
}
