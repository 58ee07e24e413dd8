package plan

// Unknown is an end of an Interval of which nothing is known.
const Unknown = -1

// Interval says how much of something there will be: at least, probably and at most. Likely and High may be Unknown.
type Interval struct{ Low, Likely, High int64 }

// exactly returns the interval of a number that is known.
func exactly(n int64) Interval { return Interval{n, n, n} }

// plus returns the interval of the sum.
func (a Interval) plus(b Interval) Interval {
	return Interval{sum(a.Low, b.Low), sum(a.Likely, b.Likely), sum(a.High, b.High)}
}

// sum adds two ends.
func sum(x, y int64) int64 {
	if x == Unknown || y == Unknown {
		return Unknown
	}
	return min(x+y, maxSum)
}

// times returns the interval of the product.
func (a Interval) times(b Interval) Interval {
	return Interval{product(a.Low, b.Low), product(a.Likely, b.Likely), product(a.High, b.High)}
}

// product multiplies two ends. Nothing, however often, is nothing.
func product(x, y int64) int64 {
	switch {
	case x == 0 || y == 0:
		return 0
	case x == Unknown || y == Unknown:
		return Unknown
	case x > maxSum/y:
		return maxSum
	}
	return x * y
}

// or returns the interval of what is a, as is likely, or something from low to high.
func (a Interval) or(low, high int64) Interval {
	a.Low = min(a.Low, low)
	if a.High != Unknown {
		if a.High = max(a.High, high); high == Unknown {
			a.High = Unknown
		}
	}
	return a.inside()
}

// AtMost returns the interval of what is cut off above a limit.
func (a Interval) AtMost(limit int64) Interval {
	if a.High == Unknown || a.High > limit {
		a.High = limit
	}
	a.Low = min(a.Low, a.High)
	return a.inside()
}

// inside moves what is likely between the ends.
func (a Interval) inside() Interval {
	if a.Likely == Unknown {
		return a
	}
	a.Likely = max(a.Likely, a.Low)
	if a.High != Unknown {
		a.Likely = min(a.Likely, a.High)
	}
	return a
}
