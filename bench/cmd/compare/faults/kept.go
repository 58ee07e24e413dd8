package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// withKept adds to the results of chosen arms what the last results have of the others. Each of those has a note of when it was measured.
func withKept(b *harness.Bench, results []*result) []*result {
	if len(b.Arms) == 0 {
		return results
	}
	before := harness.Must(report.ReadAll([]string{b.Name}, b.Results))
	if len(before) == 0 {
		return results
	}
	versions := maps.Clone(before[0].Versions)
	maps.Copy(versions, b.Versions)
	b.Versions = versions
	var all []*result
	for _, a := range chosen(nil) {
		i := slices.IndexFunc(results, func(r *result) bool { return r.key == a.key })
		if i >= 0 {
			all = append(all, results[i])
		} else if r := kept(before[0], a); r != nil {
			all = append(all, r)
		}
	}
	return all
}

// kept returns the result that a section has of an arm; nil: none.
func kept(s *report.Section, a arm) *result {
	r := &result{arm: a}
	for _, c := range counts {
		i := slices.IndexFunc(s.Figures, func(f report.Figure) bool { return f.Name == a.key+"/"+c.key })
		if i < 0 {
			return nil
		}
		*c.of(r) = int(s.Figures[i].Value)
	}
	const when = "measured "
	dated := false
	for _, comment := range s.Comments {
		if note, ours := strings.CutPrefix(comment, a.name+": "); ours && note != a.how+"." {
			r.notes = append(r.notes, note)
			dated = dated || strings.HasPrefix(note, when)
		}
	}
	if !dated {
		r.notes = append(r.notes, fmt.Sprintf("%s%s with commit %s, at a load of %.1f", when, s.Began.Format(time.DateTime), s.Commit, s.Machine.Load))
	}
	return r
}
