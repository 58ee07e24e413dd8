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

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestRatios(t *testing.T) {
	t.Parallel()
	if got := quantile([]float64{9, 1, 5}, 0.5); got != 5 {
		t.Errorf("the median: %v", got)
	}
	if got := ratios([]float64{1, 6, 9}, []float64{2, 2}); !slices.Equal(got, []float64{0.5, 3}) {
		t.Errorf("ratios: %v", got)
	}
}

func TestRound(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]float64{0: 0, 0.012345: 0.0123, 1.2345: 1.23, 12.345: 12.3, 123.45: 123, 12345: 12300} {
		if got := round(v); got != want {
			t.Errorf("%v becomes %v, want %v", v, got, want)
		}
	}
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	program := workByKey("dependent3").programs[javascript]
	const function = "async () => {\n  let n = 0\n  for (let i = 0; i < 3; i++) n = (await codemode.bench_next({n})).n\n  return n\n}"
	if got := cloudflareProgram(program); got != function {
		t.Errorf("Cloudflare: %s", got)
	}
	if got := utcpProgram(program); got != "let n = 0\nfor (let i = 0; i < 3; i++) n = (m.bench_next({n})).n\nreturn n" {
		t.Errorf("UTCP: %s", got)
	}
	for _, w := range works {
		for _, p := range peers {
			a := &arm{peer: p}
			if !a.can(&w) {
				continue
			}
			text := string(a.callText(&w))
			if p.language != oneByOne && strings.Contains(text, "%") {
				t.Errorf("%s, %s: %s", w.key, p.key, text)
			}
			for line := range strings.Lines(text) {
				if !json.Valid([]byte(line)) || !strings.HasPrefix(line, `{"name":`) {
					t.Errorf("%s, %s is no call: %s", w.key, p.key, line)
				}
			}
		}
	}
}

// bareArm is an arm without processes, and a work that it does by f.
func bareArm(clients int, f func(context.Context, *sdk.ClientSession) (any, error)) (*arm, *work) {
	w := &work{key: "test", want: "1", clients: clients, bare: f}
	sessions := make([]*sdk.ClientSession, max(1, clients))
	return &arm{peer: peer{language: oneByOne}, sessions: sessions, results: map[string]*result{"test": {}}}, w
}

func TestBlock(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	a, w := bareArm(4, func(context.Context, *sdk.ClientSession) (any, error) {
		calls.Add(1)
		return 1, nil
	})
	a.block(t.Context(), w, 0, false)
	if r := a.results["test"]; calls.Load() != 4 || len(r.took) != 0 {
		t.Errorf("to warm up: %d calls, %+v", calls.Load(), r)
	}
	a.block(t.Context(), w, 0, true)
	if r := a.results["test"]; len(r.took) != 4 || len(r.medians) != 1 || len(r.rates) != 1 || r.errors != 0 {
		t.Errorf("%+v", r)
	}
}

// TestWrongAnswers has an arm that answers wrongly, which is told and not asked forever.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]func(context.Context, *sdk.ClientSession) (any, error){
		"wrong answer: 2, not 1": func(context.Context, *sdk.ClientSession) (any, error) { return 2, nil },
		"out of order":           func(context.Context, *sdk.ClientSession) (any, error) { return 0, errors.New("out of\norder") },
	} {
		a, w := bareArm(0, f)
		a.block(t.Context(), w, time.Hour, true)
		r, why := a.result(w)
		if r != nil || why != "failed: "+want || a.results["test"].errors != maxErrors {
			t.Errorf("%+v, %s", a.results["test"], why)
		}
	}
}

// measuredEra has arms that took so many milliseconds at all works; 0 is not measured.
func measuredEra(protocol string, took map[string]int) *era {
	e := &era{protocol: protocol}
	for _, p := range peers {
		a := &arm{peer: p, results: map[string]*result{}}
		for i := range works {
			if ms := took[p.key]; ms > 0 && a.can(&works[i]) {
				took := []float64{float64(ms)}
				a.results[works[i].key] = &result{took: took, medians: took, rates: []float64{1000 / float64(ms)}}
			}
		}
		e.arms = append(e.arms, a)
	}
	return e
}

func TestFigures(t *testing.T) {
	t.Parallel()
	e := measuredEra(withSessions, map[string]int{"bare": 10, "onecall": 5, "vmcp": 20, "cloudflare": 25, "aiSDK": 50, "utcp": 40})
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
		t.Errorf("onecall is first: %v", warnings)
	}
}

// TestFiguresWithoutAnotherProgram has no figure against the fastest peer when the fastest may be missing.
func TestFiguresWithoutAnotherProgram(t *testing.T) {
	t.Parallel()
	e := measuredEra(stateless, map[string]int{"bare": 4, "onecall": 5, "cloudflare": 25, "aiSDK": 50, "utcp": 40})
	var names []string
	for _, f := range e.figures(false) {
		names = append(names, f.Name)
	}
	if !slices.Equal(names, []string{"dependent10/bare", "noop10/fastest-peer", "empty/cloudflare", "dependent10/cloudflare"}) {
		t.Errorf("%v", names)
	}
	if warnings := e.notFirst(); len(warnings) == 0 || !strings.Contains(warnings[0], "bare SDK client takes 0.80 of its time") {
		t.Errorf("the bare client is first: %v", warnings)
	}
	times := e.times()
	if cells := times.Rows[2].Cells; cells[0].Text != "–" || times.Rows[1].Cells[0].Value != 5 {
		t.Errorf("%+v", times.Rows)
	}
}

func TestTaskTables(t *testing.T) {
	t.Parallel()
	m := &taskResults{Arms: map[string]*armTasks{"bare": {}, "onecall": {}}}
	m.Arms["onecall"].Task.List = 561
	m.Arms["onecall"].Failure.Files = 5
	m.Arms["onecall"].Failure.SaysWhere, m.Arms["onecall"].Failure.SaysWhatWasWritten = true, "by place: 0-4"
	m.Arms["onecall"].Dependent.Fastest, m.Arms["bare"].Dependent.Fastest = 3, 2
	m.Arms["bare"].Task.Fault = "no\nserver"
	section := tasksSection(m, 7, func(string) string { return "1" })
	task, failure, times := section.Tables[0], section.Tables[1], section.Tables[2]
	if c := task.Rows[0].Cells; c[0].Text != "failed: no server" || c[4].Text != "–" {
		t.Errorf("an arm that failed: %+v", c)
	}
	if c := task.Rows[1].Cells[0]; c.Value != 561 || c.Unit != "tokens" {
		t.Errorf("tokens: %+v", c)
	}
	if c := task.Rows[2].Cells[0]; c.Text != "failed: not measured" {
		t.Errorf("an arm that is missing: %+v", c)
	}
	if c := failure.Rows[1].Cells; c[0].Text != "yes" || c[2].Text != "by place: 0-4" || c[3].Text != "0 of 5" {
		t.Errorf("a failure: %+v", c)
	}
	values := map[string]float64{}
	for _, f := range section.Figures {
		values[f.Name] = f.Value
	}
	if values["failure/told"] != 3 || values["failure/written-again"] != 0 || values["tokens/onecall"] != 561 || values["stdio/bare"] != 1.5 {
		t.Errorf("figures: %v", values)
	}
	if c := times.Rows[1].Cells[1]; c.Value != 1.5 || times.Columns[1] != "fastest of 7 rounds" {
		t.Errorf("times: %+v", times)
	}
}
