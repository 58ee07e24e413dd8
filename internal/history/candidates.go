package history

import (
	"cmp"
	"context"
	"path"
	"slices"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// SaveCandidate is a chain without a name that ran several times with the same steps and input: it is worth saving.
type SaveCandidate struct {
	Run       string   `json:"run"`             // the newest run, for onecall save
	Chain     string   `json:"chain,omitempty"` // the name of its file
	Count     int      `json:"count"`           // how often the chain ran
	Steps     int      `json:"steps"`
	Calls     int      `json:"calls"` // the calls of all these runs
	Functions []string `json:"functions,omitempty"`
}

const (
	maxCandidateRuns = 5000 // how many of the newest runs are examined
	minCandidateRuns = 3    // how many runs make a chain a candidate
	maxCandidates    = 5
)

// isFile reports whether a run without a name of its own has that of its file.
func isFile(chain string) bool {
	return slices.Contains([]string{".json", ".jsonc", ".jsonl", ".yaml", ".yml"}, path.Ext(chain))
}

// saveCandidates returns the chains that ran most often among the newest runs that match a filter, at least minCandidateRuns times. It
// leaves out chains of one step, and chains that also ran under a name, as saved chains do.
func saveCandidates(ctx context.Context, j *journal.Journal, f *journal.Filter) ([]SaveCandidate, error) {
	newest := *f
	newest.Limit = maxCandidateRuns
	rows, err := j.List(ctx, &newest)
	if err != nil {
		return nil, err
	}
	byHash, hasName := map[string]*SaveCandidate{}, map[string]bool{} // both by the hash of a chain
	for i := range rows {
		r := &rows[i]
		if r.Chain != "" && !isFile(r.Chain) {
			hasName[r.Hash] = true
			continue
		}
		if r.Steps < 2 || r.Hash == "" {
			continue
		}
		w := byHash[r.Hash]
		if w == nil {
			w = &SaveCandidate{Run: r.ID, Chain: r.Chain, Steps: r.Steps, Functions: r.Functions}
			byHash[r.Hash] = w
		}
		w.Count++
		w.Calls += r.Calls
	}
	list := []SaveCandidate{}
	for hash, w := range byHash {
		if w.Count >= minCandidateRuns && !hasName[hash] {
			list = append(list, *w)
		}
	}
	slices.SortFunc(list, func(a, b SaveCandidate) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Run, b.Run)) })
	return list[:min(len(list), maxCandidates)], nil
}
