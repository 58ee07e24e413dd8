// Package harness measures the sections of the comparison. A section has arms, which are the ways that are compared, tasks, each a piece
// of work whose result is checked, and the words of its tables and figures.
package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/budget"
)

// Section is a section before it is measured.
type Section struct {
	Name, Title, Question string
	Long, Short           int // about how many minutes each form takes on two quiet cores, once all is installed
	NoNode                bool
	Corpus, Comments      []string
	Parts                 []Part
}

// Part measures some tables of a section.
type Part struct {
	Name    string
	Measure func(context.Context, *Bench) error
}

// ErrNotHere is the error of what cannot be measured on this machine, such as a package that could not be installed. It leaves out a part
// of a section, or an arm.
var ErrNotHere = errors.New("not measured")

// Bench is a section while it is measured.
type Bench struct {
	*report.Options
	*report.Section        // the results so far
	Temp            string // a folder of this run
	Counter         budget.Counter
	scrub           *strings.Replacer
	onecall         string // the path of the program, if it was built
}

// New returns a bench for a section without results. The caller closes it.
func New(o *report.Options, s *report.Section) (*Bench, error) {
	b := &Bench{Options: o, Section: s}
	b.Machine, b.Versions = report.ThisMachine(), map[string]string{}
	var err error
	if b.Counter, err = budget.NewCounter("", 1); err != nil {
		return nil, err
	}
	b.Temp, err = os.MkdirTemp("", "onecall-compare-")
	b.scrub = strings.NewReplacer(b.Temp, "/home/ada/work")
	return b, err
}

// Close removes the folder of this run.
func (b *Bench) Close() error { return os.RemoveAll(b.Temp) }

// Run measures the section.
func (s *Section) Run(ctx context.Context, o *report.Options) (_ *report.Section, err error) {
	b, err := New(o, &report.Section{Name: s.Name, Title: s.Title, Question: s.Question, Command: report.Command + " -only " + s.Name,
		Began: time.Now().UTC().Truncate(time.Second), Commit: report.Commit(o.Root), Corpus: slices.Clone(s.Corpus)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	for _, part := range s.Parts {
		began := time.Now()
		err := part.Measure(ctx, b)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, ErrNotHere):
			b.Comment("%s: %s", part.Name, OneLine(err))
		case err != nil:
			return nil, fmt.Errorf("%s: %w", part.Name, err)
		}
		b.Log("%s: %.1f s", part.Name, time.Since(began).Seconds())
	}
	b.Comments = append(b.Comments, s.Comments...)
	if b.Short {
		b.Command += report.ShortFlag
	}
	return b.Section, nil
}

// Comment adds a comment to the section.
func (b *Bench) Comment(format string, args ...any) {
	b.Comments = append(b.Comments, fmt.Sprintf(format, args...))
}

// Table adds a table to the section.
func (b *Bench) Table(title string, columns []string, rows ...report.Row) {
	b.Tables = append(b.Tables, report.Table{Title: title, Columns: columns, Rows: rows})
}

// Figure adds figures to the section.
func (b *Bench) Figure(figures ...report.Figure) { b.Figures = append(b.Figures, figures...) }

// Count counts the tokens of a text, in which the folder of this run has a usual name, so that counts are the same on every machine.
func (b *Bench) Count(text string) int { return b.Counter.Count([]byte(b.scrub.Replace(text)), -1) }

// Cmd returns the command of a program, with the folder of this run as its home.
func (b *Bench) Cmd(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = b.Temp
	cmd.Env = append(os.Environ(), "HOME="+b.Temp, "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "XDG_STATE_HOME=", "ONECALL_CONFIG=")
	return cmd
}

// longest is the maximum length of an error in a table, in bytes.
const longest = 300

// OneLine returns an error as one line of a table, without this machine's folders.
func OneLine(err error) string {
	text := strings.Join(strings.Fields(proc.Scrub(err.Error())), " ")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// Turn calls do for each of n arms, which take turns at going first, and returns the first error.
func Turn(round, n int, do func(arm int) error) error {
	for i := range n {
		if err := do((round + i) % n); err != nil {
			return err
		}
	}
	return nil
}
