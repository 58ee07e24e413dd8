package history

import (
	"cmp"
	"context"
	"slices"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// Worth is a chain that ran several times, the same each time, and has no name: it is worth saving.
type Worth struct {
	Run       string   `json:"run"` // the newest: save takes it
	Count     int      `json:"count"`
	Steps     int      `json:"steps"`
	Calls     int      `json:"calls"` // of all these runs
	Functions []string `json:"functions,omitempty"`
}

const (
	maxWorthRuns = 5000 // that are looked at, the newest
	leastWorth   = 3    // runs
	maxWorth     = 5
)

// worth finds among the newest runs the chains without a name that ran most often with the same steps and input, each in several steps.
func worth(ctx context.Context, j *journal.Journal, f *journal.Filter) ([]Worth, error) {
	newest := *f
	newest.Limit = maxWorthRuns
	rows, err := j.List(ctx, &newest)
	if err != nil {
		return nil, err
	}
	byHash, named := map[string]*Worth{}, map[string]bool{}
	for i := range rows {
		r := &rows[i]
		if r.Chain != "" {
			named[r.Hash] = true
			continue
		}
		if r.Steps < 2 || r.Hash == "" {
			continue
		}
		w := byHash[r.Hash]
		if w == nil {
			w = &Worth{Run: r.ID, Steps: r.Steps, Functions: r.Functions}
			byHash[r.Hash] = w
		}
		w.Count++
		w.Calls += r.Calls
	}
	list := []Worth{}
	for hash, w := range byHash {
		if w.Count >= leastWorth && !named[hash] {
			list = append(list, *w)
		}
	}
	slices.SortFunc(list, func(a, b Worth) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Run, b.Run)) })
	return list[:min(len(list), maxWorth)], nil
}
