package faults

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// TestFaults lets faults of each kind strike. With onecall no write may be made twice, lost or told wrongly, and each run must go on. A
// program that keeps nothing makes writes twice, which the log must show.
func TestFaults(t *testing.T) {
	t.Parallel()
	tools := t.TempDir()
	for _, a := range chosen([]string{"serve", "run", "loop"}) {
		t.Run(a.key, func(t *testing.T) { // one after the other, as each builds the program
			b := harness.New(&report.Options{Root: "../../../..", Tools: tools, Log: t.Logf}, &report.Section{})
			defer b.Close()
			var r *result
			if err := harness.Try(func() { r = a.measure(t.Context(), b, 50) }); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d runs: %d outcomes were looked up", r.trials, r.asks)
			if bad := r.twice + r.lost + r.wrong + r.stuck; (bad > 0) == a.ours {
				t.Errorf("%d writes twice, %d lost, %d outcomes wrong, %d runs stuck: %q", r.twice, r.lost, r.wrong, r.stuck, r.notes)
			}
		})
	}
}

// invented is a system of a test. Its client makes the calls of the task, or does not, and answers as the test says.
type invented struct {
	loop
	calls  bool
	answer func(*trial) answer
}

func (s *invented) begin(ctx context.Context, t *trial) answer {
	if s.calls {
		s.loop.begin(ctx, t)
	}
	return s.answer(t)
}

func (s *invented) goOn(_ context.Context, t *trial, _ answer) answer { return s.answer(t) }

// TestScores: what a system says is compared with the log, and what it leaves to others is counted.
func TestScores(t *testing.T) {
	t.Parallel()
	tells := func(o outcome) func(*trial) answer {
		return func(t *trial) answer {
			a := answer{told: map[string]outcome{}}
			for _, ref := range t.refs() {
				a.told[ref] = o
			}
			return a
		}
	}
	done := func(a answer) func(*trial) answer { return func(*trial) answer { return a } }
	writes := len((&trial{task: &tasks[1]}).refs())
	for name, c := range map[string]struct {
		system *invented
		want   score
	}{
		"well done":                  {&invented{calls: true, answer: done(answer{done: true})}, score{}},
		"said to be done":            {&invented{answer: done(answer{done: true})}, score{lost: writes}},
		"said to be applied":         {&invented{answer: tells(applied)}, score{lost: (1 + goingOn) * writes, stuck: true}},
		"said not to be applied":     {&invented{calls: true, answer: tells(undone)}, score{wrong: (1 + goingOn) * writes, stuck: true}},
		"said to be unknown":         {&invented{calls: true, answer: tells(unknown)}, score{stuck: true}},
		"looked up, and written new": {&invented{calls: true, answer: done(answer{done: true, asks: 2, rewritten: true})}, score{asks: 2, rewritten: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream()
			defer u.crash()
			b := harness.New(&report.Options{Log: t.Logf}, &report.Section{})
			defer b.Close()
			c.system.bench = b
			trial := &trial{name: "t", task: &tasks[1], system: c.system, upstream: u, fault: fault{kind: &kind{}, at: -1}}
			got := trial.play(t.Context())
			if got.why = ""; got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			r := &result{}
			r.add(got)
			if byItself := !c.want.stuck && c.want.asks+c.want.rewritten == 0; (r.alone == 1) != byItself {
				t.Errorf("a run that goes on by itself: %v, want %v", r.alone == 1, byItself)
			}
		})
	}
}

// TestProgram: a program of the rest takes the ids of what is known, and makes no such call.
func TestProgram(t *testing.T) {
	t.Parallel()
	i := slices.IndexFunc(tasks, func(t task) bool { return t.name == "a rack" })
	trial := &trial{name: "t", task: &tasks[i]}
	got := trial.program(false, map[string]string{"t.1": "host-1", "t.2.0": "disk-1", "t.2.3": "disk-2"})
	for _, want := range []string{`const r1 = {"id": "host-1"}`, `for (const ref of ["t.2.1", "t.2.2"]) await tools.bench_disk_attach({host: r1.id, ref: ref})`,
		`const r4 = await tools.bench_host_create({name: "spare", ref: "t.4"})`} {
		if !strings.Contains(got, want) {
			t.Errorf("the program lacks %s:\n%s", want, got)
		}
	}
	if strings.Contains(got, "db") {
		t.Errorf("the program makes a host again:\n%s", got)
	}
}

