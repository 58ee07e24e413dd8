package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/internal/figure"
)

// Command measures everything; followed by ShortFlag, it measures the short form.
const (
	Command   = "go -C bench/cmd/compare run ."
	ShortFlag = " -short"
)

// marks show in tables how a number was obtained.
var marks = map[string]string{Measured: "●", Computed: "○"}

// Markdown returns RESULTS.md with the results of the sections. plots is the prefix of the links to plots.
func Markdown(sections []*Section, plots string) []byte {
	d := &document{plots: plots}
	d.head()
	d.targets(sections)
	for _, s := range sections {
		d.section(s)
	}
	return []byte(d.String())
}

// document is the text while it is written.
type document struct {
	strings.Builder
	plots string
}

func (d *document) line(format string, args ...any) {
	fmt.Fprintf(d, format+"\n", args...)
}

func (d *document) head() {
	d.line("# Results of the comparison\n")
	d.line("<!-- Made from bench/results and bench/testdata by %s -render. -->\n", Command)
	d.line("onecall against what its users would pick instead, side by side on one machine. One command measures it again, the recorded")
	d.line("chains only where their [data sets](README.md#the-data-sets) are:\n")
	d.line("    %s\n", Command)
	d.line("Numbers are medians; ● is measured, ○ is computed from what was measured. The 10th and the 90th percentile are in")
	d.line("parentheses. Tokens are those of o200k_base. [How it is measured](README.md#the-comparison).\n")
}

// targets lists the figures for which the project has limits of its own.
func (d *document) targets(sections []*Section) {
	var rows [][]string
	for _, s := range sections {
		for _, f := range s.Figures {
			met, hasTarget := f.met()
			if !hasTarget {
				continue
			}
			answer := "yes"
			switch {
			case f.near():
				answer = "within the noise"
			case !met:
				answer = strings.TrimSuffix("**no**: "+f.Why, ": ") // without a reason: **no** alone
			}
			rows = append(rows, []string{f.Title, f.text(), f.target(), answer, "`" + s.Name + "/" + f.Name + "`"})
		}
	}
	if len(rows) == 0 {
		return
	}
	d.line("## Goals\n")
	d.line("These are the project's own targets. The row of a target that is not met gives the reason. \"Within the noise\" means that the\n" +
		"target lies within the 95 %% confidence interval of the median, taken from the two percentiles as if the rounds were " +
		"normally distributed.\n")
	d.table([]string{"", "value", "target", "met", "figure"}, rows)
}

// text returns the figure's value with its spread, unit and mark.
func (f *Figure) text() string {
	text := strings.TrimSpace(figure.Against(f.Value, max(f.Max, f.Min)) + " " + f.Unit)
	return text + spread(f.Low, f.High) + " " + marks[f.How]
}

// spread returns the tenth and the ninetieth percentile, if they differ.
func spread(low, high float64) string {
	if high <= low {
		return ""
	}
	return fmt.Sprintf(" (%s to %s)", figure.Text(low), figure.Text(high))
}

// target returns the project's own limits for the figure.
func (f *Figure) target() string {
	var pieces []string
	if f.Max != 0 {
		pieces = append(pieces, "at most "+number(f.Max, f.Unit))
	}
	if f.Min != 0 {
		pieces = append(pieces, "at least "+number(f.Min, f.Unit))
	}
	return strings.Join(pieces, ", ")
}

func number(v float64, unit string) string { return strings.TrimSpace(figure.Text(v) + " " + unit) }

