package app

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// looked is what was found when it was last looked whether the server is ready.
type looked struct {
	mu   sync.Mutex
	at   time.Time
	what error
}

// Whoever asks makes the server look once in lookAgain, and for lookTime at most.
const (
	lookAgain = time.Second
	lookTime  = 2 * time.Second
)

// ready reports whether all is there that calls need: unavailable with what is not, in one line without secrets. Sources that
// have started once, or failed to, are enough: what others offer goes on. A server that shuts down is not ready.
func (s *server) ready(ctx context.Context) error {
	if server := s.server.Load(); server != nil && server.Stats().Ending {
		return fault.New(fault.Unavailable, "not ready: the server is shutting down")
	}
	l := &s.looked
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) >= lookAgain {
		looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime) // the answer is for others too
		defer cancel()
		l.what = s.look(looking)
		l.at = time.Now()
	}
	return l.what
}

// lookAtStores asks each store of a configuration once, so that what is wrong with one is in the log before somebody needs it:
// telemetry tells. Nobody waits for that, as a store may come later.
func (s *server) lookAtStores(ctx context.Context, a *App) {
	ctx, cancel := context.WithTimeout(ctx, 5*lookTime) // past the store's own, which says more
	defer cancel()
	if a.results != nil {
		_, _, _ = a.results.Value(ctx, "", noResult)
	}
}

func (s *server) look(ctx context.Context) error {
	a := s.current.Load()
	if a == nil || s.server.Load() == nil {
		return fault.New(fault.Unavailable, "not ready: the server is starting")
	}
	var lacking []string
	var starting []string
	for _, info := range a.Catalog.Sources() {
		if info.State == steps.StateStarting {
			starting = append(starting, info.Name)
		}
	}
	if len(starting) > 0 {
		slices.Sort(starting)
		lacking = append(lacking, fault.Clip("sources are starting: "+strings.Join(starting, ", "), 500))
	}
	if a.checkResults(ctx) != nil {
		lacking = append(lacking, "the result store cannot be reached")
	}
	if a.process.recording != nil && a.process.recording.recorder.Failing() != nil {
		lacking = append(lacking, "the recording cannot be written")
	}
	if a.checkJournal(ctx) != nil {
		lacking = append(lacking, "the journal cannot be written, and calls that write are refused")
	}
	if len(lacking) > 0 {
		return fault.New(fault.Unavailable, "not ready: %s", strings.Join(lacking, "; "))
	}
	return nil
}

// checkResults reports why the store of results cannot be used now.
func (a *App) checkResults(ctx context.Context) error {
	if a.results == nil {
		return nil
	}
	_, _, err := a.results.Value(ctx, "", noResult)
	if fault.CodeOf(err) == fault.TokenExpired {
		return nil
	}
	return err
}

// checkJournal reports why the journal cannot be written now.
func (a *App) checkJournal(ctx context.Context) error {
	if a.Journal == nil {
		return nil
	}
	return a.Journal.Check(ctx)
}

// noResult is the token of nothing, by which a store reports whether it answers.
const noResult = budget.TokenPrefix + "ready"
