package main

import (
	"log/slog"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/ladder"
)

// ladderConfig is an order of functions from cheap to costly, to which calls are kept.
type ladderConfig struct {
	Mode    *string  `yaml:"mode" validate:"omitnil,oneof=off warn enforce"`
	Subject *string  `yaml:"subject" validate:"omitnil,min=1"` // the argument that says what a call is about
	Rungs   []string `yaml:"rungs"`
}

// newLadder makes the ladder; nil where it is off. log gets the calls that it warns of; nil: nobody logs.
func (c *configFile) newLadder(log *slog.Logger) (*ladder.Ladder, []*fault.Error) {
	mode, err := ladder.ParseMode(valueOr(c.Ladder.Mode, ladder.Off.String()))
	if err != nil { // its word is told of when it is read; the rest is checked as for a ladder that is on
		mode = ladder.Enforce
	}
	made, faults := ladder.New(&ladder.Options{Mode: mode, Subject: valueOr(c.Ladder.Subject, ""), Rungs: c.Ladder.Rungs, Log: log})
	for i, f := range faults {
		faults[i] = c.under("/ladder", f)
	}
	return made, faults
}

// rung places functions on the ladder for the engine; nil: there is none.
func (a *app) rung() func(*steps.Spec) int {
	if a.ladder == nil {
		return nil
	}
	return a.ladder.Rung
}

// unusedRungs tells of rungs that fit no function, or whose calls cannot be judged.
func (a *app) unusedRungs(registry *steps.Registry) []*fault.Error {
	odd := a.ladder.Unmatched(registry)
	for i, f := range odd {
		odd[i] = f.Under("/ladder")
	}
	return odd
}
