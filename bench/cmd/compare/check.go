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

// checkRounds is how often a figure is measured before it counts as worse: a machine is busy for a while, a loss stays.
const checkRounds = 3

// checked fails if a figure is worse than the committed one each time that it is measured: its section is measured again first.
func (c *comparison) checked(ctx context.Context, committed, results string) error {
	worse, err := c.worse(committed, results)
	for round := 1; err == nil && len(worse) > 0; round++ {
		list := strings.Join(slices.Sorted(maps.Values(worse)), "\n")
		if round == checkRounds {
			return fmt.Errorf("%d figures are worse beyond their tolerance:\n%s", len(worse), list)
		}
		c.Log("measured again, as it is worse:\n%s", list)
		again := slices.DeleteFunc(slices.Clone(c.sections), func(s section) bool {
			for name := range worse {
				if strings.HasPrefix(name, s.name+"/") {
					return false
				}
			}
			return true
		})
		if err := c.measure(ctx, again, results); err != nil {
			return err
		}
		before := worse
		if worse, err = c.worse(committed, results); err == nil {
			maps.DeleteFunc(worse, func(name, _ string) bool { return before[name] == "" })
		}
	}
	return err
}

// worse tells which of the figures measured now are worse than the committed ones, by their names.
func (c *comparison) worse(committed, results string) (map[string]string, error) {
	before, err := report.ReadAll(committed, names(c.sections))
	if err != nil {
		return nil, err
	}
	now, err := report.ReadAll(results, names(c.sections))
	if err != nil {
		return nil, err
	}
	checked := report.Check(before, now)
	c.Log("%d of %d figures compared with those of bench/results", checked.Compared, checked.Compared+len(checked.Missing))
	if len(checked.Missing) > 0 {
		c.Log("not measured: %s", strings.Join(checked.Missing, ", "))
	}
	if checked.Compared == 0 {
		return nil, errors.New("no figure was compared")
	}
	return checked.Worse, nil
}
