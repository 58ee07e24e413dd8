package cli

import (
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/config"
)

// clearScreen goes to the first line of a terminal and clears all below.
const clearScreen = "\x1b[H\x1b[2J"

// watcher runs one chain again and again.
type watcher struct {
	*cli
	f        *runFlags
	file     *chainfile.File
	settings *app.Watch // what the app was made of: the configuration and the saved chains
	app      *app.App   // nil: it could not be opened
	opened   app.WatchState
}

// watch runs a chain, and again whenever its file, what it reads as input, a saved chain or the configuration has changed, until it is
// interrupted. Only what reads is run, unless it is only planned: nobody who saves a file means to write once more.
func (c *cli) watch(cmd *cobra.Command, f *runFlags, files []chainfile.File) error {
	ctx, file := cmd.Context(), &files[0]
	if len(files) > 1 || file.Lines || file.Path == "" {
		return usage("--watch goes with the file of one chain")
	}
	input := ""
	if path, ok := strings.CutPrefix(f.input, "@"); ok {
		input = path
	}
	configPath, _ := config.Find(c.configPath) // what is wrong with it is told where it is loaded
	w := &watcher{cli: c, f: f, file: file, settings: app.NewWatch([]string{configPath}, c.chainFolders())}
	defer w.close()
	all := app.NewWatch([]string{file.Path, input, configPath}, c.chainFolders())
	for state, again := all.State(), false; ; again = true {
		if err := w.clear(again); err != nil {
			return err
		}
		_ = c.exitStatus(w.run(cmd)) // it is shown, and the next save may mend it
		if c.errTerminal && ctx.Err() == nil {
			c.note("%s  waiting for a change of %s; ^C ends", time.Now().Format(time.TimeOnly), file.Name)
		}
		var changed bool
		if state, changed = all.Changed(ctx, state); !changed {
			return answered(exitInterrupted)
		}
	}
}

// clear clears a terminal between two runs.
func (w *watcher) clear(again bool) error {
	if !again || !w.outTerminal || w.plain {
		return nil
	}
	_, err := io.WriteString(w.out, clearScreen)
	return err
}

// run runs the chain once. The flags are read again, as an input may stand in a file.
func (w *watcher) run(cmd *cobra.Command) (err error) {
	override, err := w.f.override(cmd)
	if err != nil {
		return err
	}
	if !override.DryRun {
		override.ReadOnly, override.WhyReadOnly = true, "--watch runs a chain again at each save: leave it out, or add --dry-run, which shows the plan"
	}
	if now := w.settings.State(); w.app == nil || !now.Equal(w.opened) {
		w.close()
		if w.app, err = w.open(cmd.Context(), app.Options{Calls: true, Record: w.f.record, Replay: w.f.replay}); err != nil {
			w.app = nil
			return err
		}
		w.opened = now
	}
	return w.runFile(cmd.Context(), w.app, w.file, override, w.f.out)
}

func (w *watcher) close() {
	if w.app != nil {
		_ = w.exitStatus(w.app.Close())
	}
	w.app = nil
}
