package figure

import (
	"math"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
)

// Millis spells a duration, given in milliseconds, with two or three digits: 4.2 ms, 850 ms, 8.3 s, 88 s, 12 min, 3.5 h.
func Millis(ms float64) string {
	round := func(v float64, decimals int, unit string) string {
		return strconv.FormatFloat(v, 'f', decimals, 64) + unit
	}
	switch {
	case ms < 9.95:
		return round(ms, 1, " ms")
	case ms < 999.5:
		return round(ms, 0, " ms")
	case ms < 9_950:
		return round(ms/1e3, 1, " s")
	case ms < 119_500:
		return round(ms/1e3, 0, " s")
	case ms < 7_170_000:
		return round(ms/60e3, 0, " min")
	}
	return round(ms/3_600e3, 1, " h")
}

// Ago spells how long before now a time is, or its day if that is more than a week: just now, 40 s ago, 3 min ago, 5 h ago, 2 d ago,
// 2026-01-31.
func Ago(t, now time.Time) string {
	if now.Sub(t) >= humanize.Week {
		return t.Local().Format(time.DateOnly)
	}
	if now.Before(t) { // another machine's clock
		t = now
	}
	return humanize.CustomRelTime(t, now, "ago", "", []humanize.RelTimeMagnitude{
		{D: 10 * time.Second, Format: "just now", DivBy: 1},
		{D: time.Minute, Format: "%d s %s", DivBy: time.Second},
		{D: time.Hour, Format: "%d min %s", DivBy: time.Minute},
		{D: humanize.Day, Format: "%d h %s", DivBy: time.Hour},
		{D: math.MaxInt64, Format: "%d d %s", DivBy: humanize.Day},
	})
}
