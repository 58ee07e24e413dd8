package app

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/ladder"
)

// newLadder makes the ladder of a command; nil if it is off.
func (p *process) newLadder(c *config.File) (*ladder.Ladder, []*fault.Error) {
	mode, err := ladder.ParseMode(config.Or(c.Ladder.Mode, ladder.Off.String()))
	if err != nil { // its word is told of when it is read; the rest is checked as for a ladder that is on
		mode = ladder.Enforce
	}
	made, faults := ladder.New(&ladder.Options{
		Mode: mode, Subject: config.Or(c.Ladder.Subject, ""), Rungs: c.Ladder.Rungs, Partial: p.Replay != "", Log: p.log,
	})
	for i, f := range faults {
		faults[i] = c.Under("/ladder", f)
	}
	return made, faults
}

// rung places functions on the ladder for the engine; nil: there is none.
func (a *App) rung() func(*steps.Entry) int {
	if a.ladder == nil {
		return nil
	}
	return (*steps.Entry).Rung
}

// awaitLadder waits for the functions of a ladder that is enforced, and checks it.
func (a *App) awaitLadder(ctx context.Context) error {
	if enforced(a.config) {
		steps.Await(ctx, a.Catalog, func(now *steps.Registry) bool {
			return !slices.ContainsFunc(a.ladder.Unresolved(now), func(f *fault.Error) bool { return steps.Pending(a.Catalog, rungName(a.config, f)) })
		})
	}
	return a.checkLadder()
}

func enforced(c *config.File) bool { return config.Or(c.Ladder.Mode, "") == ladder.Enforce.String() }

// rungName is the name of the rung that a fault of the ladder is about.
func rungName(c *config.File, f *fault.Error) string {
	i, _ := strconv.Atoi(strings.TrimPrefix(f.At, "/rungs/"))
	return c.Ladder.Rungs[i]
}

// checkLadder refuses the configuration if its ladder is enforced and has a rung that names no function, or judges nothing.
func (a *App) checkLadder() error {
	if faults := a.brokenRungs(); len(faults) > 0 && enforced(a.config) {
		return a.config.Refused(faults)
	}
	return nil
}

// brokenRungs reports the rungs that name no function, unless a source that is not available now may have it, and a subject by which
// no call can be judged. In a replay only functions that were called are known.
func (a *App) brokenRungs() (broken []*fault.Error) {
	if a.process.NoSources || a.cassette != nil {
		return nil
	}
	absent := len(steps.Absent(a.Catalog)) > 0
	for _, f := range a.ladder.Unresolved(a.Catalog.Registry()) {
		name := rungName(a.config, f)
		if steps.Qualified(a.Catalog, name) && steps.Down(a.Catalog, name) == nil || !absent {
			broken = append(broken, a.config.Under("/ladder", f))
		}
	}
	if unjudged := a.ladder.Unjudged(a.Catalog.Registry()); len(unjudged) > 0 && len(unjudged) == len(a.config.Ladder.Rungs)-1 {
		f := fault.New(fault.BadRequest, "no function above the first rung has an argument %.60q: no call would be judged", config.Or(a.config.Ladder.Subject, ""))
		f.Nearest = unjudged[0].Nearest
		broken = append(broken, a.config.Under("/ladder", f.Under("/subject")))
	}
	return broken
}

// oddRungs reports the rungs that name no function, or whose calls cannot be judged.
func (a *App) oddRungs(registry *steps.Registry) []*fault.Error {
	odd := a.ladder.Unresolved(registry)
	for _, f := range odd {
		if enforced(a.config) {
			f.Message += ": calls that may skip it are refused"
		} else {
			f.Message += ": the ladder is without this rung"
		}
	}
	odd = append(odd, a.ladder.Unjudged(registry)...)
	for i, f := range odd {
		odd[i] = f.Under("/ladder")
	}
	return odd
}
