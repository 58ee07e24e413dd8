// Package figure spells numbers, the same way in every document and table.
package figure

import (
	"math"
	"strconv"
	"strings"
)

// Text spells a number, with commas between thousands: a whole number exactly, any other from 1 to 1,000 with three significant digits, a
// larger one rounded to a whole number, and one below 1 with two significant digits.
func Text(v float64) string { return text(v, 0) }

// Against spells a number that is compared with a bound. It uses extra digits if rounding would make an unequal number look equal to the
// bound.
func Against(v, bound float64) string {
	for extra := range 3 {
		number := text(v, extra)
		if rounded, err := strconv.ParseFloat(strings.ReplaceAll(number, ",", ""), 64); err != nil || rounded != bound || v == bound {
			return number
		}
	}
	return text(v, 3)
}

// text is Text with extra decimals, except for a whole number.
func text(v float64, extra int) string {
	magnitude := math.Abs(v)
	decimals := extra
	switch {
	case v == math.Trunc(v):
		decimals = 0
	case magnitude >= 100:
	case magnitude >= 10:
		decimals += 1
	case magnitude >= 1:
		decimals += 2
	default:
		decimals += 1 - int(math.Floor(math.Log10(magnitude)))
	}
	text := strconv.FormatFloat(magnitude, 'f', decimals, 64)
	for i := len(text) - 3; decimals == 0 && i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	if v < 0 && strings.Trim(text, "0.") != "" {
		return "-" + text
	}
	return text
}
