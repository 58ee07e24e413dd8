package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// options are the options of an app, with those that all commands share.
func (c *cli) options(o app.Options) *app.Options {
	o.Reporter, o.Redactor, o.Config, o.Verbose, o.Version = reporter{c}, &c.redactor, c.configPath, c.verbose, version()
	return &o
}

// open opens an app for a command, which closes it with closeInto.
func (c *cli) open(ctx context.Context, o app.Options) (*app.App, error) {
	a, err := app.Open(ctx, c.options(o))
	if err == nil {
		c.starting = a.Starting
	}
	return a, err
}

// closeInto closes an app, and adds what went wrong to the command's error.
func closeInto(a *app.App, err *error) { *err = errors.Join(*err, a.Close()) }

// reporter implements app.Reporter.
type reporter struct{ *cli }

// Note implements app.Reporter.
func (r reporter) Note(format string, args ...any) { r.note(format, args...) }

// Warn implements app.Reporter.
func (r reporter) Warn(f *fault.Error) { r.warn(f) }

// Faults implements app.Reporter.
func (r reporter) Faults(file string, text []byte, faults []*fault.Error) {
	r.showFaults(&source{name: file, text: text}, faults)
}

// warn shows a warning: something odd that stops nothing.
func (s *streams) warn(f *fault.Error) {
	text := f.Error()
	if f.Code == fault.BadRequest { // which is the code of a note too
		text = strings.TrimPrefix(text, string(f.Code)+" ")
		text = strings.TrimPrefix(text, string(f.Code)+": ")
	}
	if len(f.Nearest) > 0 && !mentions(f.Message, f.Nearest[0]) {
		text += ": did you mean " + strings.Join(f.Nearest, ", ") + "?"
	}
	s.note("warning: %s", textfile.Printable(text))
}

// note writes a line for a person, or several.
func (s *streams) note(format string, args ...any) {
	lines := strings.Split(fmt.Sprintf(format, args...), "\n")
	for i := range lines {
		lines[i] = textfile.Printable(lines[i])
	}
	fmt.Fprintln(s.err, strings.Join(lines, "\n"))
}
