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

// newLadder creates the ladder; nil: it is off.
func (p *process) newLadder(c *config.File) (*ladder.Ladder, []*fault.Error) {
	mode, err := ladder.ParseMode(config.Or(c.Ladder.Mode, ladder.Off.String()))
	if err != nil { // config reports the invalid mode; everything else is checked as for enforce
		mode = ladder.Enforce
	}
	created, faults := ladder.New(&ladder.Options{
		Mode: mode, Subject: config.Or(c.Ladder.Subject, ""), Rungs: c.Ladder.Rungs, Partial: p.Replay != "", Log: p.log,
	})
	for i, f := range faults {
		faults[i] = c.FaultAt("/ladder", f)
	}
	return created, faults
}

// rung returns the function by which the engine looks up the rung of a function; nil: there is no ladder.
func (a *App) rung() func(*steps.Entry) int {
	if a.ladder == nil {
		return nil
	}
	return (*steps.Entry).Rung
}

// rungEntries returns the functions of the ladder, which judges a call by those that were not called.
func (a *App) rungEntries() (entries []*steps.Entry) {
	if a.ladder == nil {
		return nil
	}
	for _, entry := range a.Catalog.Registry().All() {
		if entry.Rung() >= 0 {
			entries = append(entries, entry)
		}
	}
	return entries
}

// awaitLadder waits for the functions of an enforced ladder and checks it.
func (a *App) awaitLadder(ctx context.Context) error {
	if ladderEnforced(a.config) {
		steps.Await(ctx, a.Catalog, func(now *steps.Registry) bool {
			return !slices.ContainsFunc(a.ladder.Unresolved(now),
				func(f *fault.Error) bool { return steps.Pending(a.Catalog, rungName(a.config, f)) })
		})
	}
	return a.checkLadder()
}

func ladderEnforced(c *config.File) bool {
	return config.Or(c.Ladder.Mode, "") == ladder.Enforce.String()
}

// rungName returns the name of the rung that a fault of the ladder is about.
func rungName(c *config.File, f *fault.Error) string {
	i, _ := strconv.Atoi(strings.TrimPrefix(f.At, "/rungs/"))
	return c.Ladder.Rungs[i]
}

// checkLadder refuses the configuration if its ladder is enforced and broken.
func (a *App) checkLadder() error {
	if faults := a.brokenRungs(); len(faults) > 0 && ladderEnforced(a.config) {
		return a.config.Refused(faults)
	}
	return nil
}

// brokenRungs returns faults for rungs that name no function, unless an unavailable source may have it, and for a subject that applies to
// no call. In a replay nothing is reported, as only the functions that were called are known.
func (a *App) brokenRungs() (broken []*fault.Error) {
	if a.process.NoSources || a.cassette != nil {
		return nil
	}
	down, locked := steps.AbsentSources(a.Catalog)
	absent := len(down)+len(locked) > 0
	for _, f := range a.ladder.Unresolved(a.Catalog.Registry()) {
		name := rungName(a.config, f)
		if steps.Qualified(a.Catalog, name) && steps.Unavailable(a.Catalog, name) == nil || !absent {
			broken = append(broken, a.config.FaultAt("/ladder", f))
		}
	}
	if unjudged := a.ladder.Unjudged(a.Catalog.Registry()); len(unjudged) > 0 && len(unjudged) == len(a.config.Ladder.Rungs)-1 {
		f := fault.New(fault.BadRequest, "no function above the first rung has an argument %.60q: no call would be judged",
			config.Or(a.config.Ladder.Subject, ""))
		f.Nearest = unjudged[0].Nearest
		broken = append(broken, a.config.FaultAt("/ladder", f.Under("/subject")))
	}
	return broken
}

// suspectRungs finds rungs that name no function of the registry or whose calls cannot be judged.
func (s *subject) suspectRungs() []*fault.Error {
	faults := s.ladder.Unresolved(s.registry)
	for _, f := range faults {
		if ladderEnforced(s.config) {
			f.Message += ": calls that may skip it are refused"
		} else {
			f.Message += ": the ladder lacks this rung"
		}
	}
	faults = append(faults, s.ladder.Unjudged(s.registry)...)
	for i, f := range faults {
		faults[i] = f.Under("/ladder")
	}
	return faults
}
