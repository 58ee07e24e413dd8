package cli

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/clients"
	"github.com/onecall-mcp/onecall/internal/config"
)

// connect puts onecall into a client, or takes it out, after showing what changes. given reports whether a flag is.
func (c *cli) connect(ctx context.Context, f *initFlags, given func(flag string) bool) error {
	switch {
	case f.yes && f.dryRun:
		return usage("--yes and --dry-run exclude each other")
	case f.install != "" && f.uninstall != "":
		return usage("--install and --uninstall exclude each other")
	case len(f.from) > 0:
		return usage("--from: --install and --uninstall read the client's own file")
	case given("out"):
		return usage("--out: with --install and --uninstall the configuration is named by --config")
	}
	plan, err := c.plan(f)
	if err == nil && !given("config") { // a file that is named was chosen with its readers
		err = plan.CheckReaders()
	}
	if err != nil {
		return met{err}
	}
	if err := c.writeText(plan.Report()); err != nil {
		return err
	}
	if plan.Nothing() {
		c.note("onecall is in %s already: nothing is to be changed", plan.Client().Title)
		return nil
	}
	if f.dryRun {
		return nil
	}
	if agreed, err := c.agreed(ctx, f, "nothing was written", "Write this?"); !agreed {
		return err
	}
	if err := plan.Apply(ctx); err != nil {
		return met{err}
	}
	for _, note := range plan.Notes() {
		c.note("%s", note)
	}
	if f.install != "" {
		c.note("onecall is in %s now: start it again, and it shows the tools chain, info and search", plan.Client().Title)
		c.note("What was there is put back by onecall init --uninstall %s", f.install)
	} else {
		c.note("onecall is no longer in %s: start it again; onecall's configuration keeps the servers", plan.Client().Title)
	}
	return nil
}

func (c *cli) plan(f *initFlags) (*clients.Plan, error) {
	id := f.install + f.uninstall
	client := clients.Find(id)
	if client == nil {
		return nil, fault.New(fault.BadRequest, "there is no client %s: the clients are %s", fault.Quote(id), strings.Join(clients.IDs(), ", "))
	}
	if f.uninstall != "" {
		return clients.Uninstall(client)
	}
	path, err := c.configurationToWrite()
	if err != nil {
		return nil, err
	}
	return clients.Install(client, path)
}

// configurationToWrite is the configuration that is named, else that of the user, which may not be there yet: a client starts onecall
// anywhere, and a project's file may be shared with others, who must not get the client's secrets.
func (c *cli) configurationToWrite() (string, error) {
	if c.configPath != "" {
		return c.configPath, nil
	}
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", fault.New(fault.BadRequest, "the user's configuration folder is not known: %v: name the file by --config", err)
	}
	folder = filepath.Join(folder, "onecall")
	path, f := config.FindIn(folder)
	if f != nil {
		return "", f
	}
	return cmp.Or(path, filepath.Join(folder, "onecall.yaml")), nil
}
