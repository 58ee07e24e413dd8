package app

import (
	"context"

	"github.com/onecall-mcp/onecall/steps"
)

// logSources logs what becomes of an app's sources, until ctx is done: that one is lost or does not come, once however often it
// is tried, and that it is back.
func (s *server) logSources(ctx context.Context, a *App) {
	lost := map[string]bool{}
	for {
		changed := a.Catalog.Changed() // before the states: no change is missed
		for _, source := range a.Catalog.Sources() {
			log := s.log.With("source", source.Name, "state", string(source.State))
			switch source.State {
			case steps.StateRetrying, steps.StateFailed:
				if !lost[source.Name] {
					lost[source.Name] = true
					log.WarnContext(ctx, "a source is not there", "error", source.Error)
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
