package ledger

import (
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// Group has the calls of one function that a run waits for.
type Group struct {
	Key   string // identifies the run, exactly these calls and this time of waiting for them; it cannot be forged
	Calls []gjson.Result
}

// Groups returns the calls that a run waits for by function, in the order of their first calls; nil: it waits for none. A group keeps its
// key while others are decided about.
func Groups(j *journal.Journal, past *journal.Past) (list []Group) {
	if past.Row.Status != journal.Waiting || past.Waiting == nil {
		return nil
	}
	known := map[string]int{} // groups by function
	var names [][]string      // of the approvals, by group
	for i, call := range gjson.ParseBytes(past.Waiting.Args).Array() {
		function := call.Get("fn").Str
		n, ok := known[function]
		if !ok {
			n, known[function] = len(list), len(list)
			list, names = append(list, Group{}), append(names, nil)
		}
		list[n].Calls, names[n] = append(list[n].Calls, call), append(names[n], past.Waiting.Approvals[i])
	}
	for n := range list {
		list[n].Key = groupKey(j, past, names[n])
	}
	return list
}

// groupKey returns the key of the calls with these names. A call that was approved may fail and wait again: that is another question.
func groupKey(j *journal.Journal, past *journal.Past, names []string) string {
	isNamed := make(map[string]bool, len(names))
	texts := [][]byte{[]byte("open question"), []byte(past.Row.ID), nil}
	for _, name := range names {
		isNamed[name], texts = true, append(texts, []byte(name))
	}
	times := 0
	for i := range past.Events {
		e := &past.Events[i]
		if e.Kind == journal.Approved && slices.ContainsFunc(e.Approvals, func(name string) bool { return isNamed[name] }) {
			times++
		}
	}
	texts[2] = []byte(strconv.Itoa(times))
	return base64.RawURLEncoding.EncodeToString(j.MAC(texts...))
}

// Reply is what a person says about a group.
type Reply struct {
	Yes    bool     // the calls may be made, each once, but for those at the places in Deny; else all of them are denied
	Deny   []string // as in Ruling
	Reason string
}

// Reply records replies to what a run of the caller waits for, by the keys of the groups. Other keys are ignored. by is who decides.
func (l *Ledger) Reply(ctx context.Context, run string, replies map[string]Reply, by string) *fault.Error {
	past, f := l.takeOwn(ctx, run)
	if f != nil {
		return f
	}
	d := &Ruling{By: by}
	var reasons []string
	for _, g := range Groups(l.Journal, past) {
		reply, ok := replies[g.Key]
		if !ok {
			continue
		}
		if err := d.add(g.Calls, &reply); err != nil {
			l.Release()
			return codedFault(err)
		}
		if reply.Reason != "" {
			reasons = append(reasons, reply.Reason)
		}
	}
	if len(d.Approve)+len(d.Deny) == 0 {
		l.Release()
		return nil
	}
	d.Reason = strings.Join(reasons, "; ")
	_, f = l.recordOwn(ctx, past, d)
	return f
}

// add adds what a reply says about calls.
func (d *Ruling) add(calls []gjson.Result, reply *Reply) error {
	denied, err := pick(calls, reply.Deny)
	if err != nil {
		return err
	}
	for i := range calls {
		if at := calls[i].Get("at").Str; reply.Yes && !denied[i] {
			d.Approve = append(d.Approve, at)
		} else {
			d.Deny = append(d.Deny, at)
		}
	}
	return nil
}

// StopWaiting ends a run of the caller that waits for approval, or was decided about and not resumed, as cancelled.
func (l *Ledger) StopWaiting(ctx context.Context, run string) *fault.Error {
	past, f := l.takeOwn(ctx, run)
	if f != nil {
		return f
	}
	if past.Row.Status != journal.Waiting && !WasDecided(past) {
		l.Release()
		return nil
	}
	l.leased = nil
	if err := l.Journal.Resume(past, nil).EndUnfinished(journal.Failed, fault.Cancelled, "it was cancelled while it waited"); err != nil {
		return Fault(err, "it still waits")
	}
	return nil
}

// WasDecided reports whether calls of a run were decided about after it had stopped, and whether it was not resumed since.
func WasDecided(past *journal.Past) bool {
	switch s := past.Row.Status; {
	case s == journal.MayContinue:
		return true
	case s != journal.Failed || past.Row.Code != fault.Denied:
		return false
	}
	decided := false
	for i := range slices.Backward(past.Events) {
		switch past.Events[i].Kind {
		case journal.Approved, journal.Denied:
			decided = true
		case journal.Stopped:
			if decided {
				return true
			}
		default: // it was denied while the run went on
			return false
		}
	}
	return false
}

// takeOwn takes the lease of a run of the caller.
func (l *Ledger) takeOwn(ctx context.Context, run string) (*journal.Past, *fault.Error) {
	if l.Journal == nil {
		return nil, NotResumable("runs are not recorded here: there is nothing to decide")
	}
	return l.Take(ctx, run, false)
}
