// Package report holds the results of the comparison: one file of bench/results for each section, from which RESULTS.md, its plots and the
// figures in the documents are generated.
package report

import (
	"context"
	"runtime"
	"time"
)

// How a number came about.
const (
	Measured = "measured" // seen in a run
	Computed = "computed" // calculated from measured numbers, by the rule that the section names
)

// Section holds what one part of the comparison has measured. A section is complete or absent: if a part fails, that is an error of the
// run; if a peer fails, its row says so.
type Section struct {
	Name     string            `json:"name"`     // of its file, without .json
	Title    string            `json:"title"`    // of its part of RESULTS.md
	Question string            `json:"question"` // what it answers, and how: a few sentences of Markdown
	Command  string            `json:"command"`  // that measures it again
	Began    time.Time         `json:"began"`    // zero: unknown
	Commit   string            `json:"commit"`   // of the repository, with "-dirty" if its files had changed; "": unknown
	Machine  Machine           `json:"machine"`
	Versions map[string]string `json:"versions"` // of what took part
	Corpus   []string          `json:"corpus"`   // what it ran on, and where that comes from
	Tables   []Table           `json:"tables"`
	Plots    []Plot            `json:"plots,omitempty"`
	Figures  []Figure          `json:"figures"` // numbers with limits, quoted ones, and those that must not get worse
	Comments []string          `json:"notes"`   // failures, differences between the arms, reasons why onecall is not first
}

// Machine describes the machine on which a section was measured.
type Machine struct {
	CPU   string  `json:"cpu"`
	Cores int     `json:"cores"`
	OS    string  `json:"os"` // GOOS/GOARCH
	Go    string  `json:"go"`
	Load  float64 `json:"load"` // the load average of the last minute at the start; -1: unknown
}

// Table is a table of RESULTS.md, with a row for each arm or case.
type Table struct {
	Title   string   `json:"title"`
	Columns []string `json:"columns"` // the first is the column of the rows' names
	Rows    []Row    `json:"rows"`
}

// Row is a row, with a cell for each column except the first.
type Row struct {
	Name  string `json:"name"`
	Cells []Cell `json:"cells"`
}

// Cell is a number, or a text in place of one, such as why an arm has no number here.
type Cell struct {
	Value float64 `json:"value,omitempty"`
	Unit  string  `json:"unit,omitempty"` // "ms", "tokens", "MB", "×", …; "": a count
	Low   float64 `json:"low,omitempty"`  // the tenth percentile of the rounds; 0: not reported
	High  float64 `json:"high,omitempty"` // the ninetieth
	How   string  `json:"how,omitempty"`  // Measured or Computed
	Text  string  `json:"text,omitempty"` // in place of a number
}

// Plot is a picture of lines over x, or of bars.
type Plot struct {
	Name  string `json:"name"` // of its SVG file
	Title string `json:"title"`
	X     string `json:"x"` // what the axes show, with the unit
	Y     string `json:"y"`
	LogX  bool   `json:"logX,omitempty"`
	LogY  bool   `json:"logY,omitempty"`
	Lines []Line `json:"lines"`
	// Bars names what the bars are of, such as arms, from the top; empty: a plot of lines. In a plot of bars, a line is a set of bars: each
	// point is an index in Bars and the bar's length, which X describes.
	Bars []string `json:"bars,omitempty"`
}

// Line is one line of a plot.
type Line struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
}

// Figure is a number with a name that is unique in its section, such as "dependent10/bare".
type Figure struct {
	Name      string  `json:"name"`
	Title     string  `json:"title"`
	Value     float64 `json:"value"`
	Unit      string  `json:"unit,omitempty"`
	Low       float64 `json:"low,omitempty"`  // for a ratio by rounds: the tenth percentile; 0: not reported
	High      float64 `json:"high,omitempty"` // and the ninetieth
	Rounds    int     `json:"rounds,omitempty"`
	How       string  `json:"how"`
	Max       float64 `json:"atMost,omitempty"`    // the project's own limit; 0: none
	Min       float64 `json:"atLeast,omitempty"`   // the same, as a minimum
	Why       string  `json:"why,omitempty"`       // a sentence: why the limit is not met
	Tolerance float64 `json:"tolerance,omitempty"` // the share by which a new run may be worse; 0: it is not compared
}

// Options say how a section is run.
type Options struct {
	Root  string // of the repository
	Data  string // the folder with the data sets of real chains; "": there is none
	Tools string // a folder for installed programs, kept from run to run
	Short bool   // the form of CI: fewer rounds, and only what installs fast
	Log   func(format string, args ...any)
}

// Run measures a section.
type Run func(ctx context.Context, o *Options) (*Section, error)

// ThisMachine describes the machine and how busy it is.
func ThisMachine() Machine {
	return Machine{CPU: cpuName(), Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		Load: loadAverage()}
}
