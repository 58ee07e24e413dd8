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

// clearScreen moves to the top of a terminal and clears it.
const clearScreen = "\x1b[H\x1b[2J"

// watcher runs one chain again and again.
type watcher struct {
	*cli
	f           *runFlags
	file        *chainfile.File
	watched     *app.Watch     // what the app depends on: the configuration and the saved chains
	app         *app.App       // nil: it is not open, or could not be opened
	openedState app.WatchState // the state of watched when app was opened
}

// watch runs a chain, and runs it again when its file, its input file, a saved chain or the configuration changes, until it is
// interrupted. It runs only chains that read, unless it only plans them: saving a file is not a request to repeat the writes.
func (c *cli) watch(cmd *cobra.Command, f *runFlags, files []chainfile.File) error {
	ctx, file := cmd.Context(), &files[0]
	if len(files) > 1 || file.Lines || file.Path == "" {
		return usageErrorf("--watch goes with the file of one chain")
	}
	input := ""
	if path, ok := strings.CutPrefix(f.input, "@"); ok {
		input = path
	}
	configPath, _ := config.Find(c.configPath) // loading reports its faults
	w := &watcher{cli: c, f: f, file: file, watched: app.NewWatch([]string{configPath}, c.chainFolders())}
	defer w.close()
	all := app.NewWatch([]string{file.Path, input, configPath}, c.chainFolders())
	for state, again := all.State(), false; ; again = true {
		if err := w.clear(again); err != nil {
			return err
		}
		_ = c.exitStatus(w.run(cmd)) // the error is shown; the next save may fix it
		if ctx.Err() == nil {
			c.noticef("%s  waiting for a change of %s; ^C ends", time.Now().Format(time.TimeOnly), file.Name)
		}
		var changed bool
		if state, changed = all.Changed(ctx, state); !changed {
			return exitError(exitInterrupted)
		}
	}
}

// clear clears the terminal before a run other than the first.
func (w *watcher) clear(again bool) error {
	if !again || !w.outTerminal || w.plain {
		return nil
	}
	_, err := io.WriteString(w.out, clearScreen)
	return err
}

// run runs the chain once. It reads the flags again, because the input may be in a file.
func (w *watcher) run(cmd *cobra.Command) (err error) {
	override, err := w.f.override(cmd)
	if err != nil {
		return err
	}
	if !override.DryRun {
		override.ReadOnly = true
		override.WhyReadOnly = "--watch runs a chain again at each save: leave out --watch, or add --dry-run, which shows the plan"
	}
	if now := w.watched.State(); w.app == nil || !now.Equal(w.openedState) {
		w.close()
		if w.app, err = w.open(cmd.Context(), app.Options{Calls: true, Record: w.f.record, Replay: w.f.replay}); err != nil {
			w.app = nil
			return err
		}
		w.openedState = now
	}
	return w.runFile(cmd.Context(), w.app, w.file, override, w.f)
}

func (w *watcher) close() {
	if w.app != nil {
		_ = w.exitStatus(w.app.Close())
	}
	w.app = nil
}
