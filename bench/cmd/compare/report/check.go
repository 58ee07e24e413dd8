package report

import (
	"fmt"
	"math"

	"github.com/onecall-mcp/onecall/internal/figure"
)

// Comparison compares figures with those of an earlier measurement.
type Comparison struct {
	Compared int
	Missing  []string          // names of figures that were not measured now, such as those that the short form does not have
	Worse    map[string]string // by name, a sentence about each figure that is worse beyond its tolerance
}

// Check compares figures that have a tolerance with those that were measured before. Less is better, unless a figure has a minimum.
func Check(before, now []*Section) (c Comparison) {
	c.Worse = map[string]string{}
	current := map[string]Figure{}
	for _, s := range now {
		for _, f := range s.Figures {
			current[s.Name+"/"+f.Name] = f
		}
	}
	for _, s := range before {
		for _, was := range s.Figures {
			if was.Tolerance == 0 {
				continue
			}
			name := s.Name + "/" + was.Name
			f, ok := current[name]
			if !ok {
				c.Missing = append(c.Missing, name)
				continue
			}
			c.Compared++
			if bound, passed := was.passed(f.Value); passed {
				c.Worse[name] = fmt.Sprintf("%s (%s) is %s, was %s: the bound is %s",
					name, f.Title, figure.Against(f.Value, bound), figure.Text(was.Value), figure.Text(bound))
			}
		}
	}
	return c
}

// goalSlack is the share of its limit by which a goal that was met may be missed.
const goalSlack = 0.2

// passed reports whether value is worse than the figure beyond its tolerance; bound is the worst accepted value. If the figure has met the
// project's own limit, value may miss that limit only by goalSlack.
func (f *Figure) passed(value float64) (bound float64, passed bool) {
	met, hasTarget := f.met()
	if f.Min != 0 {
		bound = f.Value * (1 - f.Tolerance)
		if hasTarget && met {
			bound = max(bound, f.Min*(1-goalSlack))
		}
		return bound, value < bound
	}
	bound = f.Value * (1 + f.Tolerance)
	if hasTarget && met {
		bound = min(bound, f.Max*(1+goalSlack))
	}
	return bound, value > bound
}

// met reports whether the figure meets the project's own limit; hasTarget reports whether there is one.
func (f *Figure) met() (met, hasTarget bool) {
	return (f.Max == 0 || f.Value <= f.Max) && (f.Min == 0 || f.Value >= f.Min), f.Max != 0 || f.Min != 0
}

// near reports whether the project's own limit lies within the 95 % confidence interval of the median. The standard error of a median is
// 1.2533 σ/√n, and the two percentiles of a normal distribution are 2.563 σ apart.
func (f *Figure) near() bool {
	if f.Rounds < 2 || f.High <= f.Low {
		return false
	}
	within := 1.96 * 1.2533 * (f.High - f.Low) / 2.563 / math.Sqrt(float64(f.Rounds))
	return f.Max != 0 && math.Abs(f.Value-f.Max) < within || f.Min != 0 && math.Abs(f.Value-f.Min) < within
}
