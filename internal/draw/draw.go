// Package draw makes pictures of plans and runs: a graph of steps, a Gantt chart of calls, and bars of sums. They are SVG, for a page or a
// file; a graph is also Mermaid or DOT.
//
// OfPlan and OfRun make a Graph, and CallsOf a Gantt, of what packages chain and history report. SVG draws each of them as one element for
// a page that has the rules of Stylesheet; File makes a file of it, with its own style in light and dark. The element has classes and
// presentation attributes, and neither style attributes nor scripts nor ids, so it stands in a page as often as wanted, under any content
// security policy.
//
// A picture is small whatever it shows: what does not fit is folded, and counted. Steps that failed or wait are folded last. Every text is
// escaped, and characters that are invisible or turn text around are shown as a dot. Equal data give equal bytes.
package draw

import (
	"cmp"
	"strings"
)

// Graph is a plan, or a run on its plan.
type Graph struct {
	Title string
	Steps []Step
	Waves [][]int // the columns: indexes of Steps that may run side by side, each step once
}

// Step is a node of a Graph, or a line of an inline chain's node. Fields of the run are zero in a plan.
type Step struct {
	At       string   // its path: 3, or 3.1 in an inline chain
	ID       string   // "": none
	Function string   // "expr" for an expression; "" for an inline chain
	Effect   string   // read, write or destroy; "": unknown
	Approve  bool     // its calls need approval
	ForEach  bool     // it runs for each element of a list
	After    []int    // the indexes of the steps that must end before it starts
	Needs    []int    // those of After whose results it reads; the others only order the two
	Flows    []string // what flow rules decide about its calls: approve or warn, and which label
	Chain    []Step   // the steps of its inline chain, in order
	Link     string   // the address that a click on its node opens; "": none

	Status   Status
	Outcome  string // of its writes, such as applied; "": it wrote nothing, or they differ
	Code     string // why it failed
	Elements int    // the elements of its ForEach that made calls
	Done     int    // those of Elements that did not fail
	Calls    int
	Retries  int
	Millis   float64 // the time in which at least one of its calls was under way
	Tokens   int
}

// Status is what became of a step or a call. "": nothing is known, as of an expression, which makes no call.
type Status string

// The statuses of steps and calls.
const (
	OK      Status = "ok"
	Failed  Status = "failed"
	Running Status = "running"
	Waiting Status = "waiting" // for approval
	Reused  Status = "reused"  // a resume took its results from the journal
	Undone  Status = "undone"
	NotRun  Status = "not run" // it was skipped, or the run has not reached it
)

// statuses are all statuses, those that a reader looks for first.
var statuses = []Status{Failed, Waiting, Running, Undone, OK, Reused, NotRun}

// signs show a status without color.
var signs = map[Status]string{OK: "✓", Failed: "✗", Running: "▸", Waiting: "‖", Reused: "↺", Undone: "↶", NotRun: "○"}

// isUrgent reports whether a reader looks for the status first.
func (s Status) isUrgent() bool { return s == Failed || s == Waiting || s == Running }

// class returns the class of elements that show the status.
func (s Status) class() string {
	return "s-" + strings.ReplaceAll(string(cmp.Or(s, "none")), " ", "-")
}

// Gantt shows when the calls of a run were made. Times are in milliseconds since the run began.
type Gantt struct {
	Title string
	Rows  []Row
	Marks []Mark // events other than calls, in order
}

// Row is a step with its calls, or one undo. Those of a step with several elements are a band.
type Row struct {
	At, ID, Function string // At: 3, or undo 3
	Elements         int    // the number of elements of its forEach; 0: it has none
	Bars             []Bar
	Link             string // the address that a click on its name opens; "": none
}

// Bar is a call.
type Bar struct {
	From, To float64
	Status   Status
	Retries  int
}

// Mark is an event at a time.
type Mark struct {
	At   float64
	Text string
}

// Bars is a series of values that are not negative, such as sums by day.
type Bars struct {
	Title  string
	Unit   string // stands behind each value; "": none
	Values []Value
}

// Value is one bar.
type Value struct {
	Name   string
	Amount float64
	Link   string // the address that a click on its name opens; "": none
}
