package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
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
		Short: "Write a configuration with the MCP servers that other programs know",
		Long: "Look for MCP servers in the files of the clients below, those of the working directory first, show the configuration\n" +
			"that they make, and write it when you agree. Nothing is changed in those files, and no file is overwritten. Secrets are\n" +
			"shown as ***, and written as they are, to a file that only you can read. A server whose variables are not set is\n" +
			"written as disabled.\n\n" +
			"With --install, onecall is put into a client, in the place of the client's servers, which move to the configuration: that of\n" +
			"--config, else the one that onecall uses here, else a new one in the user's configuration folder. Secrets do not move to a\n" +
			"configuration that others can read, unless --config names it. With --uninstall, what was there before is put back.\n\n" +
			"Clients: " + strings.Join(clients.IDs(), ", ") + ".",
		Example: "  onecall init --dry-run\n  onecall init --install claude-code\n  onecall init --uninstall claude-code",
		Args:    cobra.NoArgs,
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
	cmd.Flags().StringSliceVar(&f.from, "from", nil, "read these `files` and no other; they may be of any client")
	cmd.Flags().StringVar(&f.install, "install", "", "put onecall into this `client`, and move its servers behind onecall")
	cmd.Flags().StringVar(&f.uninstall, "uninstall", "", "take onecall out of this `client`, and put back what was there")
	for _, name := range []string{"install", "uninstall"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(clients.IDs(), cobra.ShellCompDirectiveNoFileComp)) // of a flag that is there
	}
	return cmd
}

func (c *cli) init(ctx context.Context, f *initFlags) error {
	if f.yes && f.dryRun {
		return usage("--yes and --dry-run exclude each other")
	}
	if err := c.checkOut(f.out); err != nil && !f.dryRun {
		return err
	}
	im, err := clients.Gather(f.out, f.from)
	if err != nil {
		return met{err}
	}
	text := im.Document()
	if err := c.writeText(im.Report(text, f.out)); err != nil {
		return err
	}
	if f.dryRun {
		return nil
	}
	if agreed, err := c.agreed(ctx, f, f.out+" was not written", "Write "+f.out+"?"); !agreed {
		return err
	}
	switch err := clients.WriteNew(f.out, text); {
	case errors.Is(err, fs.ErrExist):
		return unable("%s has come to exist in the meantime, and is not overwritten", f.out)
	case err != nil:
		return unable("--out: %s cannot be written: %v", f.out, textfile.Cause(err))
	}
	c.note("%s is written: onecall tools shows the functions", f.out)
	return c.writeText(clients.Entry(f.out))
}

// agreed reports whether the user agrees to what was shown.
func (c *cli) agreed(ctx context.Context, f *initFlags, refusal, question string) (bool, error) {
	if f.yes {
		return true, nil
	}
	if !c.inTerminal {
		return false, usage("%s: there is no terminal to ask at; write it by --yes", refusal)
	}
	agreed, err := c.ask(ctx, question+" [y/N] ")
	if err != nil || !agreed {
		c.note("nothing was written")
	}
	return agreed && err == nil, err
}

// checkOut refuses a file that is there, one that would not be read as YAML, and one beside another configuration.
func (c *cli) checkOut(out string) error {
	if ext := strings.ToLower(filepath.Ext(out)); ext != ".yaml" && ext != ".yml" {
		return usage("--out: %s must end in .yaml: YAML is what is written", out)
	}
	if _, err := os.Lstat(out); err == nil {
		return unable("%s is there already, and is not overwritten: name another file by --out, or remove it", out)
	}
	if other := filepath.Join(filepath.Dir(out), "onecall.json"); filepath.Base(out) == "onecall.yaml" {
		if _, err := os.Lstat(other); err == nil {
			return unable("beside it would be %s, and one configuration only may be there: name another file by --out, or remove it", other)
		}
	}
	return nil
}

// ask asks a question that is answered by y or yes. An interrupt ends the waiting.
func (c *cli) ask(ctx context.Context, question string) (bool, error) {
	fmt.Fprint(c.err, question)
	answer := make(chan string, 1)
	go func() { // ends with the line, or with the process
		line, _ := bufio.NewReader(c.in).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		line = strings.ToLower(strings.TrimSpace(line))
		return line == "y" || line == "yes", nil
	case <-ctx.Done():
		c.note("")
		return false, answered(exitInterrupted)
	}
}
