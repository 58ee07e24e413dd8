package journaltest

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// parts: the parts of a batch are listed and counted by their parent. A batch is running although no process has its lease.
func parts(t *testing.T, s Store) {
	d, other := s.Open(t), s.Open(t)
	add := func(id, parent string, minute int, status journal.Status, release bool) {
		w := newRun("run_" + id)
		w.Row.Parent, w.Row.Status, w.Row.Began = parent, status, start.Add(time.Duration(minute)*time.Minute)
		w.Row.Batch = id[0] == 'b'
		w.Release = release
		write(t, d, w)
	}
	add("b1", "", 0, journal.Running, true)
	add("b2", "", 1, journal.OK, true)
	add("alone", "", 2, journal.OK, true)
	add("p1", "run_b1", 3, journal.OK, true)
	add("p2", "run_b1", 4, journal.Failed, true)
	add("p3", "run_b1", 5, journal.Running, false)
	add("p4", "run_b1", 6, journal.Running, true)
	add("p5", "run_b1", 7, journal.OK, true)
	add("p6", "run_b2", 8, journal.Waiting, true)
	add("b3", "run_b2", 9, journal.Running, true)
	for _, test := range []struct {
		parent string
		filter journal.Filter
		want   string
	}{
		{"", journal.Filter{}, "[alone:ok b2:ok b1:running]"},
		{"", journal.Filter{NotOK: true}, "[b1:running]"},
		{"", journal.Filter{Limit: 1}, "[alone:ok]"},
		{"run_b1", journal.Filter{}, "[p5:ok p4:interrupted p3:running p2:failed p1:ok]"},
		{"run_b1", journal.Filter{NotOK: true}, "[p4:interrupted p3:running p2:failed]"},
		{"run_b1", journal.Filter{NotOK: true, Limit: 2}, "[p4:interrupted p3:running]"},
		{"run_b1", journal.Filter{Status: journal.Interrupted}, "[p4:interrupted]"},
		{"run_b1", journal.Filter{Status: journal.OK, Function: "fs.read"}, "[p5:ok p1:ok]"},
		{"run_b1", journal.Filter{NotOK: true, Function: "a.b"}, "[]"},
		{"run_b2", journal.Filter{}, "[b3:running p6:waiting]"},
		{"run_none", journal.Filter{}, "[]"},
	} {
		test.filter.Parent = &test.parent
		rows, err := other.List(t.Context(), &test.filter)
		got := []string{}
		for _, r := range rows {
			got = append(got, r.ID[len("run_"):]+":"+string(r.Status))
			if r.Parent != test.parent || r.Batch != (r.ID[len("run_")] == 'b') {
				t.Errorf("part %+v, want the parent %q", r, test.parent)
			}
		}
		if fmt.Sprint(got) != test.want || err != nil {
			t.Errorf("%q, %+v: %v, %v", test.parent, test.filter, got, err)
		}
	}
	if row := load(t, other, "run_p1").Row; row.Parent != "run_b1" || row.Batch {
		t.Errorf("row of a part: %+v", row)
	}
	wantParts := func(want map[string]journal.Parts, runs ...string) {
		t.Helper()
		got, err := other.Parts(t.Context(), runs)
		if err != nil || !maps.EqualFunc(got, want, maps.Equal[journal.Parts, journal.Parts]) {
			t.Errorf("Parts of %v: %v, %v", runs, got, err)
		}
	}
	first := journal.Parts{journal.OK: 2, journal.Failed: 1, journal.Running: 1, journal.Interrupted: 1}
	wantParts(map[string]journal.Parts{"run_b1": first, "run_b2": {journal.Waiting: 1, journal.Running: 1}}, "run_b1", "run_b2", "run_alone")
	wantParts(map[string]journal.Parts{"run_b1": first}, "run_b1")
	wantParts(map[string]journal.Parts{}, "", "run_none", "'; --\x00\xff")

	ended := load(t, other, "run_p3").Row
	ended.Status = journal.OK
	write(t, d, journal.Write{ID: "run_p3", Lease: 1, Row: &ended, Release: true})
	wantParts(map[string]journal.Parts{"run_b1": {journal.OK: 3, journal.Failed: 1, journal.Interrupted: 1}}, "run_b1")
	if err := d.Expire(t.Context(), start.Add(2*time.Hour), start); err != nil {
		t.Fatal(err)
	}
	wantParts(map[string]journal.Parts{}, "run_b1", "run_b2")
}

// atWorkers: the runs that workers may have are listed: those that were handed to them, or may have been, and that have neither ended nor
// wait for approval.
func atWorkers(t *testing.T, s Store) {
	d := s.Open(t)
	add := func(id string, handover int64, status journal.Status, code fault.Code, release bool) {
		w := newRun("run_" + id)
		w.Row.HandoverLease, w.Row.Status, w.Row.Code, w.Release = handover, status, code, release
		write(t, d, w)
	}
	add("waits", 1, journal.Waiting, "", true)
	add("runs", 1, journal.Running, "", false)
	add("interrupted", 2, journal.Running, "", true)
	add("unknown", -1, journal.Waiting, "", true)
	add("here", 0, journal.Running, "", false)
	add("pauses", 0, journal.Waiting, "", true)
	add("approval", 1, journal.Waiting, fault.ApprovalRequired, true)
	add("failed", 1, journal.Failed, fault.Timeout, true)
	add("ok", 1, journal.OK, "", true)
	add("undone", 1, journal.Undone, "", true)
	mine, others := "token:ci", "token:other"
	for _, test := range []struct {
		filter journal.Filter
		want   string
	}{
		{journal.Filter{}, "[unknown interrupted runs waits]"},
		{journal.Filter{Callers: []string{mine}}, "[unknown interrupted runs waits]"},
		{journal.Filter{Callers: []string{mine}, Limit: 2}, "[unknown interrupted]"},
		{journal.Filter{Status: journal.Waiting}, "[unknown waits]"},
		{journal.Filter{Callers: []string{others}}, "[]"},
	} {
		test.filter.AtWorkers = true
		rows, err := d.List(t.Context(), &test.filter)
		got := []string{}
		for i := range rows {
			got = append(got, rows[i].ID[len("run_"):])
		}
		if fmt.Sprint(got) != test.want || err != nil {
			t.Errorf("%+v: %v, %v, want %s", test.filter, got, err, test.want)
		}
	}
	ended := load(t, d, "run_runs").Row
	ended.HandoverLease = 0
	write(t, d, journal.Write{ID: "run_runs", Lease: 1, Row: &ended})
	if rows, err := d.List(t.Context(), &journal.Filter{AtWorkers: true}); len(rows) != 3 || err != nil {
		t.Errorf("%d runs after one was changed, want 3: %v", len(rows), err)
	}
}
