package report_test

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

var update = flag.Bool("update", false, "write the golden file again")

// small is a section with everything that a section can have.
func small() *report.Section {
	measured, computed := report.Measured, report.Computed
	return &report.Section{
		Name: "small", Title: "Small things", Question: "Are small things small?", Command: report.Command + " -only small", Commit: "abc-dirty",
		Began:    time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Machine:  report.Machine{CPU: "Some CPU", Cores: 2, OS: "linux/amd64", Go: "go1.26.0", Load: 3.5},
		Versions: map[string]string{"zeta": "2.0.0", "alpha": "1.0.0"}, Corpus: []string{"ten things, made here"},
		Tables: []report.Table{{Title: "Things", Columns: []string{"arm", "time", "tokens"}, Rows: []report.Row{
			{Name: "one", Cells: []report.Cell{{Value: 12.34, Low: 10, High: 20.1, Unit: "ms", How: measured}, report.Count(4453, "tokens")}},
			{Name: "none | at all", Cells: []report.Cell{{Text: "does not install"}, {}}},
			{Name: "zero", Cells: []report.Cell{{How: computed}, {Value: 0.5, Unit: "×", How: computed}}},
		}}},
		Plots: []report.Plot{
			{Name: "small-things", Title: "How small", X: "things", Y: "ms", LogX: true, Lines: []report.Line{
				{Name: "one", Points: [][2]float64{{0, 1}, {10, 2}, {1000, 3}}},
				{Name: "empty"},
			}},
			{Name: "small-bars", Title: "Bars", X: "ms", Bars: []string{"first arm", "other arm"}, Lines: []report.Line{
				{Name: "one", Points: [][2]float64{{0, 1}, {1, 2}}},
				{Name: "two"},
			}},
		},
		Figures: []report.Figure{
			{Name: "time/bare", Title: "time against bare", Value: 0.5, Low: 0.4, High: 0.55, Unit: "×", How: computed, Max: 0.8},
			{Name: "near", Title: "close to what is asked", Value: 0.5, Low: 0.4, High: 0.6, Rounds: 25, How: computed, Max: 0.47},
			{Name: "rate", Title: "things a second", Value: 90, How: measured, Min: 100, Why: "The test asks for more."},
			{Name: "tokens", Title: "tokens of all", Value: 4453, How: measured},
			{Name: "free", Title: "not compared", Value: 1, How: measured},
		},
		Comments: []string{"The rate is low because of the test."},
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	got := report.Markdown([]*report.Section{small()}, "results/")
	const golden = "testdata/RESULTS.golden"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the page differs from %s: update it with go test -update\n%s", golden, got)
	}
}

func TestMachines(t *testing.T) {
	t.Parallel()
	one, other := small(), small()
	other.Title, other.Machine.CPU, other.Machine.Load = "Other things", "Other CPU", -1
	page := string(report.Markdown([]*report.Section{one, other}, ""))
	for _, want := range []string{
		"- On 2026-01-02 with 2 cores of Some CPU",
		"- On 2026-01-02 with 2 cores of Other CPU",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(page, "The machine was busy"); n != 1 {
		t.Errorf("%d sections have the warning of a busy machine, want 1", n)
	}
	one.Command += report.ShortFlag
	if short := string(report.Markdown([]*report.Section{one}, "")); strings.Contains(page, "not comparable") ||
		!strings.Contains(short, "not comparable") {
		t.Error("\"not comparable\" must appear for the short form only")
	}
}

// TestCounts: a section of a test names that test, and no machine.
func TestCounts(t *testing.T) {
	t.Parallel()
	counted := small()
	counted.Title, counted.Machine, counted.Command = "Counted things", report.Machine{}, "go test ./things -update"
	page := string(report.Markdown([]*report.Section{small(), counted}, ""))
	_, after, _ := strings.Cut(page, "## Counted things")
	if !strings.Contains(after, "held by a test: `go test ./things -update`") || strings.Contains(after, "Began at") {
		t.Errorf("the section lacks its test, or names a machine:\n%s", after)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := small()
	if err := s.Write(folder); err != nil {
		t.Fatal(err)
	}
	all, err := report.ReadAll([]string{"absent", "small"}, folder, t.TempDir())
	if err != nil || len(all) != 1 {
		t.Fatalf("read %d sections, want 1: %v", len(all), err)
	}
	if want := report.Markdown([]*report.Section{s}, ""); !bytes.Equal(report.Markdown(all, ""), want) {
		t.Error("the sections that were read differ from those written")
	}
	if err := all[0].WritePlots(folder); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(filepath.Join(folder, "small-things.svg"))
	if err != nil || !bytes.Contains(svg, []byte("How small")) || !bytes.Contains(svg, []byte("1,000")) {
		t.Errorf("the plot lacks its title or axis: %.300s: %v", svg, err)
	}
	if svg, err = os.ReadFile(filepath.Join(folder, "small-bars.svg")); err != nil || !bytes.Contains(svg, []byte("other arm")) {
		t.Errorf("the plot of bars lacks an arm: %.300s: %v", svg, err)
	}
	if err := os.WriteFile(filepath.Join(folder, "small.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := report.ReadAll([]string{"small"}, folder); err == nil || !strings.Contains(err.Error(), "small.json") {
		t.Errorf("reading a broken file: got error %v, want one that names small.json", err)
	}
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*report.Section){
		"two figures": func(s *report.Section) { s.Figures = append(s.Figures, s.Figures[0]) },
		"NaN":         func(s *report.Section) { s.Figures[0].Value = math.NaN() },
		"neither":     func(s *report.Section) { s.Figures[0].How = "" },
		"has 1 cells": func(s *report.Section) { s.Tables[0].Rows[0].Cells = s.Tables[0].Rows[0].Cells[:1] },
	} {
		s := small()
		change(s)
		if err := s.Write(t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ values, want []float64 }{
		{nil, []float64{0, 0, 0}},
		{[]float64{7}, []float64{7, 7, 7}},
		{[]float64{3, 1}, []float64{2, 1.2, 2.8}},
		{[]float64{11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, []float64{6, 2, 10}},
	} {
		median, low, high := report.Spread(test.values)
		for i, got := range []float64{median, low, high} {
			if d := got - test.want[i]; d > 1e-9 || d < -1e-9 {
				t.Errorf("Spread(%v) = %v, %v, %v, want %v", test.values, median, low, high, test.want)
			}
		}
	}
}

// TestPlots draws what is hard on a logarithmic axis: one value alone, zeros, and nothing.
func TestPlots(t *testing.T) {
	t.Parallel()
	for name, points := range map[string][][2]float64{
		"alone": {{1, 1}}, "flat": {{10, 1}, {1000, 1}}, "zeros": {{0, 0}, {10, 0}}, "none": nil, "wide": {{1, 1e-6}, {1e6, 1e9}},
	} {
		for _, log := range []bool{false, true} {
			s := &report.Section{Plots: []report.Plot{{Name: name, LogX: log, LogY: log, Lines: []report.Line{{Name: "line", Points: points}}}}}
			folder := t.TempDir()
			if err := s.WritePlots(folder); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if svg, err := os.ReadFile(filepath.Join(folder, name+".svg")); err != nil || !bytes.Contains(svg, []byte("</svg>")) ||
				bytes.Contains(svg, []byte("NaN")) {
				t.Errorf("%s, logarithmic %v: got %.200s (%v), want a whole SVG without NaN", name, log, svg, err)
			}
		}
	}
}
