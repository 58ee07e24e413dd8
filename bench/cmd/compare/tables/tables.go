// Package tables measures the claims of published tables of token savings on real servers and documents: lists of tools, and
// whole sessions.
package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/install"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/budget"
)

const question = "What do the savings that are published for gateways and tool searches come to on real servers and " +
	"documents? Each part does one task in two or more ways, over stdio by the client of the official SDK, and checks what comes back. " +
	"*List* is the result of `tools/list` as it comes on the wire, and the server's instructions; *written* is each call as a model " +
	"writes it, `{\"name\":…,\"arguments\":…}`; *read* is the text of each answer. A text that a server sends a second time, as structured " +
	"content, is not counted. Tokens are of o200k_base and exact, so nothing is repeated for them; times are medians of rounds in which " +
	"the ways take turns, and what a call adds is the median of the rounds' differences."

// Run measures the section.
func Run(ctx context.Context, o *report.Options) (_ *report.Section, err error) {
	b := &bench{Options: o, section: &report.Section{
		Name: "tables", Title: "The published tables on real data", Question: question, Command: "go -C bench/cmd/compare run . -only tables",
		Machine:  report.ThisMachine(),
		Versions: map[string]string{}, Corpus: []string{}, Figures: []report.Figure{}, Comments: []string{},
	}}
	if b.folder, err = os.MkdirTemp("", "onecall-tables"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.folder)) }()
	if b.count, err = newCounter(b.folder); err != nil {
		return nil, err
	}
	if err := b.build(ctx); err != nil {
		return nil, err
	}
	if err := b.install(ctx); err != nil {
		return nil, err
	}
	for _, task := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"operations", b.operations}, {"servers", b.servers}, {"gateways", b.gateways}, {"Desktop Commander", b.commander},
	} {
		began := time.Now()
		if err := task.run(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", task.name, err)
		}
		o.Log("%s: %.1f s", task.name, time.Since(began).Seconds())
	}
	return b.section, nil
}

// bench is the section while it is measured.
type bench struct {
	*report.Options
	section  *report.Section
	packages *install.Packages
	folder   string // the folder for the files of this run
	onecall  string // the path of the binary
	count    *counter
}

// counter counts tokens.
type counter struct {
	budget.Counter
	paths *strings.Replacer
}

// newCounter returns a counter that replaces the folder in texts with a usual name, so that counts are the same on every machine.
func newCounter(folder string) (*counter, error) {
	c, err := budget.NewCounter("o200k_base", 0)
	return &counter{c, strings.NewReplacer(folder, "/home/ada/work")}, err
}

func (c *counter) count(text string) int { return c.Count([]byte(c.paths.Replace(text)), -1) }

// build builds onecall as a user would.
func (b *bench) build(ctx context.Context) error {
	b.onecall = filepath.Join(b.folder, "onecall")
	if version, err := exec.CommandContext(ctx, "node", "--version").Output(); err == nil {
		b.section.Versions["node"] = strings.TrimSpace(string(version))
	}
	return install.Build(ctx, b.Root, "./cmd/onecall", b.onecall)
}

// setup is a configuration of onecall.
type setup map[string]any

// othersAlone hides onecall's embedded functions, which would add tools to those that are compared.
var othersAlone = map[string]any{"fs.*": hidden, "http.*": hidden, "expr.*": hidden, "text.*": hidden}

var hidden = map[string]bool{"hide": true}

// serve starts onecall with a configuration, and returns when all its functions are available.
func (b *bench) serve(ctx context.Context, name string, s setup) (*dialog, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(b.folder, name+".json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	d, err := open(ctx, b.command(b.onecall, "serve", "--config", path), nil)
	if err != nil {
		return nil, err
	}
	return d, b.ready(ctx, d)
}

// ready waits until all sources of onecall have started, and fails if one does not. If it fails, it closes the dialog.
func (b *bench) ready(ctx context.Context, d *dialog) (err error) {
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	ctx, stop := context.WithTimeout(ctx, readyWithin)
	defer stop()
	for {
		text, err := d.answer(ctx, "info", `{}`)
		var info struct{ State string }
		switch {
		case err != nil:
			return err
		case json.Unmarshal([]byte(text), &info) != nil || info.State == "degraded":
			return fmt.Errorf("a source did not start: %s", proc.Scrub(text))
		case info.State == "ready":
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %s", proc.Scrub(text))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// command returns the command of a program, with the folder of this run as its home.
func (b *bench) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = b.folder
	cmd.Env = append(os.Environ(), "HOME="+b.folder, "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "XDG_STATE_HOME=", "ONECALL_CONFIG=")
	return cmd
}

// The cells and rows of tables.

func tokensOf(n int) report.Cell { return report.Count(n, "tokens") }

func number(n int) report.Cell { return report.Count(n, "") }

func words(text string) report.Cell { return report.Cell{Text: text} }

func (b *bench) table(title string, columns []string, rows ...report.Row) {
	b.section.Tables = append(b.section.Tables, report.Table{Title: title, Columns: columns, Rows: rows})
}

// notMeasured adds a table that says why nothing was measured.
func (b *bench) notMeasured(title string, err error) {
	b.table(title, []string{"", ""}, row("not measured", words(proc.Scrub(err.Error()))))
}

func row(name string, cells ...report.Cell) report.Row { return report.Row{Name: name, Cells: cells} }

// tokenFigure adds a ratio of two counts.
func (b *bench) tokenFigure(name, title string, ours, theirs int, maximum float64) {
	b.section.Figures = append(b.section.Figures, report.Figure{
		Name: name, Title: title, Value: float64(ours) / float64(theirs), Unit: "×", How: report.Computed, Max: maximum,
	})
}

// countFigure adds a count of tokens.
func (b *bench) countFigure(name, title string, n int) {
	b.section.Figures = append(b.section.Figures, report.Figure{
		Name: name, Title: title, Value: float64(n), Unit: "tokens", How: report.Measured,
	})
}

func (b *bench) comment(format string, args ...any) {
	b.section.Comments = append(b.section.Comments, fmt.Sprintf(format, args...))
}

func (b *bench) corpus(text string) { b.section.Corpus = append(b.section.Corpus, text) }
