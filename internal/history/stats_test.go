package history_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/history"
)

// withoutTimes returns sums without their times.
func withoutTimes(sums []history.Sum) (list []history.Sum) {
	for _, s := range sums {
		s.P50, s.P95 = 0, 0
		list = append(list, s)
	}
	return list
}

func TestStats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newTestJournal(t)
		nightly := p.begin("alice", "nightly")
		for range 3 {
			p.call(nightly, get, time.Millisecond, read)
		}
		p.call(nightly, put, time.Millisecond, applied)
		nightly.Answered(40, 60)
		time.Sleep(24 * time.Hour)
		refusal := p.begin("bob", "")
		p.call(refusal, put, time.Millisecond, refused)
		p.failed(refusal, fault.FunctionFailed, 7)
		empty := p.begin("alice", "")
		empty.Answered(5, 0)

		stats, err := history.StatsOf(t.Context(), p.Journal, &journal.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		named := func(name string, s history.Sum) history.Sum { s.Name = name; return s }
		first := history.Sum{Count: 1, Calls: 4, Tokens: 40, Stored: 60, Saved: 3}
		rest := history.Sum{Count: 2, Failures: 1, Calls: 1, Tokens: 12}
		for name, test := range map[string]struct{ got, want []history.Sum }{
			"functions": {stats.Functions, []history.Sum{{Name: "store.get", Count: 3}, {Name: "store.put", Count: 2, Failures: 1}}},
			"chains":    {stats.Chains, []history.Sum{named("", rest), named("nightly", first)}},
			"callers": {stats.Callers, []history.Sum{{Name: "alice", Count: 2, Calls: 4, Tokens: 45, Stored: 60, Saved: 2},
				{Name: "bob", Count: 1, Failures: 1, Calls: 1, Tokens: 7}}},
			"days": {stats.Days, []history.Sum{named("2000-01-02", rest), named("2000-01-01", first)}},
		} {
			if got := withoutTimes(test.got); !slices.Equal(got, test.want) {
				t.Errorf("%s: got %+v\nwant %+v", name, got, test.want)
			}
		}
	})
}

// TestWorthSaving: a chain without a name that ran at least three times is worth saving, unless it has only one step or also ran under a
// name.
func TestWorthSaving(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newTestJournal(t)
		newest := map[string]string{}
		record := func(hash, name string, steps, times int) {
			for range times {
				time.Sleep(time.Millisecond)
				run := p.Begin(&journal.Start{Caller: "alice", Chain: name, Steps: steps, Hash: func() string { return hash }, Text: []byte(`{}`),
					Functions: []string{"store.get"}})
				p.call(run, get, 0, read)
				p.call(run, get, 0, read)
				run.Answered(1, 1)
				newest[hash] = run.ID()
			}
		}
		record("often", "", 2, 5)
		record("seldom", "", 2, 2)
		record("short", "", 1, 9)
		record("named", "nightly", 2, 9)
		record("saved", "", 2, 9)
		record("saved", "chain.saved", 2, 1)
		record("oftener", "", 3, 6)
		stats, err := history.StatsOf(t.Context(), p.Journal, &journal.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		want := []history.SaveCandidate{
			{Run: newest["oftener"], Count: 6, Steps: 3, Calls: 12, Functions: []string{"store.get"}},
			{Run: newest["often"], Count: 5, Steps: 2, Calls: 10, Functions: []string{"store.get"}},
		}
		if got := stats.WorthSaving; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
		bob := "bob"
		if stats, err := history.StatsOf(t.Context(), p.Journal, &journal.Filter{Callers: []string{bob}}); err != nil || stats.WorthSaving == nil ||
			len(stats.WorthSaving) > 0 {
			t.Errorf("stats of another caller: got %+v, %v, want an empty WorthSaving", stats, err)
		}
	})
}

// TestSumsAreBounded: a caller that invents names of chains gets a limited number of sums, and takes none from other callers.
func TestSumsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newTestJournal(t)
		record := func(caller, name string) { // without a Key: runs of the same Key are one run
			p.Begin(&journal.Start{Caller: caller, Chain: name, Hash: func() string { return "" }}).Answered(1, 0)
		}
		for day := range 2 {
			for i := range 1000 {
				record("alice", fmt.Sprint("made up ", i))
			}
			record("alice", "made up 7")
			record("bob", "nightly")
			stats, err := history.StatsOf(t.Context(), p.Journal, &journal.Filter{Since: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			counts := map[string]int64{}
			for _, s := range stats.Chains {
				counts[s.Name] = s.Count
			}
			if len(counts) != 202 || counts[journal.OtherChains] != 800 || counts["made up 7"] != 2 || counts["nightly"] != 1 {
				t.Errorf("day %d: got %d names, %d others, %d runs of made up 7, %d of nightly; want 202, 800, 2 and 1",
					day, len(counts), counts[journal.OtherChains], counts["made up 7"], counts["nightly"])
			}
			time.Sleep(24 * time.Hour)
		}
	})
}

// TestStatsOfTimes: half of the calls take no longer than p50, 95 of 100 no longer than p95.
func TestStatsOfTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newTestJournal(t)
		run := p.begin("alice", "")
		for i := range 100 {
			p.call(run, get, time.Duration(i+1)*time.Millisecond, read)
		}
		run.Answered(1, 0)
		stats, err := history.StatsOf(t.Context(), p.Journal, &journal.Filter{Function: "store.get"})
		if err != nil || len(stats.Functions) != 1 || len(stats.Chains) != 0 {
			t.Fatalf("got stats %+v, %v, want one function and no chains", stats, err)
		}
		near := func(got, want float64) bool { return got > want*0.93 && got < want*1.07 } // buckets are off by 6 %
		if s := stats.Functions[0]; !near(s.P50, 50) || !near(s.P95, 95) {
			t.Errorf("times %+v, want p50 of 50 and p95 of 95", s)
		}
	})
}

// TestStatsOfEmptyHistory: the stats of an empty history have empty lists, which are [] in JSON.
func TestStatsOfEmptyHistory(t *testing.T) {
	t.Parallel()
	stats, err := history.StatsOf(t.Context(), newTestJournal(t).Journal, &journal.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]history.Sum{stats.Functions, stats.Chains, stats.Callers, stats.Days} {
		if list == nil || len(list) != 0 {
			t.Errorf("got %+v, want every list empty and not nil", stats)
		}
	}
}
