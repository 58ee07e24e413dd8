package app

import (
	"context"

	"github.com/onecall-mcp/onecall/steps"
)

// logSources logs changes of an app's sources until ctx is done: once when a source becomes unavailable or does not start, and once when it
// is ready again.
func (s *server) logSources(ctx context.Context, a *App) {
	lost := map[string]bool{}
	for {
		changed := a.Catalog.Changed() // before reading the states, so that no change is missed
		for _, source := range a.Catalog.Sources() {
			log := s.log.With("source", source.Name, "state", string(source.State))
			switch source.State {
			case steps.StateRetrying, steps.StateFailed:
				if !lost[source.Name] {
					lost[source.Name] = true
					log.WarnContext(ctx, "a source is unavailable", "error", source.Error)
				}
			case steps.StateReady:
				if lost[source.Name] {
					delete(lost, source.Name)
					log.InfoContext(ctx, "a source is back")
				}
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
