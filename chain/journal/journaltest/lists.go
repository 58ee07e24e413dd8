package journaltest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

func find(t *testing.T, s Store) {
	d := s.Open(t)
	mine, again, foreign := newRun("run_aa"), newRun("run_ab"), newRun("run_c")
	mine.Row.Key, again.Row.Key, foreign.Row.Key = "k", "k", "k"
	foreign.Row.Caller = "token:other"
	foreign.Row.Expires = start.Add(time.Minute)
	write(t, d, mine, foreign)
	if refused, err := d.Write(t.Context(), []journal.Write{again, newRun("run_d")}); err != nil ||
		!slices.Equal(refused, []bool{true, false}) {
		t.Fatalf("write with a taken key: refused %v, error %v", refused, err)
	}
	for _, test := range []struct {
		caller, key, want string
		expires           time.Time
	}{
		{"token:ci", "k", "run_aa", mine.Row.Expires}, {"token:other", "k", "run_c", foreign.Row.Expires}, {"", "k", "", time.Time{}},
		{"token:ci", "K", "", time.Time{}},
	} {
		got, expires, err := d.Find(t.Context(), test.caller, test.key)
		if got != test.want || err == nil && !expires.Equal(test.expires) || (err != nil) != (test.want == "") || err != nil && !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("%+v: %s, %v, %v", test, got, expires, err)
		}
	}
}

// findPrefix: runs are found by the beginning of their id, whatever characters it has.
func findPrefix(t *testing.T, s Store) {
	d := s.Open(t)
	write(t, d, newRun("run_aa"), newRun("run_ab"), newRun("run_c"))
	for prefix, want := range map[string]string{
		"": "run_c run_ab run_aa", "run_": "run_c run_ab run_aa", "run_a": "run_ab run_aa", "run_aa": "run_aa", "run_a%": "", "run_x": "",
		"run_é": "", "é": "", "\U0010FFFF": "",
	} {
		rows, err := d.List(t.Context(), &journal.Filter{IDPrefix: prefix})
		var ids []string
		for i := range rows {
			ids = append(ids, rows[i].ID)
		}
		if got := strings.Join(ids, " "); got != want || err != nil {
			t.Errorf("runs with prefix %q: %s, %v, want %s", prefix, got, err, want)
		}
	}
}

func list(t *testing.T, s Store) {
	d := s.Open(t)
	for i := range 6 {
		w := newRun(fmt.Sprint("run_", i))
		w.Row.Began = start.Add(time.Duration(i) * time.Minute)
		if i > 3 {
			w.Row.Scope = "/etc/onecall.yaml"
		}
		if i%2 == 1 {
			w.Row.Caller, w.Row.Status, w.Row.Chain, w.Row.Functions = "", journal.OK, "nightly", []string{"a.b", "pay.charge"}
		}
		write(t, d, w)
	}
	noCaller, noScope, scope := "", "", "/etc/onecall.yaml"
	for _, test := range []struct {
		name   string
		filter journal.Filter
		want   string
	}{
		{"scope", journal.Filter{Scope: &scope}, "[5 4]"}, {"no scope", journal.Filter{Scope: &noScope}, "[3 2 1 0]"},
		{"scope of a caller", journal.Filter{Scope: &scope, Callers: []string{noCaller}}, "[5]"},
		{"all", journal.Filter{}, "[5 4 3 2 1 0]"}, {"limit", journal.Filter{Limit: 2}, "[5 4]"}, {"caller",
			journal.Filter{Callers: []string{noCaller}}, "[5 3 1]"},
		{"callers", journal.Filter{Callers: []string{noCaller, row("run_x").Caller}, Limit: 3}, "[5 4 3]"},
		{"callers, one unknown", journal.Filter{Callers: []string{"nobody", noCaller}, Status: journal.OK}, "[5 3 1]"},
		{"status", journal.Filter{Status: journal.Running}, "[4 2 0]"}, {"chain", journal.Filter{Chains: []string{"nightly"}, Limit: 1}, "[5]"},
		{"chains", journal.Filter{Chains: []string{"none", "nightly"}, Limit: 1}, "[5]"},
		{"function", journal.Filter{Function: "pay.charge"}, "[5 3 1]"}, {"part of a name", journal.Filter{Function: "pay"}, "[]"},
		{"since", journal.Filter{Since: start.Add(4 * time.Minute)}, "[5 4]"}, {"until", journal.Filter{Until: start.Add(2 * time.Minute)},
			"[1 0]"},
		{"all of them", journal.Filter{Callers: []string{noCaller}, Status: journal.OK, Function: "a.b", Since: start.Add(2 * time.Minute), Limit: 5},
			"[5 3]"},
	} {
		rows, err := d.List(t.Context(), &test.filter)
		ids := []string{}
		for _, r := range rows {
			ids = append(ids, r.ID[len("run_"):])
		}
		if fmt.Sprint(ids) != test.want || err != nil {
			t.Errorf("%s: %v, %v", test.name, ids, err)
		}
	}
}

