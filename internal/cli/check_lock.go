package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
)

// verdictLine is what check says of a saved chain.
type verdictLine struct {
	Chain       string       `json:"chain"`
	OK          bool         `json:"ok"`
	Breaks      []changeLine `json:"breaks,omitempty"`
	Faults      []faultLine  `json:"faults,omitempty"`
	Harmless    []changeLine `json:"harmless,omitempty"`
	Unlocked    []string     `json:"unlocked,omitempty"`
	Unavailable []string     `json:"unavailable,omitempty"`
}

type faultLine struct {
	Code    fault.Code `json:"code"`
	At      string     `json:"at,omitempty"`
	Message string     `json:"message"`
}

// checkLock compares the functions with the lock, and says which saved chains break.
func (c *cli) checkLock(cmd *cobra.Command, recordings []string) (err error) {
	path, err := c.lockPath()
	if err != nil {
		return err
	}
	l, err := c.readLock(path)
	if err != nil {
		return err
	}
	if l == nil {
		return wrongUse(cmd, "check needs a chain: a file, the name of a saved one, or - for the standard input. Without one, it checks the "+
			"saved chains by "+textfile.Printable(path)+", which onecall lock writes")
	}
	ctx := cmd.Context()
	a, err := c.open(ctx, app.Options{Unlocked: true})
	if err != nil {
		return err
	}
	defer closeInto(a, &err)
	if f := a.LockConflict(path, l); f != nil {
		c.noticef("onecall: %s", textfile.Printable(f.Message))
		return exitError(exitConfiguration)
	}
	line := c.startProgress()
	verdicts, err := a.CheckLock(ctx, l)
	line.stop()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return exitError(exitInterrupted)
	}
	out, err := c.newOutput("")
	if err != nil {
		return err
	}
	status := exitOK
	for i := range verdicts {
		if err = c.writeVerdict(out, &verdicts[i]); err != nil {
			return err
		}
		status = worse(status, statusOf(&verdicts[i]))
	}
	for _, recording := range recordings {
		misfits, err := a.CheckRecording(ctx, recording)
		if err != nil {
			return opError{err}
		}
		if err = c.writeMisfits(out, recording, misfits); err != nil {
			return err
		}
		if len(misfits.List) > 0 {
			status = worse(status, fault.Compile.Exit())
		}
	}
	if err = out.commit(); err != nil {
		return err
	}
	if len(verdicts) == 0 {
		c.noticef("there are no saved chains: onecall new NAME writes one")
	}
	if status != exitOK {
		return exitError(status)
	}
	return nil
}

func statusOf(v *app.ChainVerdict) int {
	switch {
	case len(v.Breaks)+len(v.Faults) > 0:
		return fault.Compile.Exit()
	case len(v.Down) > 0:
		return fault.Unavailable.Exit()
	}
	return exitOK
}

// worse returns the status of two results together: a broken chain outweighs what is not known.
func worse(a, b int) int {
	if a == fault.Compile.Exit() || b == exitOK {
		return a
	}
	return b
}

func (c *cli) writeVerdict(out *output, v *app.ChainVerdict) error {
	line := verdictLine{Chain: v.Name, OK: v.OK(), Unlocked: v.Unlocked, Unavailable: v.Down}
	for i := range v.Breaks {
		line.Breaks = append(line.Breaks, lineOf(v.Breaks[i].Change, v.Breaks[i].Step, true))
	}
	for i := range v.Harmless {
		line.Harmless = append(line.Harmless, lineOf(&v.Harmless[i], "", true))
	}
	for _, f := range v.Faults {
		line.Faults = append(line.Faults, faultLine{f.Code, f.At, f.Message})
	}
	if out.forPerson {
		out.writeLines(c.verdictText(&line))
		return nil
	}
	text, err := rawjson.Marshal(line)
	if err != nil {
		return err
	}
	return out.writeLine(text)
}

// verdictText returns a verdict for a person.
func (c *cli) verdictText(v *verdictLine) string {
	name, word := strings.TrimPrefix(v.Chain, steps.ChainSource+"."), c.paint(green, "ok")
	switch {
	case len(v.Breaks)+len(v.Faults) > 0:
		word = c.paint(red, "breaks")
	case !v.OK:
		word = c.paint(yellow, "unknown")
	}
	var b strings.Builder
	b.WriteString(textfile.Printable(name) + ": " + word + "\n")
	line := func(what, text string) { b.WriteString("  " + what + textfile.Printable(text) + "\n") }
	for _, one := range v.Breaks {
		at := ""
		if one.Step != "" {
			at = one.Step + ": "
		}
		line("", at+one.Function+": "+one.Message)
	}
	for _, f := range v.Faults {
		line("", strings.TrimPrefix(f.At+": ", ": ")+f.Message)
	}
	for _, one := range v.Harmless {
		line("harmless: ", one.Function+": "+one.Message)
	}
	for _, one := range v.Unlocked {
		line("not in the lock: ", one)
	}
	for _, one := range v.Unavailable {
		line("unavailable: ", one)
	}
	return b.String()
}

// recordingLine is what check says of a recording.
type recordingLine struct {
	Recording string       `json:"recording"`
	OK        bool         `json:"ok"`
	Calls     int          `json:"calls"`
	Skipped   int          `json:"skipped,omitempty"` // calls with secrets in their arguments, or of unavailable sources
	Misfits   []misfitLine `json:"misfits,omitempty"`
}

type misfitLine struct {
	Line     int    `json:"line"`
	Function string `json:"fn"`
	Chain    string `json:"chain,omitempty"`
	faultLine
}

func (c *cli) writeMisfits(out *output, name string, found *app.RecordingCheck) error {
	line := recordingLine{Recording: name, OK: len(found.List) == 0, Calls: found.Calls, Skipped: found.Skipped}
	for _, one := range found.List {
		line.Misfits = append(line.Misfits, misfitLine{one.Line, one.Function, one.Chain,
			faultLine{one.Fault.Code, one.Fault.At, one.Fault.Message}})
	}
	if !out.forPerson {
		text, err := rawjson.Marshal(line)
		if err != nil {
			return err
		}
		return out.writeLine(text)
	}
	word := c.paint(green, "ok")
	if !line.OK {
		word = c.paint(red, "breaks")
	}
	out.writeLines(textfile.Printable(name) + ": " + word + ": " + plural(int64(line.Calls), "call") + "\n")
	for _, one := range line.Misfits {
		out.writeLines("  " + textfile.Printable("line "+strconv.Itoa(one.Line)+": "+one.Function+": "+one.Message) + "\n")
	}
	return nil
}
