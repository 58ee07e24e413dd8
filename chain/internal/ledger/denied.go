package ledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// clientKey is the key of a session's name, which tells clients with the same caller apart.
type clientKey struct{}

// client returns what tells the client of ctx apart from others, if its caller's ID does not; "": nothing needs to, or can.
func (l *Ledger) client(ctx context.Context) string {
	session := steps.SessionOf(ctx)
	if l.Journal == nil || session == nil || !l.Journal.IsShared(l.Caller) {
		return ""
	}
	return session.Value(clientKey{}, func() any { return rand.Text() }).(string)
}

// person returns whose denials hold for the run, and for later ones.
func (l *Ledger) person(ctx context.Context) string {
	if l.Journal == nil {
		return ""
	}
	return l.Journal.Person(l.Record.Caller(), l.Scope, l.client(ctx))
}

// personOf is person for a run that waits, or has waited, for approval.
func personOf(j *journal.Journal, past *journal.Past) string {
	return j.Person(past.Row.Caller, past.Row.Scope, clientOf(past))
}

// clientOf returns the client for which a run has waited last.
func clientOf(past *journal.Past) string {
	for i := range slices.Backward(past.Events) {
		if e := &past.Events[i]; e.Kind == journal.Waits {
			return e.Scope
		}
	}
	return ""
}

// Refuse leaves out of some calls those that equal one which a person has denied: in this run, or in an earlier one not long ago. It
// records that they are denied, so that nobody is asked about them, and returns the others.
func (l *Ledger) Refuse(ctx context.Context, calls []facts.WaitingCall) (left []facts.WaitingCall, f *fault.Error) {
	var remembered map[string]*journal.Event
	if person := l.person(ctx); person != "" {
		var err error
		if remembered, err = l.Journal.Denials(ctx, person); err != nil {
			return nil, Fault(err, "no call that needs approval was sent")
		}
	}
	var denials []*journal.Event
	refused := map[*journal.Event][]facts.WaitingCall{}
	for _, call := range calls {
		denial := cmp.Or(l.Record.DenialOfCall(call.Name), remembered[journal.CallOf(call.Name)])
		if denial == nil {
			left = append(left, call)
			continue
		}
		if refused[denial] == nil {
			denials = append(denials, denial)
		}
		refused[denial] = append(refused[denial], call)
	}
	for _, denial := range denials {
		same := refused[denial]
		l.appendWaits(ctx, same) // see decided
		l.Record.Append(journal.Event{Kind: journal.Denied, Approvals: Names(same), At: denial.At, Message: denial.Message, Args: denial.Args})
	}
	return left, nil
}

// checkDenied refuses a caller's approval of calls of which one was denied meanwhile, in another run.
func (l *Ledger) checkDenied(ctx context.Context, past *journal.Past, names []string) *fault.Error {
	remembered, err := l.Journal.Denials(ctx, personOf(l.Journal, past))
	if err != nil {
		return Fault(err, nothingDecided)
	}
	for _, name := range names {
		if denial := remembered[journal.CallOf(name)]; denial != nil {
			by, reason := denial.Decision()
			return fault.New(fault.Denied, "%s: a person approves it %s", deniedText("a call that waits here was denied in another run", by,
				timeOf(denial), reason), l.ByHand(past.Row.ID)).Under("/approve")
		}
	}
	return nil
}

// overrule finds the calls of a run that its caller has approved, and that a person has denied since, in another run. What a person has
// approved stays approved.
func (l *Ledger) overrule(ctx context.Context, past *journal.Past) *fault.Error {
	if l.overruled = nil; !past.IsApproved() {
		return nil
	}
	remembered, err := l.Journal.Denials(ctx, personOf(l.Journal, past))
	if err != nil {
		return Fault(err, "no call that was approved was sent")
	}
	for i := range slices.Backward(past.Events) {
		e := &past.Events[i]
		if by, _ := e.Decision(); e.Kind != journal.Approved || by != "" {
			continue
		}
		for _, name := range e.Approvals {
			if denial := remembered[journal.CallOf(name)]; denial != nil && denial.At > e.At && past.Approved(name) {
				l.overruled = append(l.overruled, journal.Event{Kind: journal.Denied, Approvals: []string{name}, At: denial.At,
					Message: denial.Message, Args: denial.Args})
			}
		}
	}
	return nil
}

// remember records what a ruling about calls of a run says for later runs. Only an operator (lifts) ends an earlier denial.
func (d *Ruling) remember(r *journal.Run, person string, parts *[3]part, lifts bool) error {
	if lifts {
		if err := r.Remember(person, journal.Approved, parts[0].names, "", ""); err != nil {
			return fmt.Errorf("the earlier denial: %w", err)
		}
	}
	if err := r.Remember(person, journal.Denied, parts[1].names, d.By, d.Reason); err != nil {
		return fmt.Errorf("the denial: %w", err)
	}
	return nil
}
