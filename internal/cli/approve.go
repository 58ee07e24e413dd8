package cli

import (
	"context"
	"encoding/json"
	"os/user"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
)

func newApproveCommand(c *cli) *cobra.Command {
	var deny, show bool
	var digest string
	cmd := &cobra.Command{
		Use:   "approve RUN",
		Short: "Approve the calls that a run waits to make; resume makes them",
		Long: "Approve the calls that a run is waiting to make. Each may then be made once. At a terminal, and without --digest, the\n" +
			"command asks first. The calls are shown as they will be sent: at a terminal for a person, else as JSON.",
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
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "answer JSON on one line, and never ask, even at a terminal")
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
		calls, err = chain.Deny(ctx, a.Journal, id, digest, userName())
	default:
		calls, err = chain.Approve(ctx, a.Journal, id, digest, userName())
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
			c.noticef("onecall resume%s %s makes the calls", c.configFlagOf(ctx, a, id), id)
		}
	}
	switch {
	case asked && c.outTerminal: // the question has shown the calls
		return nil
	case show && c.outTerminal && !c.asJSON:
		text, _ := waitingText(c.outPage(), calls, true)
		return c.writeText([]byte(text + "onecall approve" + c.configFlag() + " " + id + " --digest " + chain.DigestOf(calls) + "\n"))
	}
	return c.writeValue(result)
}

// configFlagOf is configFlag for a run, which may have been made with another configuration than this command.
func (c *cli) configFlagOf(ctx context.Context, a *app.App, run string) string {
	past, err := a.Journal.Read(ctx, run, nil)
	if err != nil || past.Row.Scope == "" || past.Row.Scope == a.Scope() {
		return c.configFlag()
	}
	return " --config " + past.Row.Scope
}

// userName returns the name of the user of the operating system who runs the command; "": it is not known.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// askDecision asks whether to approve or refuse waiting calls. If there is no user to ask, the command itself is the decision.
func (c *cli) askDecision(ctx context.Context, calls []gjson.Result, deny bool) (bool, error) {
	if !c.canAsk() {
		return true, nil
	}
	if deny {
		return c.confirm(ctx, "Refuse", calls)
	}
	return c.confirm(ctx, "Approve", calls)
}

// approver returns a function that asks the user when a run stops for approval; nil if there is no user to ask.
func (c *cli) approver(p *progress) func(context.Context, []chain.ApprovalCall) (bool, error) {
	if !c.canAsk() {
		return nil
	}
	return func(ctx context.Context, calls []chain.ApprovalCall) (bool, error) {
		defer p.hide()()
		shown := make([]gjson.Result, len(calls))
		for i := range calls {
			shown[i] = gjson.ParseBytes(calls[i].JSON())
		}
		return c.confirm(ctx, "Approve", shown)
	}
}

// canAsk reports whether there is a user who can be asked: at a terminal, and without --json.
func (s *streams) canAsk() bool { return s.inTerminal && s.errTerminal && !s.asJSON }