func days(t *testing.T, s Store) {
	d := s.Open(t)
	day := func(at time.Time, function string, took ...time.Duration) journal.Day {
		sum := journal.Day{Day: journal.DayOf(at), Caller: "token:ci", Chain: "nightly", Function: function, Count: int64(len(took)),
			Failures: 1, Calls: 2, Tokens: 3,
			Stored: 4, Times: journal.Times{}}
		for _, t := range took {
			sum.Times.Count(t)
			sum.Sizes.Count(int(t / time.Microsecond))
		}
		return sum
	}
	w := newRun("run_a")
	w.Days = []journal.Day{day(start, "a.b", time.Millisecond, time.Second), day(start, "", time.Second)}
	again := journal.Write{ID: "run_a", Lease: 1,
		Days: []journal.Day{day(start, "a.b", time.Millisecond), day(start.AddDate(0, 0, 1), "a.b", time.Hour)}}
	write(t, d, w, again)
	for want, names := range map[int][]string{3: nil, 2: {"none", "a.b"}, 0: {"none"}} {
		if of, err := d.Days(t.Context(), &journal.Filter{Functions: names}); len(of) != want || err != nil {
			t.Errorf("%d days of the functions %v, want %d: %v", len(of), names, want, err)
		}
	}
	got, err := d.Days(t.Context(), &journal.Filter{Function: "a.b", Until: start})
	if err != nil || len(got) != 1 {
		t.Fatalf("days %+v, %v", got, err)
	}
	if g := got[0]; g.Count != 3 || g.Failures != 2 || g.Calls != 4 || g.Tokens != 6 || g.Stored != 8 || g.Day != "2026-03-01" ||
		g.Caller != "token:ci" || g.Chain != "nightly" {
		t.Errorf("day %+v", g)
	}
	near := func(got, want time.Duration) bool { return got > want*9/10 && got < want*11/10 }
	if sizes := got[0].Sizes; len(sizes) != 2 || sizes[0].Count != 2 || sizes[1].Count != 1 || !near(time.Duration(sizes.Likely()), 1000) {
		t.Errorf("sizes %v, of which %d is likely, want two of 1,000 and one of 1,000,000", sizes, sizes.Likely())
	}
	if times := got[0].Times; !near(times.Quantile(0.5), time.Millisecond) || !near(times.Quantile(0.95), time.Second) {
		t.Errorf("p50 %v, p95 %v", times.Quantile(0.5), times.Quantile(0.95))
	}
	noCaller := ""
	for _, test := range []struct {
		filter journal.Filter
		want   int
	}{{journal.Filter{}, 3}, {journal.Filter{Since: start.AddDate(0, 0, 1)}, 1}, {journal.Filter{Callers: []string{noCaller}},
		0}, {journal.Filter{Chains: []string{"none", "nightly"}}, 3}} {
		if got, err := d.Days(t.Context(), &test.filter); len(got) != test.want || err != nil {
			t.Errorf("%+v: %d days, %v", test.filter, len(got), err)
		}
	}
	if err := d.Expire(t.Context(), start, start.AddDate(0, 0, 1)); err != nil {
		t.Fatal(err)
	}
	if got, _ := d.Days(t.Context(), &journal.Filter{}); len(got) != 1 {
		t.Errorf("%d days after Expire, want 1", len(got))
	}
}
