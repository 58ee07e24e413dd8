package refs

import (
	"math"
	"time"

	"github.com/expr-lang/expr/vm/runtime"

	"github.com/onecall-mcp/onecall/fault"
)

// checkedMethods maps methods of dates and durations that are silently wrong for far dates, by name and number of arguments, to their guard
// functions. After ?. the function's name begins with afterOptional.
var checkedMethods = map[method]string{{"Sub", 1}: "subtract", {"UnixNano", 0}: "nanoseconds", {"AddDate", 3}: "addDate",
	{"Abs", 0}: "absoluteDuration", {"Round", 1}: "roundTime"}

const afterOptional = "optional "

// unlessNull returns a guard function that gives null for null.
func unlessNull(f function) function {
	return func(e *evaluation, args []any) (any, error) {
		if args[0] == nil {
			return nil, nil
		}
		return f(e, args)
	}
}

type method struct {
	name      string
	arguments int
}

var subtractNumbers = arithmetic(subtractIntegers, durations(subtractIntegers, 2, runtime.Subtract))

// subtract implements - for numbers, dates and durations. Go's own difference of dates stops at 292 years.
func subtract(e *evaluation, args []any) (any, error) {
	if later, ok := args[0].(time.Time); ok {
		switch earlier := args[1].(type) {
		case time.Time:
			d := later.Sub(earlier)
			if !earlier.Add(d).Equal(later) {
				return nil, fault.New(fault.BadExpression,
					"The dates are more than 292 years apart, which a duration cannot hold. Compare them, or subtract their years: a.Year() - b.Year().")
			}
			return d, nil
		case time.Duration:
			if earlier == math.MinInt64 {
				return nil, durationOverflow()
			}
		}
	}
	return subtractNumbers(e, args)
}

// durations returns an operator that computes durations like integers if at least minimum operands are durations and the others are
// integers. All other values it computes with other, which is expr-lang's.
func durations(exact integerOperation, minimum int, other func(a, b any) any) func(a, b any) (any, error) {
	return func(a, b any) (any, error) {
		n, found := [2]int{}, 0
		for i, operand := range [2]any{a, b} {
			switch v := operand.(type) {
			case time.Duration:
				n[i] = int(v)
				found++
			case int:
				n[i] = v
			default:
				return other(a, b), nil
			}
		}
		if found < minimum {
			return other(a, b), nil
		}
		result, err := exact(n[0], n[1])
		if err != nil {
			return nil, durationOverflow()
		}
		return time.Duration(result.(int)), nil
	}
}

func durationOverflow() error {
	return fault.New(fault.BadExpression, "The result is a duration of more than 292 years, with which expressions cannot compute.")
}

// nanoseconds implements UnixNano for a date.
func nanoseconds(_ *evaluation, args []any) (any, error) {
	date, ok := args[0].(time.Time)
	if !ok {
		return nil, fault.New(fault.BadExpression, "UnixNano is a method of dates; this is %s.", typeName(args[0]))
	}
	n := date.UnixNano()
	if !time.Unix(0, n).Equal(date) {
		return nil, fault.New(fault.BadExpression, "UnixNano counts from 1678 to 2262; this is %d. Take .Unix(), in seconds.", date.Year())
	}
	return int(n), nil
}

// maxAdded bounds the years, months and days that AddDate adds: Go's own sum wraps around for numbers of 64 bits.
const maxAdded = 10_000_000

// addDate implements AddDate for a date.
func addDate(_ *evaluation, args []any) (any, error) {
	date, ok := args[0].(time.Time)
	if !ok {
		return nil, fault.New(fault.BadExpression, "AddDate is a method of dates; this is %s.", typeName(args[0]))
	}
	var n [3]int
	for i, arg := range args[1:] {
		if n[i], ok = arg.(int); !ok || magnitude(n[i]) > maxAdded {
			return nil, fault.New(fault.BadExpression, "AddDate takes years, months and days, as integers up to %d.", maxAdded)
		}
	}
	return date.AddDate(n[0], n[1], n[2]), nil
}

// absoluteDuration implements Abs for a duration.
func absoluteDuration(_ *evaluation, args []any) (any, error) {
	d, ok := args[0].(time.Duration)
	switch {
	case !ok:
		return nil, fault.New(fault.BadExpression, "Abs is a method of durations; this is %s. Write abs(x) for numbers.", typeName(args[0]))
	case d == math.MinInt64:
		return nil, durationOverflow()
	}
	return d.Abs(), nil
}

// roundTime implements Round for a date or a duration.
func roundTime(_ *evaluation, args []any) (any, error) {
	unit, ok := args[1].(time.Duration)
	if !ok {
		return nil, fault.New(fault.BadExpression, "Round takes a duration, such as duration(\"1h\"); this is %s.", typeName(args[1]))
	}
	switch v := args[0].(type) {
	case time.Time:
		return v.Round(unit), nil
	case time.Duration:
		rounded := v.Round(unit)
		if unit > 0 && rounded%unit != 0 { // it stops at the longest duration
			return nil, durationOverflow()
		}
		return rounded, nil
	}
	return nil, fault.New(fault.BadExpression, "Round is a method of dates and durations; this is %s. Write round(x) for numbers.",
		typeName(args[0]))
}

// formatDate returns a date in the form of RFC 3339, which has years of four digits.
func formatDate(date time.Time) (string, error) {
	if year := date.Year(); year < 0 || year > 9999 {
		return "", fault.New(fault.BadExpression, "The year %d cannot be written: dates have years from 0 to 9999.", year)
	}
	return date.Format(time.RFC3339Nano), nil
}
