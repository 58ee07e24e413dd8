package peers

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

func TestRatios(t *testing.T) {
	t.Parallel()
	if got := report.Quantile([]float64{9, 1, 5}, 0.5); got != 5 {
		t.Errorf("quantile returns %v, want 5", got)
	}
	if got := ratios([]float64{1, 6, 9}, []float64{2, 2}); !slices.Equal(got, []float64{0.5, 3}) {
		t.Errorf("ratios returns %v, want [0.5 3]", got)
	}
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	program := workByKey("dependent3").programs[javascript]
	const function = "async () => {\n  let n = 0\n  for (let i = 0; i < 3; i++) n = (await codemode.bench_next({n})).n\n  return n\n}"
	if got := cloudflareProgram(program); got != function {
		t.Errorf("cloudflareProgram returns %s, want %s", got, function)
	}
	if got := utcpProgram(program); got != "let n = 0\nfor (let i = 0; i < 3; i++) n = (m.bench_next({n})).n\nreturn n" {
		t.Errorf("utcpProgram returns %s, want the three lines of the program", got)
	}
	for _, w := range works {
		for _, p := range arms {
			if !p.can(&w) {
				continue
			}
			text := string(p.written(&w))
			if p.language != oneByOne && strings.Contains(text, "%") {
				t.Errorf("%s, %s: the program has an unused %%: %s", w.key, p.key, text)
			}
			for line := range strings.Lines(text) {
				if !json.Valid([]byte(line)) || !strings.HasPrefix(line, `{"name":`) {
					t.Errorf("%s, %s: a line is not a call: %s", w.key, p.key, line)
				}
			}
		}
	}
}

// bareArm returns an arm without processes, and a work that it does with f.
func bareArm(clients int, f func(context.Context, *harness.Session) (any, error)) (*running, *work) {
	w := &work{key: "test", want: "1", clients: clients, bare: f}
	sessions := make([]*harness.Session, max(1, clients))
	return &running{arm: &arm{language: oneByOne}, sessions: sessions, results: map[string]*result{"test": {}}}, w
}

func TestBlock(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	a, w := bareArm(4, func(context.Context, *harness.Session) (any, error) {
		calls.Add(1)
		return 1, nil
	})
	a.block(t.Context(), w, 0, false)
	if r := a.results["test"]; calls.Load() != 4 || len(r.took) != 0 {
		t.Errorf("warming up: %d calls, want 4, and %+v, want no results", calls.Load(), r)
	}
	a.block(t.Context(), w, 0, true)
	if r := a.results["test"]; len(r.took) != 4 || len(r.medians) != 1 || len(r.rates) != 1 || r.errors != 0 {
		t.Errorf("got %+v, want 4 times, a median and a rate", r)
	}
}

// TestWrongAnswers: an arm that answers wrongly is reported, and gets no more work after maxErrors.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]func(context.Context, *harness.Session) (any, error){
		"wrong answer: 2, not 1": func(context.Context, *harness.Session) (any, error) { return 2, nil },
		"out of order":           func(context.Context, *harness.Session) (any, error) { return 0, errors.New("out of\norder") },
	} {
		a, w := bareArm(0, f)
		a.block(t.Context(), w, time.Hour, true)
		r, why := a.result(w)
		if r != nil || why != "failed: "+want || a.results["test"].errors != maxErrors {
			t.Errorf("got %+v, %s, want the failure after %d errors", a.results["test"], why, maxErrors)
		}
	}
}

// measuredRun returns a run whose arms took that many milliseconds at all works; 0: not measured.
func measuredRun(e era, took map[string]int) *era {
	for j := range arms {
		a := &running{arm: &arms[j], results: map[string]*result{}}
		for i := range works {
			if ms := took[a.key]; ms > 0 && a.can(&works[i]) {
				took := []float64{float64(ms)}
				a.results[works[i].key] = &result{took: took, medians: took, rates: []float64{1000 / float64(ms)}}
			}
		}
		e.arms = append(e.arms, a)
	}
	return &e
}

