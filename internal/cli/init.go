package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/internal/clients"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// initFlags are the flags of onecall init.
type initFlags struct {
	yes, dryRun        bool
	out                string
	from               []string
	install, uninstall string
}

func newInitCommand(c *cli) *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration with the MCP servers of other programs",
		Long: "Look for MCP servers in the files of the clients below, first in those of the working directory. Show a configuration with\n" +
			"these servers, and write it if you agree. The clients' files are not changed, and no file is overwritten. Secrets are\n" +
			"shown as *** and written in full, to a file that only you can read. A server with unset variables is written as disabled.\n\n" +
			"--install adds onecall to a client and moves the client's servers to a configuration: that of --config, or else the one in\n" +
			"the user's configuration folder. Secrets do not move to a configuration that other users can read, unless --config names\n" +
			"it. --uninstall restores what was there before.\n\n" +
			"Clients: " + strings.Join(clients.IDs(), ", ") + ".",
		Example: "  onecall init --dry-run\n  onecall init --install claude-code\n  onecall init --uninstall claude-code",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.install != "" || f.uninstall != "" {
				return c.connect(cmd.Context(), &f, cmd.Flags().Changed)
			}
			return c.init(cmd.Context(), &f)
		},
	}
	cmd.Flags().BoolVar(&f.yes, "yes", false, "write without asking")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show, and write nothing")
	cmd.Flags().StringVar(&f.out, "out", "onecall.yaml", "the `file` to write")
	cmd.Flags().StringSliceVar(&f.from, "from", nil, "read only these `files`, which may be of any client")
	cmd.Flags().StringVar(&f.install, "install", "", "add onecall to this `client`, and move its servers behind onecall")
	cmd.Flags().StringVar(&f.uninstall, "uninstall", "", "remove onecall from this `client`, and restore what was there")
	for _, name := range []string{"install", "uninstall"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(clients.IDs(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	}
	return cmd
}

func (c *cli) init(ctx context.Context, f *initFlags) error {
	if f.yes && f.dryRun {
		return usageErrorf("--yes and --dry-run exclude each other")
	}
	if err := c.checkOut(f.out); err != nil && !f.dryRun {
		return err
	}
	im, err := clients.Gather(f.out, f.from)
	if err != nil {
		return opError{err}
	}
	text := im.Document()
	if err := c.writeText(im.Report(text, f.out)); err != nil {
		return err
	}
	if f.dryRun {
		return nil
	}
	if agreed, err := c.askToWrite(ctx, f, f.out+" was not written", "Write "+f.out+"?"); !agreed {
		return err
	}
	switch err := clients.WriteNew(f.out, text); {
	case errors.Is(err, fs.ErrExist):
		return opErrorf("%s was created in the meantime, and is not overwritten: name another file with --out, or remove it", f.out)
	case err != nil:
		return opErrorf("--out: %s cannot be written: %v", f.out, textfile.Cause(err))
	}
	c.noticef("%s is written: onecall tools shows the functions", f.out)
	return c.writeText(clients.EntryHelp(f.out))
}

// askToWrite reports whether the user agrees to the changes shown. refusal begins the error if there is no terminal to ask at.
func (c *cli) askToWrite(ctx context.Context, f *initFlags, refusal, question string) (bool, error) {
	if f.yes {
		return true, nil
	}
	if !c.inTerminal {
		return false, usageErrorf("%s: there is no terminal to ask at; --yes writes without asking", refusal)
	}
	agreed, err := c.ask(ctx, question+" [y/N] ")
	if err != nil || !agreed {
		c.noticef("nothing was written")
	}
	return agreed && err == nil, err
}

// checkOut refuses a file that exists, one that would not be read as YAML, and one beside another configuration.
func (c *cli) checkOut(out string) error {
	if ext := strings.ToLower(filepath.Ext(out)); ext != ".yaml" && ext != ".yml" {
		return usageErrorf("--out: %s must end in .yaml: YAML is what is written", out)
	}
	if _, err := os.Lstat(out); err == nil {
		return opErrorf("%s already exists, and is not overwritten: name another file with --out, or remove it", out)
	}
	if other := filepath.Join(filepath.Dir(out), "onecall.json"); filepath.Base(out) == "onecall.yaml" {
		if _, err := os.Lstat(other); err == nil {
			return opErrorf("%s is in the same folder, which may hold only one configuration: name another file with --out, or remove it", other)
		}
	}
	return nil
}
