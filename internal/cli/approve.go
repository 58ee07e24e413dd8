package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os/user"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/history"
	"github.com/onecall-mcp/onecall/steps"
)

func newApproveCommand(c *cli) *cobra.Command {
	d := &decision{}
	cmd := &cobra.Command{
		Use:   "approve RUN",
		Short: "Approve the calls that a run waits to make; resume makes them",
		Long: "Approve the calls that a run is waiting to make, or deny them. Each approved call may then be made once; a denied one is\n" +
			"denied to every resume. Of a run that waits for nothing, calls that were denied can be approved, and those that were\n" +
			"approved and not made can be denied. At a terminal, and without --digest, the command asks first. The calls are shown as\n" +
			"they will be sent: at a terminal for a person, else as JSON.",
	}
	nameOf := runNameFlag(cmd, 0, 0, needsRun)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, _ := nameOf(args)
		return c.withJournal(cmd.Context(), app.Options{NoSources: true}, func(a *app.App) error {
			return c.approve(cmd.Context(), a, name, d)
		})
	}
	cmd.Flags().BoolVar(&d.deny, "deny", false, "refuse the calls")
	cmd.Flags().StringArrayVar(&d.only, "only", nil,
		"only the call at this `place` (3, 3[7], 3[7].1), or all of this step, by number or (of an outermost step) id; "+
			"the others keep waiting; repeatable")
	cmd.Flags().StringVar(&d.reason, "reason", "", "why, in a `text` for the run's caller and onecall runs")
	cmd.Flags().BoolVar(&d.show, "show", false, "only show the calls")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "answer JSON on one line, and never ask, even at a terminal")
	cmd.Flags().StringVar(&d.digest, "digest", "",
		"the `digest` that --show gave with the calls: if other calls wait now, nothing is decided")
	for _, flag := range []string{"deny", "only", "reason"} {
		cmd.MarkFlagsMutuallyExclusive(flag, "show")
	}
	c.engineFlag(cmd)
	return cmd
}

// decision is what the flags of approve say.
type decision struct {
	digest, reason string
	only           []string // the places of the calls to decide about; nil: all
	deny, show     bool
}

// verb is what the user is asked whether to do.
func (d *decision) verb() string {
	if d.deny {
		return "Refuse"
	}
	return "Approve"
}

// approve approves or refuses calls that a run waits to make, or only shows them.
func (c *cli) approve(ctx context.Context, a *app.App, name runName, d *decision) error {
	id, err := name.find(ctx, c, a)
	if err != nil {
		return err
	}
	offered, err := chain.Waiting(ctx, a.Journal, id)
	switch {
	case journal.IsBusy(err):
		return errNotOver
	case err != nil && name.last:
		return withWaiting(ctx, a, err)
	case err != nil:
		return err
	}
	calls, digest := offered, chain.DigestOf(offered)
	if d.only != nil {
		if calls, err = chain.Pick(offered, d.only); err != nil {
			return withPlaces(err, len(offered))
		}
	}
	if d.show {
		return c.showWaiting(id, calls, digest)
	}
	if err := c.tellLifted(calls, d); err != nil {
		return err
	}
	if past, err := a.Journal.Read(ctx, id, nil); d.deny && err == nil && chain.EndsWhereDenied(past) {
		c.noticef("the chain does not say onError: continue: it ends at the first call that is denied, and calls after that are not made")
	}
	asked := d.digest == "" && c.canAsk()
	if asked {
		if answer, err := c.confirm(ctx, d.verb(), calls); err != nil {
			return err
		} else if !isYes(answer) {
			c.noticef("nothing was decided; --deny denies calls")
			return exitError(exitFailed)
		}
	}
	// The digest ties the decision to the calls that are shown: others may begin to wait meanwhile.
	ruling := &chain.Ruling{Digest: cmp.Or(d.digest, digest), By: userName(), Reason: d.reason}
	switch {
	case d.only == nil && d.deny:
		ruling.Rest = journal.Denied
	case d.only == nil:
		ruling.Rest = journal.Approved
	case d.deny:
		ruling.Deny = d.only
	default:
		ruling.Approve = d.only
	}
	waiting, err := chain.Decide(ctx, a.Journal, id, ruling)
	switch {
	case journal.IsBusy(err):
		return errNotOver
	case err != nil:
		return err
	}
	c.tellDecision(ctx, a, id, len(waiting))
	if asked && c.outTerminal { // the question has shown the calls
		return nil
	}
	result := map[string]any{"run": id, "calls": rawCalls(calls), "digest": digest, "approved": !d.deny}
	if len(waiting) > 0 {
		result["waiting"] = len(waiting)
	}
	return c.writeValue(result)
}