func TestFigures(t *testing.T) {
	t.Parallel()
	e := measuredRun(*eras[1], map[string]int{"bare": 10, "onecall": 5, "vmcp": 20, "cloudflare": 25, "aiSDK": 50, "utcp": 40})
	got := map[string]float64{}
	for _, f := range e.figures(false) {
		got[f.Name] = f.Value
	}
	for name, want := range map[string]float64{
		"dependent10/bare/sessions": 0.5, "dependent10/fastest-peer/sessions": 0.25, "empty/fastest-peer/sessions": 0.25,
		"dependent10/vmcp/sessions": 0.25, "noop10/fastest-peer/sessions": 0.2, "clients16/fastest-peer/sessions": 4,
	} {
		if got[name] != want {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
	if warnings := e.notFirst(); len(warnings) != 0 {
		t.Errorf("got warnings %v, want none: onecall is first", warnings)
	}
}

// TestFiguresWithoutPeer: if a peer is missing, there is no figure against the fastest peer, which the missing one may be.
func TestFiguresWithoutPeer(t *testing.T) {
	t.Parallel()
	e := measuredRun(*eras[0], map[string]int{"bare": 4, "onecall": 5, "cloudflare": 25, "aiSDK": 50, "utcp": 40})
	var names []string
	for _, f := range e.figures(false) {
		names = append(names, f.Name)
	}
	if !slices.Equal(names, []string{"dependent10/bare", "noop10/fastest-peer", "empty/cloudflare", "dependent10/cloudflare"}) {
		t.Errorf("got figures %v, want the bare client, the fastest peer, and cloudflare twice", names)
	}
	if warnings := e.notFirst(); len(warnings) == 0 || !strings.Contains(warnings[0], "bare SDK client takes 0.80 of its time") {
		t.Errorf("got warnings %v, want that the bare client is first, in 0.80 of the time", warnings)
	}
	times := e.times()
	if cells := times.Rows[2].Cells; cells[0].Text != "–" || times.Rows[1].Cells[0].Value != 5 {
		t.Errorf("got times %+v, want – in the first cell of row 2, and 5 in that of row 1", times.Rows)
	}
}

func TestTaskTables(t *testing.T) {
	t.Parallel()
	b := &harness.Bench{Section: &report.Section{}}
	const output = `{"arms":{"bare":{"task":{"fault":"no\nserver"},"failure":{},"mistake":{},"dependent":{"fastest":2}},
"onecall":{"task":{"list":561},"failure":{"files":5,"writtenAgain":0,"saysWhere":true,"saysWhatWasWritten":"by place: 0-4"},"mistake":{"files":0},
"dependent":{"fastest":3}}}}`
	reportTasks(b, taskArms(), []byte(output), 7)
	task, failure, times := b.Tables[0], b.Tables[1], b.Tables[2]
	if c := task.Rows[0].Cells; c[0].Text != "failed: no server" || c[4].Text != "–" {
		t.Errorf("got cells %+v of a failed arm, want failed: no server, and –", c)
	}
	if c := task.Rows[1].Cells[0]; c.Value != 561 || c.Unit != "tokens" {
		t.Errorf("got cell %+v, want 561 tokens", c)
	}
	if c := task.Rows[2].Cells[0]; c.Text != "failed: not measured" {
		t.Errorf("got cell %+v of a missing arm, want failed: not measured", c)
	}
	if c := failure.Rows[1].Cells; c[0].Text != "yes" || c[2].Text != "by place: 0-4" || c[3].Text != "0 of 5" {
		t.Errorf("got cells %+v of a failure, want yes, by place: 0-4, and 0 of 5", c)
	}
	values := map[string]float64{}
	for _, f := range b.Figures {
		values[f.Name] = f.Value
	}
	if values["failure/told"] != 3 || values["failure/written-again"] != 0 || values["tokens/onecall"] != 561 || values["stdio/bare"] != 1.5 {
		t.Errorf("got figures %v, want told 3, written again 0, 561 tokens, stdio 1.5", values)
	}
	if c := times.Rows[1].Cells[1]; c.Value != 1.5 || times.Columns[1] != "fastest of 7 rounds" {
		t.Errorf("got times %+v, want 1.5, the fastest of 7 rounds", times)
	}
	if err := harness.Try(func() { reportTasks(b, taskArms(), []byte(`{"arms":{"onecall":{"task":{"fault":"late"}}}}`), 7) }); err == nil {
		t.Error("a failure of onecall is no error of the section")
	}
}
