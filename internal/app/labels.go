package app

import (
	"context"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/exposure"
	"github.com/onecall-mcp/onecall/steps"
)

// labels is what flow rules have to know of clients.
type labels struct {
	rules   exposure.Rules
	callers *exposure.Callers
}

// defaultRemember is how long it is known what a caller without sessions was shown.
const defaultRemember = 24 * time.Hour

// openLabels makes what flow rules have to know of clients, if there are rules. Callers are known through a reload: before is the app that
// this one replaces, or nil.
func (a *App) openLabels(c *config.Config, before *App) {
	if len(c.Flows.Rules) == 0 {
		return
	}
	a.labels = &labels{rules: exposure.Rules{Trusted: c.Flows.Trusted, State: a.stateLabels}}
	for _, rule := range c.Flows.EngineRules() {
		if rule.Through == "model" && !slices.Contains(a.labels.rules.Model, rule.From) {
			a.labels.rules.Model = append(a.labels.rules.Model, rule.From)
		}
		if !slices.Contains(a.labels.rules.All, rule.From) {
			a.labels.rules.All = append(a.labels.rules.All, rule.From)
		}
	}
	a.labels.callers = &exposure.Callers{Scope: a.Scope(), Remember: config.Or(c.Flows.Remember, defaultRemember),
		Journal: func() *journal.Journal { return a.Journal },
		Failed: func(err error) {
			a.warn(fault.New(fault.Unavailable, "what a caller was shown could not be kept for other processes: %s", fault.Message(err)))
		}}
	if before != nil && before.labels != nil {
		a.labels.callers.Take(before.labels.callers)
	}
}

// labelsOf returns what the client of a context was shown, and remembers what its request sends. The client is the session of the context;
// without one, it is that of a server on stdio, or the caller of a server over HTTP. Each command and each run of a worker starts over.
func (a *App) labelsOf(ctx context.Context, caller string, request []byte) chain.SessionLabels {
	session, record, keep := steps.SessionOf(ctx), &exposure.Record{}, (func([]string))(nil)
	if session == nil && a.process.serve {
		session = a.process.session
	}
	switch {
	case session != nil:
		record = exposure.Of(session)
	case a.process.serve && len(a.labels.rules.Model) > 0: // else nothing asks what it was shown
		record, keep = a.labels.callers.Of(ctx, caller, a.labels.rules.Model)
	}
	return a.labels.rules.Open(ctx, caller, record, keep, request)
}

// runTyped runs a request that a person has typed, for which nothing counts that a model was shown.
func (a *App) runTyped(ctx context.Context, request []byte, caller *chain.Caller) *chain.Answer {
	if a.labels != nil {
		with := *caller
		with.Labels, caller = a.labels.rules.Open(ctx, with.ID, &exposure.Record{}, nil, nil), &with
	}
	return a.Engine.Run(ctx, request, caller)
}

// sessionLabels is labelsOf as a server uses it; nil: there are no flow rules.
func (a *App) sessionLabels() func(context.Context, string, []byte) chain.SessionLabels {
	if a.labels == nil {
		return nil
	}
	return a.labelsOf
}

// stateLabels returns the labels of values in state; false: they are not known.
func (a *App) stateLabels(ctx context.Context, caller string, args []byte) ([]steps.Label, bool) {
	if a.state == nil {
		return nil, true
	}
	list, err := a.state.Labels(ctx, caller, args)
	return list, err == nil
}
