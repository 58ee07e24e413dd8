package journal

import (
	"math"
	"time"
)

// Day sums up one day (UTC) of one caller, by chain and by function. It has no arguments.
type Day struct {
	Day      string `json:"day"` // the date, as 2006-01-02
	Caller   string `json:"caller"`
	Chain    string `json:"chain"`    // the chain's name; "": it has none, or OtherChains if there are too many
	Function string `json:"function"` // the function; "": this sums up whole runs

	Count    int64 `json:"count"`    // the number of calls of the function, or of runs
	Failures int64 `json:"failures"` // how many of Count failed
	Calls    int64 `json:"calls"`    // for runs: the number of their calls
	Tokens   int64 `json:"tokens"`   // for runs: the tokens of their answers
	Stored   int64 `json:"kept"`     // for runs: the tokens of results that are in no answer
	Times    Times `json:"times"`    // how long each call or run took
	Sizes    Sizes `json:"sizes"`    // for a function: the sizes of its results
}

// DayOf returns the day of a time.
func DayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Add adds another sum of the same day, caller, chain and function.
func (d *Day) Add(o *Day) {
	d.Count += o.Count
	d.Failures += o.Failures
	d.Calls += o.Calls
	d.Tokens += o.Tokens
	d.Stored += o.Stored
	for bucket, n := range o.Times {
		if d.Times == nil {
			d.Times = Times{}
		}
		d.Times[bucket] += n
	}
	for _, c := range o.Sizes {
		d.Sizes.add(c.Bucket, c.Count)
	}
}

// Times counts durations in buckets. Each is 1/8 wider than the one before it, so a quantile is off by at most 6 %. Bucket 0 is up to a
// microsecond.
type Times map[int]int64

const bucketRatio = 1.125

// Count counts a duration.
func (t Times) Count(d time.Duration) { t[bucketOf(float64(d)/float64(time.Microsecond))]++ }

// bucketOf returns the bucket of a number of microseconds or bytes.
func bucketOf(n float64) int {
	if n <= 1 {
		return 0
	}
	return int(math.Ceil(math.Log(n) / math.Log(bucketRatio)))
}

// Quantile returns the duration that a fraction q (0 to 1) of all durations does not exceed, as the middle of its bucket, or 0 if there are
// none.
func (t Times) Quantile(q float64) time.Duration {
	total, highest := int64(0), 0
	for bucket, n := range t {
		total, highest = total+n, max(highest, bucket)
	}
	rank := int64(math.Ceil(q * float64(total)))
	for bucket := 0; bucket <= highest; bucket++ {
		if rank -= t[bucket]; rank <= 0 && total > 0 {
			return time.Duration(math.Pow(bucketRatio, float64(bucket)-0.5) * float64(time.Microsecond))
		}
	}
	return 0
}
