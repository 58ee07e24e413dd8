// Package report holds the results of the comparison: one file of bench/results for each section, from which RESULTS.md, its plots and the
// figures in the documents are generated, together with the counts that tests hold in bench/testdata, in the same form.
package report

import (
	"time"
)

// How a number was obtained.
const (
	Measured = "measured" // seen in a run
	Computed = "computed" // calculated from measured numbers, by the rule that the section names
)

// Section holds what one part of the comparison has measured. It is complete or absent: an error while measuring it fails the whole run. If
// only a peer (a product that onecall is compared with) fails, its row says so.
type Section struct {
	Name     string            `json:"name"`     // the name of its file, without .json
	Title    string            `json:"title"`    // its heading in RESULTS.md
	Question string            `json:"question"` // what it answers, and how: a few sentences of Markdown
	Command  string            `json:"command"`  // the command that measures the section again
	Began    time.Time         `json:"began"`    // when the measurement began; zero: unknown
	Commit   string            `json:"commit"`   // the commit of the repository, with "-dirty" if its files had changed; "": unknown
	Machine  Machine           `json:"machine"`
	Versions map[string]string `json:"versions"` // the versions of the programs that took part, by name
	Corpus   []string          `json:"corpus"`   // the data that it was measured on, and their sources
	Tables   []Table           `json:"tables"`
	Plots    []Plot            `json:"plots,omitempty"`
	Figures  []Figure          `json:"figures"` // numbers that have limits, or that documents quote
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

// Cell is a number or, instead of one, a text: for example why an arm has no number here.
type Cell struct {
	Value float64 `json:"value,omitempty"`
	Unit  string  `json:"unit,omitempty"` // "ms", "tokens", "MB", "×", …; "": a count
	Low   float64 `json:"low,omitempty"`  // the tenth percentile of the rounds; 0: not reported
	High  float64 `json:"high,omitempty"` // the ninetieth percentile of the rounds; 0: not reported
	How   string  `json:"how,omitempty"`  // Measured or Computed
	Text  string  `json:"text,omitempty"` // a text in place of the number
}

// Plot is a picture of lines over x, or of bars.
type Plot struct {
	Name  string `json:"name"` // the name of its SVG file, without .svg
	Title string `json:"title"`
	X     string `json:"x"` // what the axes show, with the unit
	Y     string `json:"y"`
	LogX  bool   `json:"logX,omitempty"`
	LogY  bool   `json:"logY,omitempty"`
	Lines []Line `json:"lines"`
	// Bars has the labels of the bars from the top, such as the arms; empty: the plot is one of lines. In a plot of bars, each Line is a
	// set of bars. Each of its points is an index in Bars and the length of that bar, which X describes.
	Bars []string `json:"bars,omitempty"`
}

// Line is one line of a plot.
type Line struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
}

// Figure is a number with a name that is unique in its section, such as "dependent10/bare".
type Figure struct {
	Name   string  `json:"name"`
	Title  string  `json:"title"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit,omitempty"`
	Low    float64 `json:"low,omitempty"`  // the tenth percentile, if the value is the median of several rounds; 0: not reported
	High   float64 `json:"high,omitempty"` // the ninetieth percentile, likewise
	Rounds int     `json:"rounds,omitempty"`
	How    string  `json:"how"`
	Max    float64 `json:"atMost,omitempty"`  // the project's own upper limit; 0: none
	Min    float64 `json:"atLeast,omitempty"` // the project's own lower limit; 0: none
	Why    string  `json:"why,omitempty"`     // a sentence: why the limit is not met
}

// Counted reports whether the section holds counts of a test, which do not depend on a machine.
func (s *Section) Counted() bool { return s.Machine == Machine{} }

// Options say how a section is run.
type Options struct {
	Root   string        // the root folder of the repository
	Data   string        // the folder with the data sets of real chains; "": there is none
	Tools  string        // a folder for installed programs, kept from run to run
	Short  bool          // run the short form: fewer rounds, and only programs that install quickly
	Soak   time.Duration // how long the use of a server is watched in the long form
	Faults int           // how many faults strike each system in the long form
	// Arms has the keys of the systems that faults strike; empty: all. The results of the others are kept, from the folder Results.
	Arms    []string
	Results string
	Log     func(format string, args ...any)
}
