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

// connect adds onecall to a client, or removes it from the client, after showing the changes. changed reports whether a flag was set.
func (c *cli) connect(ctx context.Context, f *initFlags, changed func(flag string) bool) error {
	switch {
	case f.yes && f.dryRun:
		return usageErrorf("--yes and --dry-run exclude each other")
	case f.install != "" && f.uninstall != "":
		return usageErrorf("--install and --uninstall exclude each other")
	case len(f.from) > 0:
		return usageErrorf("--from: --install and --uninstall read the client's own file")
	case changed("out"):
		return usageErrorf("--out: with --install and --uninstall, name the configuration with --config")
	}
	plan, err := c.plan(f)
	if err == nil && !changed("config") { // with --config, the user chose the file, and so who can read it
		err = plan.CheckReaders()
	}
	if err != nil {
		return opError{err}
	}
	if err := c.writeText(plan.Report()); err != nil {
		return err
	}
	if plan.Empty() {
		c.noticef("onecall is in %s already: there is nothing to change", plan.Client().Title)
		return nil
	}
	if f.dryRun {
		return nil
	}
	if agreed, err := c.askToWrite(ctx, f, "nothing was written", "Write this?"); !agreed {
		return err
	}
	if err := plan.Apply(ctx); err != nil {
		return opError{err}
	}
	for _, message := range plan.Warnings() {
		c.noticef("%s", message)
	}
	if f.install != "" {
		c.noticef("onecall is in %s now: restart %[1]s, and it shows the tools chain, info and search", plan.Client().Title)
		c.noticef("onecall init --uninstall %s restores what was there before", f.install)
	} else {
		c.noticef("onecall is no longer in %s: restart %[1]s; onecall's configuration keeps the servers", plan.Client().Title)
	}
	return nil
}

// plan plans the installation or the removal that the flags ask for.
func (c *cli) plan(f *initFlags) (*clients.Plan, error) {
	id := f.install + f.uninstall // one of them is ""
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

// configurationToWrite returns the path of the named configuration, or else that of the user, which may not exist yet. A project's
// configuration is not used: a client starts onecall in any folder, and other people may read the project's files, which would then
// hold the client's secrets.
func (c *cli) configurationToWrite() (string, error) {
	if c.configPath != "" {
		return c.configPath, nil
	}
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", fault.New(fault.BadRequest, "the user's configuration folder is not known: %v: name the file with --config", err)
	}
	folder = filepath.Join(folder, "onecall")
	path, f := config.FindIn(folder)
	if f != nil {
		return "", f
	}
	return cmp.Or(path, filepath.Join(folder, "onecall.yaml")), nil
}