func (d *document) section(s *Section) {
	d.line("## %s\n\n%s\n", s.Title, s.Question)
	d.origin(s)
	if len(s.Versions) > 0 {
		var list []string
		for _, name := range slices.Sorted(maps.Keys(s.Versions)) {
			list = append(list, name+" "+s.Versions[name])
		}
		d.line("- Versions: %s", strings.Join(list, ", "))
	}
	for _, c := range s.Corpus {
		d.line("- Corpus: %s", c)
	}
	for _, warning := range s.warnings() {
		d.line("- **%s**", warning)
	}
	d.line("")
	for i := range s.Tables {
		d.measurements(&s.Tables[i])
	}
	for _, p := range s.Plots {
		d.line("![%s](%s%s.svg)\n", p.Title, d.plots, p.Name)
	}
	d.figures(s)
	for _, comment := range s.Comments {
		d.line("- %s", comment)
	}
	if len(s.Comments) > 0 {
		d.line("")
	}
}

// origin says where the section's numbers come from.
func (d *document) origin(s *Section) {
	if s.Counted() {
		d.line("- Exact, and held by a test: `%s` writes the counts again", s.Command)
		return
	}
	d.line("- Measured again by `%s`", s.Command)
	m := &s.Machine
	d.line("- On %s with %d cores of %s (%s, %s)", s.Began.Format(time.DateOnly), m.Cores, m.CPU, m.OS, m.Go)
	if !s.Began.IsZero() && s.Commit != "" {
		d.line("- Began at %s UTC, with onecall of commit %s", s.Began.UTC().Format("15:04"), s.Commit)
	} else {
		d.line("- With onecall of a commit that was not noted")
	}
}

// wide is the median spread, as a share of the value, from which a section says how wide its figures spread.
const wide = 0.5

// warnings returns what makes the section's numbers less certain.
func (s *Section) warnings() (list []string) {
	if strings.HasSuffix(s.Command, ShortFlag) {
		list = append(list, "The short form: few rounds. Its times are not comparable with those of the long form, or with one another.")
	}
	busy := s.Machine.Load > float64(s.Machine.Cores)
	if busy {
		load := figure.Text(s.Machine.Load)
		list = append(list, fmt.Sprintf("The machine was busy: a load of %s on %d cores at the start.", load, s.Machine.Cores))
	}
	tables, widths := s.spreads()
	if median := Quantile(widths, 0.5); median >= wide || busy && median > 0 {
		list = append(list, fmt.Sprintf("In %s: from the 10th to the 90th percentile, half of the numbers spread over %.0f %% of their value or "+
			"more, the widest over %.0f %%.", strings.Join(tables, ", "), 100*median, 100*widths[len(widths)-1]))
	}
	return list
}

// measurements writes a table of the section.
func (d *document) measurements(t *Table) {
	if t.Title != "" {
		d.line("### %s\n", t.Title)
	}
	rows := make([][]string, len(t.Rows))
	for i, r := range t.Rows {
		rows[i] = []string{r.Name}
		for _, c := range r.Cells {
			rows[i] = append(rows[i], c.text())
		}
	}
	d.table(t.Columns, rows)
}

func (c *Cell) text() string {
	switch {
	case c.Text != "":
		return c.Text
	case c.How == "":
		return ""
	}
	return number(c.Value, c.Unit) + spread(c.Low, c.High) + " " + marks[c.How]
}

// figures lists all figures with the names by which documents quote them.
func (d *document) figures(s *Section) {
	if len(s.Figures) == 0 {
		return
	}
	rows := make([][]string, len(s.Figures))
	for i, f := range s.Figures {
		rows[i] = []string{"`" + f.Name + "`", f.Title, f.text()}
	}
	d.line("### Figures of %s\n", s.Title)
	d.table([]string{"figure", "", "value"}, rows)
}

// table writes a Markdown table.
func (d *document) table(columns []string, rows [][]string) {
	write := func(cells []string) {
		for i := range cells {
			cells[i] = strings.NewReplacer("|", `\|`, "\n", " ").Replace(cells[i])
		}
		d.line("| %s |", strings.Join(cells, " | "))
	}
	write(slices.Clone(columns))
	d.line("|%s", strings.Repeat("---|", len(columns)))
	for _, row := range rows {
		write(row)
	}
	d.line("")
}
