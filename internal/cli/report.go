package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// options adds the options that all commands share.
func (c *cli) options(o app.Options) *app.Options {
	o.Reporter, o.Redactor, o.Config, o.Verbose, o.Version = reporter{c}, &c.redactor, c.configPath, c.verbose, version()
	return &o
}

// open opens an app for a command, which must close it with closeInto.
func (c *cli) open(ctx context.Context, o app.Options) (*app.App, error) {
	a, err := app.Open(ctx, c.options(o))
	if err == nil {
		c.startingSources, c.estimate = a.Starting, a.Counter.Estimate
	}
	return a, err
}

// closeInto closes an app and joins its error with the command's.
func closeInto(a *app.App, err *error) { *err = errors.Join(*err, a.Close()) }

// reporter implements app.Reporter.
type reporter struct{ *cli }

// Notice implements app.Reporter.
func (r reporter) Notice(format string, args ...any) { r.noticef(format, args...) }

// Warn implements app.Reporter.
func (r reporter) Warn(f *fault.Error) { r.warn(f) }

// Faults implements app.Reporter.
func (r reporter) Faults(wrong *config.Error) { r.showConfigurationFaults(wrong) }

// warn shows a warning.
func (s *streams) warn(f *fault.Error) {
	text := f.Error()
	if f.Code == fault.BadRequest { // many warnings have this code, so it says nothing
		text = strings.TrimPrefix(text, string(f.Code)+" ")
		text = strings.TrimPrefix(text, string(f.Code)+": ")
	}
	if len(f.Nearest) > 0 && !chainfile.Mentions(f.Message, f.Nearest[0]) {
		text += ": did you mean " + strings.Join(f.Nearest, ", ") + "?"
	}
	s.warnf("%s", text)
}

// warnf writes a warning.
func (s *streams) warnf(format string, args ...any) {
	fmt.Fprintln(s.err, s.paintErr(yellow, "warning:")+" "+textfile.Printable(fmt.Sprintf(format, args...)))
}

// noticef writes one or more lines for a person.
func (s *streams) noticef(format string, args ...any) {
	lines := strings.Split(fmt.Sprintf(format, args...), "\n")
	for i := range lines {
		lines[i] = textfile.Printable(lines[i])
	}
	fmt.Fprintln(s.err, strings.Join(lines, "\n"))
}
