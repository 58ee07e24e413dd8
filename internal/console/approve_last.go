package console

import (
	"context"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// approvedCalls are the approved calls of an earlier run.
type approvedCalls struct {
	run   string
	calls []gjson.Result
}

const (
	approvedLookedAt = 20    // how many of the newest runs of a chain lastApproved looks at
	maxLookedAt      = 2_000 // the calls of all runs that it reads
)

// lastApproved returns the calls of the newest other run of the same chain that were approved. A chain without a name has none.
func (r *request) lastApproved(ctx context.Context, past *journal.Past) (*approvedCalls, error) {
	if past.Row.Chain == "" {
		return &approvedCalls{}, nil
	}
	rows, err := r.Journal.List(ctx, &journal.Filter{Callers: r.decides(), Scope: r.Scope, Chains: []string{past.Row.Chain},
		Limit: approvedLookedAt})
	if err != nil {
		return nil, err
	}
	left := maxLookedAt
	for i := range rows {
		status := rows[i].Status
		// A run of another kind has no approved call. One that failed may have some that were not sent.
		approved := rows[i].Writes > 0 || status == journal.MayContinue || status == journal.Waiting || status == journal.Failed
		if rows[i].ID == past.Row.ID || !approved || rows[i].Calls > left {
			continue
		}
		left -= rows[i].Calls
		earlier, err := r.read(ctx, rows[i].ID, r.decides())
		if err != nil { // it has expired meanwhile, or is damaged: the page is about another run
			continue
		}
		if found := approvedOf(earlier); len(found.calls) > 0 {
			return found, nil
		}
	}
	return &approvedCalls{}, nil
}

func approvedOf(past *journal.Past) *approvedCalls {
	found := &approvedCalls{run: past.Row.ID}
	waited := map[string]gjson.Result{} // by the name of the approval
	for i := range past.Events {
		switch e := &past.Events[i]; e.Kind {
		case journal.Waits:
			for n, call := range gjson.ParseBytes(e.Args).Array() {
				waited[e.Approvals[n]] = call
			}
		case journal.Approved:
			for _, name := range e.Approvals {
				if call, known := waited[name]; known {
					found.calls = append(found.calls, call)
				}
			}
		}
	}
	return found
}

// pairs returns for each call the one of the same function that it is compared with: that with the same arguments, else that at the same
// place. Where there is none, it does not exist.
func (a *approvedCalls) pairs(calls []gjson.Result) []gjson.Result {
	pairs, used := make([]gjson.Result, len(calls)), make([]bool, len(a.calls))
	for _, members := range [][]string{{"fn", "args", "at"}, {"fn", "args"}, {"fn", "at"}} {
		key := func(call gjson.Result) (text string) {
			for _, member := range members {
				text += call.Get(member).Raw + "\n"
			}
			return text
		}
		free := map[string][]int{}
		for i := range a.calls {
			if !used[i] {
				free[key(a.calls[i])] = append(free[key(a.calls[i])], i)
			}
		}
		for i := range calls {
			if pairs[i].Exists() {
				continue
			}
			if list := free[key(calls[i])]; len(list) > 0 {
				pairs[i], used[list[0]], free[key(calls[i])] = a.calls[list[0]], true, list[1:]
			}
		}
	}
	return pairs
}
