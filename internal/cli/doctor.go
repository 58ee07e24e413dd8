package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fatih/color"
	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/clients"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// diagnosis is the answer of doctor --json.
type diagnosis struct {
	OK       bool          `json:"ok"` // nothing failed
	Findings []app.Finding `json:"findings"`
}

func newDoctorCommand(c *cli) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check all that a setup needs, and say how to fix what is wrong",
		Long: "Check the configuration, the programs of servers, each source (which is started), logins, the list of tools, the journal,\n" +
			"the store of results, and the entries of MCP clients. Each check writes a line: ok, warn or fail, and what to do. Doctor\n" +
			"changes nothing, except that it creates a missing journal, and that npx or uvx may install a server that they start.\n" +
			"The exit status is 4 if a configuration, onecall's or a client's, or a saved chain is wrong, and 5 if a source or a store is\n" +
			"unavailable.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.doctor(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "answer JSON")
	return cmd
}

func (c *cli) doctor(ctx context.Context, asJSON bool) error {
	if c.errTerminal {
		c.noticef("starting the sources, each within its own timeout…")
	}
	d := diagnosis{Findings: slices.Concat(app.Examine(ctx, c.options(app.Options{})), c.clientFindings())}
	status := exitOK
	for _, f := range d.Findings {
		if f.Status == app.StatusFail && status != exitConfiguration { // a wrong configuration outweighs other failures
			status = exitOf(f.Check)
		}
	}
	d.OK = status == exitOK
	var err error
	if asJSON {
		err = c.writeValue(d)
	} else {
		err = c.writeText([]byte(d.text(c.paint)))
	}
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return exitError(exitInterrupted)
	case status != exitOK:
		return exitError(status)
	}
	return nil
}

// exitOf returns the exit status for a failed check.
func exitOf(check app.Check) int {
	switch check {
	case app.CheckSource, app.CheckLogin, app.CheckJournal, app.CheckResults:
		return fault.Unavailable.Exit()
	}
	return exitConfiguration
}

// text returns a line for each finding and a line with their numbers. paint colors a word.
func (d *diagnosis) text(paint func(*color.Color, string) string) string {
	var b strings.Builder
	counts := map[app.Status]int64{}
	for _, f := range d.Findings {
		counts[f.Status]++
		line := fmt.Sprintf("%-4s  %s", f.Status, f.Check)
		if f.Subject != "" {
			line += " " + f.Subject
		}
		line += ": " + f.Message
		if f.Remedy != "" {
			line += " → " + f.Remedy
		}
		line = textfile.Printable(strings.ReplaceAll(line, "\n", " "))
		status := string(f.Status)
		b.WriteString(paint(statusColor(status), status) + strings.TrimPrefix(line, status) + "\n")
	}
	fmt.Fprintf(&b, "%d ok, %s, %s\n", counts[app.StatusOK],
		plural(counts[app.StatusWarn], "warning"), plural(counts[app.StatusFail], "failure"))
	return b.String()
}

// clientFindings checks the files of MCP clients, and whether any client starts onecall.
func (c *cli) clientFindings() (list []app.Finding) {
	add := func(subject string, status app.Status, remedy, format string, args ...any) {
		list = append(list, app.Finding{Check: app.CheckClient, Subject: subject, Status: status,
			Message: c.redactor.Text(fmt.Sprintf(format, args...)), Remedy: remedy})
	}
	files, err := clients.Inspect()
	if err != nil {
		add("", app.StatusWarn, "", "%s", fault.Message(err))
		return list
	}
	started := false
	for _, file := range files {
		subject, install := file.Client.Title+", "+file.File, "onecall init --install "+file.Client.ID
		bypassRemedy := install
		if file.Project {
			install = "correct the entry in this file"
			bypassRemedy = "run onecall init to copy them into a configuration, then remove them from this file"
		}
		if file.Problem != "" {
			add(subject, app.StatusWarn, "fix it", "it cannot be read: %s", file.Problem)
			continue
		}
		for _, start := range file.Starts {
			started = true
			status, message, remedy := c.examineStart(start, install)
			add(subject, status, remedy, "%s", message)
		}
		if len(file.Starts) > 0 && len(file.Others) > 0 {
			add(subject, app.StatusWarn, bypassRemedy, "this client also starts servers directly, not through onecall: %s",
				fault.Clip(strings.Join(file.Others, ", "), 300))
		}
	}
	if !started {
		add("", app.StatusWarn, "onecall init --install CLIENT", "no known client starts onecall")
	}
	return list
}

// examineStart checks a client's entry that starts onecall. install is the command that writes a correct one.
func (c *cli) examineStart(s clients.Start, install string) (status app.Status, message, remedy string) {
	command, err := exec.LookPath(s.Command)
	switch {
	case err != nil:
		return app.StatusFail, fmt.Sprintf("its entry %s starts %s, which is not found", s.Name, s.Command), install
	case !s.Serves:
		return app.StatusFail, fmt.Sprintf("its entry %s starts onecall without serve, so onecall ends at once", s.Name), install
	case !filepath.IsAbs(s.Command):
		return app.StatusWarn, fmt.Sprintf("its entry %s starts %s without a path; a desktop app may not find it (here it is %s)",
			s.Name, s.Command, command), install
	case s.Configuration == "":
		return app.StatusOK, "its entry names no configuration: onecall looks in the client's working directory, " +
			"then in the user's configuration folder", ""
	}
	info, err := os.Stat(s.Configuration)
	if err != nil || info.IsDir() {
		return app.StatusFail, fmt.Sprintf("its entry %s names the configuration %s, which is not there", s.Name, s.Configuration), install
	}
	path, _ := config.Find(c.configPath) // other checks report a fault of the configuration
	if selected, err := os.Stat(path); err != nil || !os.SameFile(info, selected) {
		return app.StatusWarn, "it starts onecall with another configuration", "onecall doctor --config " + s.Configuration + " checks that one"
	}
	return app.StatusOK, "it starts onecall with this configuration", ""
}
