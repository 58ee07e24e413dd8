package app

import (
	"context"
	"time"

	"github.com/onecall-mcp/onecall/internal/chainfile"
)

// watchEvery is how often the files of a Watch are looked at: somebody has just saved one, and waits.
const watchEvery = 200 * time.Millisecond

// Watch waits for changes of files, as a served configuration is watched.
type Watch struct{ paths, folders []string }

// NewWatch makes a watch of files, and of the saved chains in folders. Files and folders may come and go; "" is no path.
func NewWatch(paths, folders []string) *Watch { return &Watch{paths, folders} }

// State is what the files hold at one moment.
func (w *Watch) State() WatchState {
	var s fileState
	s.add("", w.paths...)
	for _, folder := range w.folders {
		s.add(chainsAt, folder)
		list, _ := chainfile.List(folder)
		for _, file := range list {
			s.add(chainsAt, file.Path)
		}
	}
	return WatchState{s}
}

// WatchState is what the files of a Watch hold at one moment.
type WatchState struct{ files fileState }

// Equal reports whether the files hold the same in another state.
func (s WatchState) Equal(other WatchState) bool { return s.files.equal(other.files) }

// Changed waits until the files hold something else than they did, and do so for a while: whoever writes them is given time to end.
// ok is false if ctx ends first.
func (w *Watch) Changed(ctx context.Context, before WatchState) (now WatchState, ok bool) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	last := before.files
	for {
		select {
		case <-ctx.Done():
			return before, false
		case <-ticker.C:
		}
		looked := w.State()
		quiet := looked.files.untouched(last) && looked.files.equal(last) // a file may be written between the look and the reading
		if last = looked.files; quiet && !looked.Equal(before) {
			return looked, true
		}
	}
}