// tellLifted tells the user which denials an approval takes back. It fails if some calls are approved already and no other is named: then
// the user does not mean those that were denied.
func (c *cli) tellLifted(calls []gjson.Result, d *decision) error {
	var lifted []string
	approved := false
	for i := range calls {
		approved = approved || calls[i].Get("approved").Bool()
		if calls[i].Get("denied").Exists() {
			lifted = append(lifted, calls[i].Get("at").Str)
		}
	}
	switch places := strings.Join(lifted, ", "); {
	case d.deny || len(lifted) == 0:
	case approved && d.only == nil:
		return opError{fault.New(fault.BadRequest, "the others are approved already, and what was denied stays denied: "+
			"name it with --only to approve it: %s", fault.Clip(places, 200))}
	default:
		c.noticef("approving takes back the denial of %s at %s", plural(int64(len(lifted)), "call"), fault.Clip(places, 200))
	}
	return nil
}

// withPlaces adds to the error about a place where no call can be decided about the places of those that can.
func withPlaces(err error, calls int) error {
	f, coded := fault.As(err)
	if !coded || len(f.Available) == 0 {
		return err
	}
	message := f.Message + ": there are " + strings.Join(f.Available, ", ")
	if more := calls - len(f.Available); more > 0 {
		message += fmt.Sprintf(" and %d more, which --show shows", more)
	}
	return opErrorf("%s", message)
}

// withWaiting adds to the error about the newest run, which does not wait, which runs do.
func withWaiting(ctx context.Context, a *app.App, err error) error {
	f, coded := fault.As(err)
	if !coded || f.Code != fault.BadRequest {
		return err
	}
	waiting := &journal.Filter{Status: journal.Waiting, Code: fault.ApprovalRequired, Limit: maxCandidates + 1}
	runs, failure := history.Runs(ctx, a.Journal, waiting)
	if failure != nil {
		return err
	}
	message := f.Message + ", and no other does"
	if len(runs) > 0 {
		message = f.Message + "; these do:"
	}
	for i := range runs[:min(len(runs), maxCandidates)] {
		message += "\n  " + runTitle(&runs[i])
	}
	if len(runs) > maxCandidates {
		message += "\n  …: onecall runs --status waiting"
	}
	return opErrorf("%s", message)
}

var errNotOver = opError{fault.New(fault.Busy, "the run is not over: try again when it has ended")}

func rawCalls(calls []gjson.Result) []json.RawMessage {
	list := []json.RawMessage{}
	for _, call := range calls {
		list = append(list, json.RawMessage(call.Raw))
	}
	return list
}

// showWaiting shows the calls of a run, and the digest to decide about them.
func (c *cli) showWaiting(id string, calls []gjson.Result, digest string) error {
	if c.outTerminal && !c.asJSON {
		text, _ := waitingText(c.outPage(), calls, true)
		return c.writeText([]byte(text + "onecall approve" + c.configFlag() + " " + id + " --digest " + digest + "\n"))
	}
	return c.writeValue(map[string]any{"run": id, "calls": rawCalls(calls), "digest": digest})
}

// tellDecision tells the engine of a decision after which waiting calls still wait, and the user what comes next.
func (c *cli) tellDecision(ctx context.Context, a *app.App, id string, waiting int) {
	if waiting > 0 {
		c.noticef("%s still waiting: onecall approve%s %s --show shows what", plural(int64(waiting), "call"), c.configFlag(), id)
		return
	}
	approved, ends, bound := decided(ctx, a, id)
	continues, err := c.reportDecision(ctx, a, id)
	switch {
	case err != nil:
		c.noticef("the engine could not be told, so workers see the decision only within ten minutes: %s", fault.Message(err))
	case continues:
		c.noticef("workers continue the run")
	case approved && bound != nil:
		c.noticef(`the run's caller makes the calls, with its own credential for %s, by {"resume": %q}: no command has that`,
			strings.Join(bound, ", "), id)
	case approved && ends:
		c.noticef("onecall resume%s %s makes the calls that come before the denied one", c.configFlagOf(ctx, a, id), id)
	case approved:
		c.noticef("onecall resume%s %s makes the calls", c.configFlagOf(ctx, a, id), id)
	}
}

// decided reports whether calls of a run are approved and not made yet, whether the run ends at one that was denied, and with which
// credentials of its caller alone it goes on.
func decided(ctx context.Context, a *app.App, id string) (approved, ends bool, bound []string) {
	calls, err := chain.Waiting(ctx, a.Journal, id)
	if err != nil {
		return false, false, nil
	}
	for _, call := range calls {
		approved = approved || call.Get("approved").Bool()
		ends = ends || call.Get("denied").Exists()
	}
	past, err := a.Journal.Read(ctx, id, nil)
	if err != nil {
		return approved, false, nil
	}
	if !steps.HasCredentials(a.Credentials(), strings.Join(past.Credentials, " ")) {
		bound = chain.BoundTo(past)
	}
	return approved, ends && chain.EndsWhereDenied(past), bound
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
		answer, err := c.confirm(ctx, "Approve", shown)
		if err == nil && !isYes(answer) && !isNo(answer) {
			err = chain.ErrDismissed
		}
		return isYes(answer), err
	}
}

// canAsk reports whether there is a user who can be asked: at a terminal, and without --json.
func (s *streams) canAsk() bool { return s.inTerminal && s.errTerminal && !s.asJSON }
