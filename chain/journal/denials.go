package journal

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// CallOf returns the part of an approval's name that all equal calls share, in any run. A name without such a part stands for itself.
func CallOf(name string) string {
	call, _, _ := strings.Cut(name, ".")
	return call
}

// DenialOfCall is like Past.Denial for any call that equals the one with this name. Past must not be nil.
func (r *Run) DenialOfCall(name string) *Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.past.refused[CallOf(name)]
}

// Caller returns the caller who began the run.
func (r *Run) Caller() string { return r.row.Caller }

// Person returns whose denials hold for the later runs of a caller in a scope. client tells clients apart that share the ID of their caller
// (Options.Shared); "": nothing does. The result is "" if denials hold for their run alone.
func (j *Journal) Person(caller, scope, client string) string {
	if j.o.Remember <= 0 || j.IsShared(caller) && client == "" {
		return ""
	}
	return caller + "\x1f" + scope + "\x1f" + client
}

// IsShared reports whether nobody can tell the callers with this ID apart.
func (j *Journal) IsShared(caller string) bool { return j.o.Shared != "" && caller == j.o.Shared }

// remembered is a denial as it is kept: as a value of state, so that it is encrypted, ends by itself, and is the same for all processes.
type remembered struct {
	Calls  []string `json:"calls"` // see CallOf
	At     int64    `json:"at"`    // microseconds since 1970
	Until  int64    `json:"until"` // when it ends, by the database's clock
	By     string   `json:"by,omitzero"`
	Reason string   `json:"reason,omitzero"`
}

func denialsOf(person string) StateKey { return StateKey{Owner: "denials " + person, Name: "denials"} }

// Denials returns the denials of earlier runs that hold for a person, by CallOf. They have when, by whom and why. Nothing is remembered of
// the person "".
func (j *Journal) Denials(ctx context.Context, person string) (map[string]*Event, error) {
	if person == "" {
		return nil, nil
	}
	key := denialsOf(person)
	values, err := j.States(ctx, &StateFilter{Owner: key.Owner, Space: key.Space, Names: []string{key.Name}, Values: true})
	if fault.CodeOf(err) == fault.Unreadable { // it was written with another key, as the runs were that it is about
		return nil, nil
	}
	if err != nil || len(values) == 0 {
		return nil, err
	}
	denials := map[string]*Event{}
	for _, one := range readDenials(values[0].Value, time.Now()) {
		e := &Event{Kind: Denied, At: one.At, Message: one.By}
		if one.Reason != "" {
			e.Args = []byte(one.Reason)
		}
		for _, call := range one.Calls {
			denials[call] = e
		}
	}
	return denials, nil
}

// readDenials returns the denials in a value that hold still, the earliest first.
func readDenials(value []byte, now time.Time) (list []remembered) {
	_ = json.Unmarshal(value, &list) // it is authentic: Remember has written it
	return slices.DeleteFunc(list, func(one remembered) bool { return one.Until <= now.UnixMicro() })
}

// Remember records at once what a person has decided about the calls with these names, for later runs: a denial (Denied), as Decide has
// recorded it for this run, or that an earlier one does not hold any more (Approved).
func (r *Run) Remember(person string, kind Kind, names []string, by, reason string) error {
	if person == "" || len(names) == 0 {
		return nil
	}
	calls := make([]string, len(names))
	for i, name := range names {
		calls[i] = CallOf(name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == nil && !r.hasRow { // a value is changed for a run that is there
		_ = r.awaitWrite(r.takeSegment(false))
	}
	if r.failure != nil {
		return r.failure
	}
	denial := remembered{Calls: calls, By: clipBy(by), Reason: r.j.shortMessage(reason)}
	key := denialsOf(person)
	return r.awaitWrite(&queuedWrite{Write: Write{ID: r.row.ID, Lease: r.row.Lease, State: &StateWrite{StateKey: key,
		Decide: func(at *StateView, _ *Write) StateResult { return r.j.changeDenials(at, key, kind, denial) }}}})
}

// changeDenials returns what is remembered once calls are denied again, or approved.
func (j *Journal) changeDenials(at *StateView, key StateKey, kind Kind, decided remembered) (result StateResult) {
	decide := func(now StateNow) (*StateChange, []byte, error) {
		var list []remembered
		if now.StateValue != nil {
			list = readDenials(now.Value, now.Now)
		}
		count := len(list)
		decidedNow := make(map[string]bool, len(decided.Calls))
		for _, call := range decided.Calls {
			decidedNow[call] = true
		}
		lifted := false
		for i := range list {
			before := len(list[i].Calls)
			list[i].Calls = slices.DeleteFunc(list[i].Calls, func(call string) bool { return decidedNow[call] })
			lifted = lifted || len(list[i].Calls) < before
		}
		list = slices.DeleteFunc(list, func(one remembered) bool { return len(one.Calls) == 0 })
		if kind == Denied {
			one := decided
			one.At, one.Until = now.Now.UnixMicro(), now.Now.Add(j.o.Remember).UnixMicro()
			list = append(list, one)
		}
		switch {
		case len(list) == 0 && count > 0:
			return &StateChange{}, nil, nil // the value is removed
		case kind != Denied && !lifted:
			return nil, nil, nil
		}
		value, err := json.Marshal(list)
		return &StateChange{Value: value, Expires: time.UnixMicro(list[len(list)-1].Until)}, nil, err
	}
	result, _, err := j.decide(at, key, 0, decide)
	if err != nil && kind == Denied { // what was there cannot be read: it was written with another key
		result, _, _ = j.decide(&StateView{Next: at.Next, Size: at.Size, Now: at.Now}, key, 0, decide)
	}
	return result
}
