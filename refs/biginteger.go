package refs

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/vm/runtime"
)

// bigInteger is an integer of more than 64 bits, by its JSON text. expr-lang does not know the type, so every operation for which this
// package has no code fails.
type bigInteger struct{ text string }

// compare orders two numbers that expr-lang would round or does not know: a bigInteger and a number, or an integer beyond
// exactFloat and a floating point number. For all other values it returns !ok, and expr-lang compares them.
func compare(a, b any) (order int, ok bool) {
	switch x := a.(type) {
	case bigInteger:
		return compareInteger(x.text, b)
	case int:
		if _, isInt := b.(int); !isInt && (magnitude(x) > exactFloat || isBigInteger(b)) {
			return compareInteger(strconv.Itoa(x), b)
		}
	case float64:
		if _, isFloat := b.(float64); !isFloat {
			order, ok = compare(b, a)
			return -order, ok
		}
	}
	return 0, false
}

func isBigInteger(v any) bool {
	_, ok := v.(bigInteger)
	return ok
}

// compareInteger orders an integer, by its text, and a number. The integer is a bigInteger or beyond exactFloat, or the
// number is.
func compareInteger(x string, number any) (order int, ok bool) {
	switch n := number.(type) {
	case bigInteger:
		return compareDigits(x, n.text), true
	case int:
		return compareDigits(x, strconv.Itoa(n)), true
	case float64:
		switch {
		case math.IsNaN(n):
			return 0, false
		case math.IsInf(n, 0):
			return cmp.Compare(0, n), true
		}
		// Rounding n cannot change the order: if n has a fraction, it is below exactFloat, and x is beyond it.
		return compareDigits(x, strconv.FormatFloat(n, 'f', 0, 64)), true
	}
	return 0, false
}

// compareDigits orders two integers by their JSON texts.
func compareDigits(x, y string) int {
	negative := x[0] == '-'
	switch {
	case negative != (y[0] == '-'):
		return cmp.Compare(x[0], y[0]) // a minus sorts before all digits
	case negative:
		x, y = y, x
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y))
}

// equal implements ==.
func equal(a, b any) bool {
	if order, ok := compare(a, b); ok {
		return order == 0
	}
	x, ok := a.([]any)
	if y, both := b.([]any); ok && both {
		return slices.EqualFunc(x, y, equal)
	}
	return runtime.Equal(a, b)
}

// orderings implements <, <=, > and >= as functions of two values. They count nothing, so they do not need the evaluation.
func orderings() map[string]*builtin.Function {
	functions := map[string]*builtin.Function{}
	add := func(name string, holds func(order int) bool, other func(a, b any) bool) {
		functions[" "+name] = &builtin.Function{Name: " " + name, Func: func(args ...any) (any, error) {
			if order, ok := compare(args[0], args[1]); ok {
				return holds(order), nil
			}
			return other(args[0], args[1]), nil
		}}
	}
	add("<", func(order int) bool { return order < 0 }, runtime.Less)
	add("<=", func(order int) bool { return order <= 0 }, runtime.LessOrEqual)
	add(">", func(order int) bool { return order > 0 }, runtime.More)
	add(">=", func(order int) bool { return order >= 0 }, runtime.MoreOrEqual)
	return functions
}

// typeOf implements type.
func typeOf(_ *evaluation, args []any) (any, error) {
	if isBigInteger(args[0]) {
		return "int", nil
	}
	return call("type", args)
}
