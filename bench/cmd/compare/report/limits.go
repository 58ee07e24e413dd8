package report

import "math"

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
