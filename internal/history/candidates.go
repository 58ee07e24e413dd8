package history

import (
	"cmp"
	"context"
	"slices"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// SaveCandidate is a chain without a name that ran several times with the same steps and input: it is worth saving.
type SaveCandidate struct {
	Run       string   `json:"run"` // the newest run, for onecall save
	Count     int      `json:"count"`
	Steps     int      `json:"steps"`
	Calls     int      `json:"calls"` // the calls of all these runs
	Functions []string `json:"functions,omitempty"`
}

const (
	maxCandidateRuns = 5000 // how many of the newest runs are looked at
	minCandidateRuns = 3    // how many runs of a chain make it a candidate
	maxCandidates    = 5
)

// saveCandidates returns the chains that ran most often among the newest runs, at least minCandidateRuns times. They have more than one
// step, and none of the runs with the same hash had a name. The runs of a saved chain have one.
func saveCandidates(ctx context.Context, j *journal.Journal, f *journal.Filter) ([]SaveCandidate, error) {
	newest := *f
	newest.Limit = maxCandidateRuns
	rows, err := j.List(ctx, &newest)
	if err != nil {
		return nil, err
	}
	byHash, hashes := map[string]*SaveCandidate{}, map[string]bool{} // hashes: those of runs with a name
	for i := range rows {
		r := &rows[i]
		if r.Chain != "" {
			hashes[r.Hash] = true
			continue
		}
		if r.Steps < 2 || r.Hash == "" {
			continue
		}
		w := byHash[r.Hash]
		if w == nil {
			w = &SaveCandidate{Run: r.ID, Steps: r.Steps, Functions: r.Functions}
			byHash[r.Hash] = w
		}
		w.Count++
		w.Calls += r.Calls
	}
	list := []SaveCandidate{}
	for hash, w := range byHash {
		if w.Count >= minCandidateRuns && !hashes[hash] {
			list = append(list, *w)
		}
	}
	slices.SortFunc(list, func(a, b SaveCandidate) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Run, b.Run)) })
	return list[:min(len(list), maxCandidates)], nil
}