// TestKept: the arms that are not measured keep their last results, with the time of these.
func TestKept(t *testing.T) {
	t.Parallel()
	before := &report.Section{Name: "faults", Began: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC), Commit: "abc", Machine: report.Machine{Load: 0.5},
		Versions: map[string]string{"one": "1", "two": "1"}, Comments: []string{"SDK client in a loop: one was applied 2 times", "a remark"}}
	for i, c := range counts {
		before.Figures = append(before.Figures, report.CountFigure("loop/"+c.key, "", 10+i))
	}
	folder := t.TempDir()
	if err := before.Write(folder); err != nil {
		t.Fatal(err)
	}
	b := harness.New(&report.Options{Arms: []string{"run"}, Results: folder},
		&report.Section{Name: "faults"})
	defer b.Close()
	b.Versions["two"] = "2"
	for range 2 { // kept results are kept again
		all := withKept(b, []*result{{arm: chosen(b.Arms)[0], trials: 7}})
		if len(all) != 2 || all[0].key != "run" || all[0].trials != 7 || all[1].key != "loop" || all[1].trials != 10 || all[1].rewritten != 17 {
			t.Fatalf("got %+v", all)
		}
		want := []string{"one was applied 2 times", "measured 2026-05-04 03:02:01 with commit abc, at a load of 0.5"}
		if !slices.Equal(all[1].notes, want) {
			t.Errorf("the notes are %q, want %q", all[1].notes, want)
		}
		b.Tables, b.Plots, b.Figures, b.Comments = nil, nil, nil, nil
		tell(b, all)
		b.Began, b.Commit = time.Now(), "def"
		if err := b.Write(folder); err != nil {
			t.Fatal(err)
		}
	}
	if b.Versions["one"] != "1" || b.Versions["two"] != "2" {
		t.Errorf("the versions are %v, want one of before and two of now", b.Versions)
	}
}

// TestArms: the arms have keys of their own, and onecall is first.
func TestArms(t *testing.T) {
	t.Parallel()
	all, seen := chosen(nil), map[string]bool{}
	for i, a := range all {
		if seen[a.key] || seen[a.name] || a.open == nil {
			t.Errorf("%s: its key or name is that of another arm, or nothing starts it", a.key)
		}
		seen[a.key], seen[a.name] = true, true
		if i > 0 && a.ours && !all[i-1].ours {
			t.Errorf("%s is after %s", a.name, all[i-1].name)
		}
	}
	if err := harness.Try(func() { chosen([]string{"lopo"}) }); err == nil || !strings.Contains(err.Error(), `unknown arm "lopo": use `) {
		t.Errorf("an unknown arm: %v", err)
	}
}

// TestNotHere: an arm of onecall that cannot be installed here is left out. One that fails ends the measurement.
func TestNotHere(t *testing.T) {
	t.Parallel()
	b := harness.New(&report.Options{Log: t.Logf}, &report.Section{})
	defer b.Close()
	fails := func(err error) arm {
		return arm{name: "onecall x", ours: true, open: func(context.Context, *harness.Bench, *upstream) system {
			harness.Check(err)
			return nil
		}}
	}
	var r *result
	if err := harness.Try(func() { r = fails(harness.ErrNotHere).measure(t.Context(), b, 1) }); err != nil || r.fault == "" {
		t.Errorf("not installed: got %+v, %v, want a result that says so", r, err)
	}
	if err := harness.Try(func() { fails(errors.ErrUnsupported).measure(t.Context(), b, 1) }); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("failed: got %v, want the error", err)
	}
}
