package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// TestPage holds bench/RESULTS.md to the files of bench/results.
func TestPage(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	all, err := report.ReadAll(names(sections), filepath.Join(root, "bench/results"), filepath.Join(root, countsFolder))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "bench/RESULTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page, report.Markdown(all, "results/")) {
		t.Errorf("bench/RESULTS.md is out of date: run %s -render", report.Command)
	}
	if bytes.Contains(page, []byte("**no** |")) {
		t.Error("a figure in bench/RESULTS.md misses its target without a reason: give it a Why")
	}
	for _, s := range all {
		for _, p := range s.Plots {
			if _, err := os.Stat(filepath.Join(root, "bench/results", p.Name+".svg")); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-only nothing":  `unknown section "nothing"`,
		"-render -check": "give one of them",
		"peers":          "unexpected argument",
		"-data nowhere":  "-data nowhere: none of nestful_math.jsonl, taubench.jsonl",
		"-data .":        "-data .: none of",
		// A file has the name of the folder for the results.
		"-only scale -out main.go": "main.go: not a directory",
	} {
		if err := compare(t.Context(), strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

func TestSelectSections(t *testing.T) {
	t.Parallel()
	if some, err := selectSections("tasks, scale"); err != nil || strings.Join(names(some), " ") != "tasks scale" {
		t.Errorf("selectSections: got %v, %v, want tasks and scale", names(some), err)
	}
}

// TestChecked measures a section in which a different figure is worse each time, so that none counts as worse.
func TestChecked(t *testing.T) {
	t.Parallel()
	committed, results := t.TempDir(), t.TempDir()
	write := func(folder string, values ...float64) {
		s := &report.Section{Name: "made"}
		for i, v := range values {
			s.Figures = append(s.Figures, report.Figure{Name: fmt.Sprint(i), Value: v, How: report.Measured, Tolerance: 0.1})
		}
		if err := s.Write(folder); err != nil {
			t.Fatal(err)
		}
	}
	write(committed, 1, 1, 1)
	for _, test := range []struct {
		runs  [][]float64 // the figures of each measurement
		wrong string
	}{
		{[][]float64{{1, 1, 1}}, ""},
		{[][]float64{{2, 1, 1}, {1, 2, 1}}, ""},
		{[][]float64{{2, 2, 1}, {2, 1, 1}, {1, 2, 2}}, ""},
		{[][]float64{{2, 2, 1}, {2, 1, 1}, {2, 2, 2}}, "1 figures are worse beyond their tolerance:\nmade/0"},
	} {
		next := 0
		c := &comparison{}
		c.Log = t.Logf
		c.sections = []section{{name: "made", run: func(context.Context, *report.Options) (*report.Section, error) {
			write(results, test.runs[next]...)
			next++
			all, err := report.ReadAll([]string{"made"}, results)
			return all[0], err
		}}}
		if err := c.measure(t.Context(), c.sections, results); err != nil {
			t.Fatal(err)
		}
		err := c.checkFigures(t.Context(), committed, results)
		if next != len(test.runs) || (test.wrong == "") != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), test.wrong) {
			t.Errorf("%v: %d measurements, %v, want %q", test.runs, next, err, test.wrong)
		}
	}
}

// TestWorse compares files of results: with a figure that is worse, with one that only the long form measures, and without figures.
func TestWorse(t *testing.T) {
	t.Parallel()
	var logged strings.Builder
	c := &comparison{sections: sections[:1]}
	c.Log = func(format string, args ...any) { fmt.Fprintf(&logged, format+"\n", args...) }
	write := func(figures ...report.Figure) string {
		folder := t.TempDir()
		if err := (&report.Section{Name: "peers", Figures: figures}).Write(folder); err != nil {
			t.Fatal(err)
		}
		return folder
	}
	figure := func(name string, value float64) report.Figure {
		return report.Figure{Name: name, Value: value, How: report.Measured, Tolerance: 0.1}
	}
	before := write(figure("one", 1), figure("memory/vmcp", 1))
	if _, err := c.worse(before, write(figure("one", 1))); err == nil || !strings.HasSuffix(err.Error(), "not measured: peers/memory/vmcp") {
		t.Errorf("worse with a missing figure: got error %v, want not measured: peers/memory/vmcp", err)
	}
	logged.Reset()
	c.Short = true
	worse, err := c.worse(before, write(figure("one", 2)))
	if err != nil || len(worse) != 1 || !strings.HasPrefix(worse["peers/one"], "peers/one") {
		t.Errorf("worse returns %q, %v, want peers/one", worse, err)
	}
	if want := "1 of 2 figures compared with those of bench/results\nnot measured in this form: peers/memory/vmcp\n"; logged.String() != want {
		t.Errorf("logged %q, want %q", logged.String(), want)
	}
	if _, err := c.worse(before, write()); err == nil || err.Error() != "no figure was compared" {
		t.Errorf("worse without figures: got error %v, want no figure was compared", err)
	}
}

func TestVariablesToDrop(t *testing.T) {
	t.Parallel()
	environ := []string{"PATH=/bin", "AWS_SECRET_ACCESS_KEY=x", "https_proxy=p", "GOOGLE_API_KEY=y", "GOPROXY=off", "ONECALL_TOKEN=z",
		"ONECALL_TEST_NPM=n", "=C:=C:"}
	if got := variablesToDrop(environ); strings.Join(got, " ") != "AWS_SECRET_ACCESS_KEY GOOGLE_API_KEY ONECALL_TOKEN" {
		t.Errorf("dropped %v, want AWS_SECRET_ACCESS_KEY, GOOGLE_API_KEY and ONECALL_TOKEN", got)
	}
}
