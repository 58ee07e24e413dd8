package refs

import (
	"cmp"
	"math"
	"slices"

	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/vm/runtime"
)

// bigInteger is an integer of more than 64 bits, by its JSON text, which is the same for equal integers. expr-lang does not know the type,
// so == is exact, and every operation for which this package has no code fails.
type bigInteger struct{ text string }

func isBigInteger(v any) bool {
	_, ok := v.(bigInteger)
	return ok
}

// compare orders an integer and a floating point number to which expr-lang would round it. For all other values, and NaN, it returns !ok,
// and expr-lang compares them. It fails for a bigInteger beside a floating point number.
func compare(a, b any) (order int, ok bool, err error) {
	if f, isFloat := a.(float64); isFloat {
		if _, both := b.(float64); both {
			return 0, false, nil
		}
		order, ok, err = compare(b, f)
		return -order, ok, err
	}
	f, isFloat := b.(float64)
	if !isFloat {
		return 0, false, nil
	}
	switch n := a.(type) {
	case bigInteger:
		return 0, false, checkExact(n)
	case int:
		if magnitude(n) > exactFloat && !math.IsNaN(f) {
			return compareFloat(n, f), true, nil
		}
	}
	return 0, false, nil
}

// compareFloat orders an integer and a floating point number.
func compareFloat(n int, f float64) int {
	switch whole := math.Trunc(f); {
	case whole >= 1<<63:
		return -1
	case whole < -1<<63:
		return 1
	case n != int(whole):
		return cmp.Compare(n, int(whole))
	default:
		return cmp.Compare(whole, f)
	}
}

// equal implements ==.
func equal(a, b any) (bool, error) {
	if order, ok, err := compare(a, b); ok || err != nil {
		return err == nil && order == 0, err
	}
	x, ok := a.([]any)
	if y, both := b.([]any); ok && both {
		if len(x) != len(y) {
			return false, nil
		}
		for i := range x {
			if same, err := equal(x[i], y[i]); !same {
				return false, err
			}
		}
		return true, nil
	}
	return runtime.Equal(a, b), nil
}

// containsEqual implements in for a list.
func containsEqual(list []any, needle any) (bool, error) {
	var failed error
	found := slices.ContainsFunc(list, func(element any) bool {
		same, err := equal(element, needle)
		failed = err
		return same || err != nil
	})
	return found && failed == nil, failed
}

// orderings implements <, <=, > and >= as functions of two values. They count nothing, so they do not need the evaluation.
func orderings() map[string]*builtin.Function {
	functions := map[string]*builtin.Function{}
	add := func(name string, holds func(order int) bool, other func(a, b any) bool) {
		functions[" "+name] = &builtin.Function{Name: " " + name, Func: func(args ...any) (any, error) {
			if order, ok, err := compare(args[0], args[1]); ok || err != nil {
				return holds(order), err
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
