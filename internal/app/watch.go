package app

import (
	"context"
	"time"

	"github.com/onecall-mcp/onecall/internal/chainfile"
)

// watchInterval is how often a Watch checks its files. It is short because the user who saved a file is waiting.
const watchInterval = 200 * time.Millisecond

// Watch waits for changes of files, like a server waits for changes of its configuration.
type Watch struct{ paths, folders []string }

// NewWatch returns a watch of files and of the saved chains in folders. Files and folders may come and go; "" is ignored.
func NewWatch(paths, folders []string) *Watch { return &Watch{paths, folders} }

// State returns the current state of the files and saved chains.
func (w *Watch) State() WatchState {
	var s fileState
	s.add("", w.paths...)
	for _, folder := range w.folders {
		s.add(chainsPointer, folder)
		list, _ := chainfile.List(folder)
		for _, file := range list {
			s.add(chainsPointer, file.Path)
		}
	}
	return WatchState{s}
}

// WatchState is the state of a Watch's files at one moment.
type WatchState struct{ files fileState }

// Equal reports whether the files have the same content in both states.
func (s WatchState) Equal(other WatchState) bool { return s.files.sameContent(other.files) }

// Changed waits until the content of the files differs from before and has been stable for an interval, so that writers can finish. If ctx
// ends first, it returns before and false.
func (w *Watch) Changed(ctx context.Context, before WatchState) (now WatchState, ok bool) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	last := before.files
	for {
		select {
		case <-ctx.Done():
			return before, false
		case <-ticker.C:
		}
		now := w.State()
		quiet := now.files.sameStat(last) && now.files.sameContent(last) // a file may be written between stat and read
		if last = now.files; quiet && !now.Equal(before) {
			return now, true
		}
	}
}
