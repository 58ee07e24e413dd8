package ledger

import (
	"context"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// Ruling is what an operator decides about calls of a run. Places are those of Pick.
type Ruling struct {
	Digest        string                     // DigestOf the calls that the operator has seen; "": whichever Offered returns
	Approve, Deny []string                   // the places of calls
	Rest          journal.Kind               // Approved or Denied: what is decided about the calls at no place; "": they stay as they are
	Sees          func(function string) bool // whether the ruling is about calls of a function; nil: of all. The other calls stay as they are
	By, Reason    string                     // who decides, and why; "": it is not known
}

// Pick returns the calls at some places. A place is that of a call (3, 3[7], 3[7].1) or of a step with several calls. The id of a step
// stands for its number, but not within the chain of another step: whoever names the step pay does not mean one that a step calls inside.
// Pick fails with bad_request if no call is at a place.
func Pick(calls []gjson.Result, places []string) (list []gjson.Result, err error) {
	picked, err := pick(calls, places)
	for i := range picked {
		if picked[i] {
			list = append(list, calls[i])
		}
	}
	return list, err
}

// pick reports which calls are at some places. There may be many of both.
func pick(calls []gjson.Result, places []string) (picked []bool, err error) {
	isUsed := make(map[string]bool, len(places))
	for _, place := range places {
		isUsed[place] = false
	}
	picked = make([]bool, len(calls))
	for i := range calls {
		for _, place := range placesOf(calls[i]) {
			if _, named := isUsed[place]; named {
				isUsed[place], picked[i] = true, true
			}
		}
	}
	for _, place := range places {
		if !isUsed[place] {
			return nil, noCallAt(place, calls)
		}
	}
	return picked, nil
}

// placesOf returns the places that a call is at: of the call at 3[7].1 they are 3, 3[7] and 3[7].1.
func placesOf(call gjson.Result) (list []string) {
	at := call.Get("at").Str
	for i := range at {
		if at[i] == '[' || at[i] == '.' {
			list = append(list, at[:i])
		}
	}
	list = append(list, at)
	if id := call.Get("id").Str; id != "" && !strings.Contains(at, ".") {
		list = append(list, id)
		if _, element, isElement := strings.Cut(at, "["); isElement {
			list = append(list, id+"["+element)
		}
	}
	return list
}

func noCallAt(place string, calls []gjson.Result) error {
	f := fault.New(fault.BadRequest, "no call at %s can be decided about", fault.Quote(fault.ClipRunes(place, 60)))
	for i := range calls[:min(len(calls), MaxConflicts)] {
		f.Available = append(f.Available, calls[i].Get("at").Str)
	}
	f.Nearest = fault.Nearest(place, f.Available, 1)
	return f
}

// part has the calls about which the same is decided.
type part struct {
	kind  journal.Kind
	names []string
	calls []gjson.Result
}

// apply returns the calls to approve, those to deny, and those that go on waiting.
func (d *Ruling) apply(ctx context.Context, past *journal.Past) (parts [3]part, err error) {
	list, err := offers(past)
	if err != nil {
		return parts, err
	}
	calls := callsOf(list)
	if d.Digest != "" && d.Digest != DigestOf(calls) {
		return parts, fault.New(fault.ResumeConflict, "the waiting calls have changed: look at them again")
	}
	kinds, err := d.kinds(calls)
	if err != nil {
		return parts, err
	}
	parts[0].kind, parts[1].kind = journal.Approved, journal.Denied
	again := false // a call is to be approved that is
	for i, kind := range kinds {
		part := &parts[2]
		switch {
		case kind == journal.Approved && past.Approved(list[i].name):
			again = true
			continue
		case kind == journal.Approved:
			part = &parts[0]
		case kind == journal.Denied:
			part = &parts[1]
		case past.Row.Status != journal.Waiting:
			continue // it stays denied, or approved
		}
		part.names, part.calls = append(part.names, list[i].name), append(part.calls, list[i].call)
	}
	switch {
	case len(parts[0].names)+len(parts[1].names) > 0:
	case again:
		return parts, approvedFault(past)
	default:
		return parts, fault.New(fault.BadRequest, "nothing is decided: name calls to approve or to deny")
	}
	return parts, ctx.Err()
}

// kinds returns what is decided about each call: Approved, Denied, or "".
func (d *Ruling) kinds(calls []gjson.Result) (kinds []journal.Kind, err error) {
	var seen []gjson.Result
	var at []int // where in calls they are
	for i := range calls {
		if d.Sees == nil || d.Sees(calls[i].Get("fn").Str) {
			seen, at = append(seen, calls[i]), append(at, i)
		}
	}
	approved, err := pick(seen, d.Approve)
	if err != nil {
		return nil, err
	}
	denied, err := pick(seen, d.Deny)
	if err != nil {
		return nil, err
	}
	kinds = make([]journal.Kind, len(calls))
	for n, i := range at {
		kinds[i] = d.Rest
		switch yes, no := approved[n], denied[n]; {
		case yes && no:
			return nil, fault.New(fault.BadRequest, "the call at %s is both approved and denied", calls[i].Get("at").Str)
		case yes:
			kinds[i] = journal.Approved
		case no:
			kinds[i] = journal.Denied
		}
	}
	return kinds, nil
}
