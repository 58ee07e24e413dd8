// Package harness measures the sections of the comparison. A section has arms, which are the ways that are compared, tasks, each a piece
// of work whose result is checked, and the words of its tables and figures.
package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/budget"
)

// Section is a section before it is measured.
type Section struct {
	Name   string
	Text   string // its words, in Markdown: see words
	NoNode bool   // it needs no Node.js
	Parts  []Part
}

// words returns what a section says beside its numbers: the title and the question that its Text begins with, and the lists under its
// headings. "Corpus" is what it is measured on, "Comments" are those of the section, and a part's name is above those of the part.
func (s *Section) words() (title, question string, lists map[string][]string) {
	pieces := strings.Split(strings.TrimPrefix(s.Text, "# "), "\n## ")
	title, question, _ = strings.Cut(pieces[0], "\n")
	lists = map[string][]string{}
	for _, piece := range pieces[1:] {
		name, items, _ := strings.Cut(piece, "\n")
		for _, item := range strings.Split(items, "\n- ")[1:] {
			lists[name] = append(lists[name], strings.Join(strings.Fields(item), " "))
		}
	}
	return title, strings.TrimSpace(question), lists
}

// Part measures some tables of a section. It fails by Check.
type Part struct {
	Name    string
	Measure func(context.Context, *Bench)
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
func New(o *report.Options, s *report.Section) *Bench {
	b := &Bench{Options: o, Section: s, Counter: Must(budget.NewCounter("", 1)), Temp: Must(os.MkdirTemp("", "onecall-compare-"))}
	b.Machine, b.Versions, b.scrub = report.ThisMachine(), map[string]string{}, strings.NewReplacer(b.Temp, "/home/ada/work")
	return b
}

// Close removes the folder of this run.
func (b *Bench) Close() { Check(os.RemoveAll(b.Temp)) }

// Run measures the section.
func (s *Section) Run(ctx context.Context, o *report.Options) (results *report.Section, err error) {
	err = Try(func() {
		title, question, lists := s.words()
		b := New(o, &report.Section{Name: s.Name, Title: title, Question: question, Command: report.Command + " -only " + s.Name,
			Began: time.Now().UTC().Truncate(time.Second), Commit: report.Commit(o.Root), Corpus: lists["Corpus"]})
		defer b.Close()
		for _, part := range s.Parts {
			began := time.Now()
			err := Try(func() { part.Measure(ctx, b) })
			Check(ctx.Err())
			switch {
			case err == nil:
				b.Comments = append(b.Comments, lists[part.Name]...)
			case errors.Is(err, ErrNotHere):
				b.Comment("%s: %s", part.Name, OneLine(err))
			default:
				Fail("%s: %w", part.Name, err)
			}
			b.Log("%s: %.1f s", part.Name, time.Since(began).Seconds())
		}
		FailIf(len(b.Tables)+len(b.Figures) == 0, "nothing could be measured here: %s", strings.Join(b.Comments, "; "))
		b.Comments = append(b.Comments, lists["Comments"]...)
		if b.Short {
			b.Command += report.ShortFlag
		}
		results = b.Section
	})
	return results, err
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

// Turn calls do for each of n arms, which take turns at going first.
func Turn(round, n int, do func(arm int)) {
	for i := range n {
		do((round + i) % n)
	}
}
