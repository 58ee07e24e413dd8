package app

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// stateSource is a source whose state the test sets.
type stateSource struct {
	mu       sync.Mutex
	status   steps.Status
	onChange func()
}

func (m *stateSource) Functions() []steps.Function { return nil }
func (m *stateSource) Close() error                { return nil }
func (m *stateSource) Watch(onChange func())       { m.onChange = onChange }
func (m *stateSource) Status() steps.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

func (m *stateSource) setState(state steps.State, why *fault.Error) {
	m.mu.Lock()
	m.status = steps.Status{State: state, Error: why}
	m.mu.Unlock()
	m.onChange()
}

// TestLogSources: the loss of a source is logged once, and so is its return.
func TestLogSources(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		catalog, err := steps.NewCatalog(nil)
		if err != nil {
			t.Fatal(err)
		}
		m := &stateSource{status: steps.Status{State: steps.StateStarting}}
		if err := catalog.Add("notes", m); err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		s := &server{log: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.logSources(ctx, &App{Catalog: catalog}) })
		for _, state := range []steps.State{steps.StateRetrying, steps.StateStarting, steps.StateRetrying, steps.StateStarting,
			steps.StateReady, steps.StateIdle, steps.StateReady, steps.StateFailed} {
			synctest.Wait()
			m.setState(state, fault.New(fault.Unavailable, "no such program"))
		}
		synctest.Wait()
		cancel()
		running.Wait()
		const lost, back = `level=WARN msg="a source is unavailable" source=notes state=`,
			`level=INFO msg="a source is back" source=notes state=ready`
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[0], lost+"retrying error=") || !strings.Contains(lines[0], "no such program") ||
			lines[1] != back || !strings.HasPrefix(lines[2], lost+"failed") {
			t.Errorf("want one loss, one return and one loss, got\n%s", text.String())
		}
	})
}
