package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// checkRounds is how often a figure is measured before it counts as worse. A busy machine recovers, a regression stays.
const checkRounds = 3

// checkFigures returns an error if a figure is worse than the committed one each time that it is measured. It measures the sections of
// worse figures again, up to checkRounds measurements in all.
func (c *comparison) checkFigures(ctx context.Context, committed, results string) error {
	worse, err := c.worse(committed, results)
	for round := 1; err == nil && len(worse) > 0; round++ {
		list := strings.Join(slices.Sorted(maps.Values(worse)), "\n")
		if round == checkRounds {
			return fmt.Errorf("%d figures are worse beyond their tolerance:\n%s", len(worse), list)
		}
		c.Log("worse, so measured again:\n%s", list)
		rerun := slices.DeleteFunc(slices.Clone(c.sections), func(s section) bool {
			for name := range worse {
				if strings.HasPrefix(name, s.name+"/") {
					return false
				}
			}
			return true
		})
		if err := c.measure(ctx, rerun, results); err != nil {
			return err
		}
		before := worse
		if worse, err = c.worse(committed, results); err == nil {
			maps.DeleteFunc(worse, func(name, _ string) bool { return before[name] == "" })
		}
	}
	return err
}

// worse returns the figures that regressed, by name. It fails if a figure was not measured, unless mayMiss allows that.
func (c *comparison) worse(committed, results string) (map[string]string, error) {
	before, err := report.ReadAll(names(c.sections), committed)
	if err != nil {
		return nil, err
	}
	now, err := report.ReadAll(names(c.sections), results)
	if err != nil {
		return nil, err
	}
	checked := report.Check(before, now)
	c.Log("%d of %d figures compared with those of bench/results", checked.Compared, checked.Compared+len(checked.Missing))
	if checked.Compared == 0 {
		return nil, errors.New("no figure was compared")
	}
	if vanished := slices.DeleteFunc(slices.Clone(checked.Missing), c.mayMiss); len(vanished) > 0 {
		return nil, fmt.Errorf("figures of bench/results that were not measured: %s", strings.Join(vanished, ", "))
	}
	if len(checked.Missing) > 0 {
		c.Log("not measured in this form: %s", strings.Join(checked.Missing, ", "))
	}
	return checked.Worse, nil
}

// Prefixes of the names of figures that are measured only in the long form, longOnly, or only with the data sets, withData.
var (
	longOnly = []string{"peers/empty/fastest-peer", "peers/dependent10/fastest-peer", "peers/clients16/fastest-peer",
		"peers/dependent10/vmcp", "peers/memory/", "scale/clients10000/", "tables/servers/"}
	withData = []string{"pipelines/real/"}
)

// mayMiss reports whether a figure may be missing from this run, because the run is the short form or has no data sets.
func (c *comparison) mayMiss(name string) bool {
	begins := func(with string) bool { return strings.HasPrefix(name, with) }
	return c.Short && slices.ContainsFunc(longOnly, begins) || c.Data == "" && slices.ContainsFunc(withData, begins)
}
