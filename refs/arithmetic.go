package refs

import (
	"math"
	"math/big"
	"math/bits"
	"reflect"
	"time"

	"github.com/expr-lang/expr/vm/runtime"

	"github.com/onecall-mcp/onecall/fault"
)

// exactFloat is the limit up to which float64 represents every integer.
const exactFloat = 1 << 53

// operators maps arithmetic operators to their guard functions. Integers have 64 bits: a result that overflows, or that
// floating point would round, is an error.
var operators = map[string]string{"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "**": "power", "^": "power"}

// integerOperation computes with two integers. If it returns (nil, nil), expr-lang computes in floating point instead.
type integerOperation func(a, b int) (any, error)

// arithmetic returns an operator that computes integers with exact, and all other values with other, which is expr-lang's.
func arithmetic(exact integerOperation, other func(a, b any) (any, error)) function {
	return func(e *evaluation, args []any) (any, error) {
		a, isInt := args[0].(int)
		b, both := args[1].(int)
		if isInt && both {
			if n, err := exact(a, b); n != nil || err != nil {
				return n, err
			}
		}
		for i, side := range []string{"left", "right"} {
			if args[i] == nil {
				return nil, fault.New(fault.BadExpression, "The %s side of the operator is null. Write ?? and a value where that is expected.", side)
			}
		}
		if err := checkExact(args...); err != nil {
			return nil, err
		}
		return other(args[0], args[1])
	}
}

// checkExact returns an error if an operand is a bigInteger, or would be rounded by floating point.
func checkExact(operands ...any) error {
	for _, operand := range operands {
		switch n := operand.(type) {
		case int:
			if magnitude(n) > exactFloat {
				return fault.New(fault.BadExpression,
					"%d is too large for floating point, which would round it. Compute with integers, or pass it on by a reference.", n)
			}
		case bigInteger:
			return fault.New(fault.BadExpression,
				"%s is an integer of more than 64 bits, with which expressions cannot compute. Pass it on by a reference, or take its text: string(…).", clip(n.text))
		}
	}
	return nil
}

func overflow() error {
	return fault.New(fault.BadExpression, "The result is an integer of more than 64 bits, with which expressions cannot compute.")
}

func magnitude(n int) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

func addIntegers(a, b int) (any, error) {
	if n := a + b; (n > a) == (b > 0) { // no overflow: n is greater than a only if b is positive
		return n, nil
	}
	return nil, overflow()
}

func subtractIntegers(a, b int) (any, error) {
	if n := a - b; (n < a) == (b > 0) {
		return n, nil
	}
	return nil, overflow()
}

func multiplyIntegers(a, b int) (any, error) {
	high, low := bits.Mul64(magnitude(a), magnitude(b))
	if negative := (a < 0) != (b < 0); high > 0 || low > math.MaxInt64 && !(negative && low == 1<<63) {
		return nil, overflow()
	}
	return a * b, nil
}

// divideIntegers divides integers beyond exactFloat if there is no remainder. It leaves all others to floating point.
func divideIntegers(a, b int) (any, error) {
	switch {
	case magnitude(a) <= exactFloat && magnitude(b) <= exactFloat || b == 0 || a%b != 0:
		return nil, nil
	case b == -1 && a == math.MinInt:
		return nil, overflow()
	}
	return a / b, nil
}

// powerOfIntegers leaves negative exponents to floating point.
func powerOfIntegers(a, b int) (any, error) {
	switch {
	case b < 0:
		return nil, nil
	case magnitude(a) > 1 && b > 63:
		return nil, overflow()
	}
	n := new(big.Int).Exp(big.NewInt(int64(a)), big.NewInt(int64(b)), nil)
	if !n.IsInt64() {
		return nil, overflow()
	}
	return int(n.Int64()), nil
}

var addNumbers = arithmetic(addIntegers, durations(addIntegers, 2, runtime.Add))

// add implements + for numbers, texts and dates.
func add(e *evaluation, args []any) (any, error) {
	if s, ok := args[0].(string); ok {
		if t, ok := args[1].(string); ok {
			if err := e.chargeValue(len(s) + len(t)); err != nil {
				return nil, err
			}
		}
	}
	return addNumbers(e, args)
}

// negate implements unary minus.
func negate(_ *evaluation, args []any) (any, error) {
	if args[0] == math.MinInt {
		return nil, overflow()
	}
	if args[0] == time.Duration(math.MinInt64) {
		return nil, durationOverflow()
	}
	return runtime.Negate(args[0]), nil
}

// sum adds the elements of a list.
func sum(e *evaluation, args []any) (any, error) {
	list := reflect.ValueOf(args[0])
	if k := list.Kind(); k != reflect.Slice && k != reflect.Array {
		return nil, fault.New(fault.BadExpression, "sum takes an array; this is %s.", typeName(args[0]))
	}
	if err := e.chargeWork(list.Len()); err != nil {
		return nil, err
	}
	terms := []any{0, nil} // the total and the next element
	for i := range list.Len() {
		var err error
		if terms[1] = list.Index(i).Interface(); terms[1] == nil {
			return nil, fault.New(fault.BadExpression,
				"sum adds numbers, and element %d is null. Write ?? 0 after a value that may be null, as in sum($0.items, .price ?? 0).", i)
		}
		if terms[0], err = add(e, terms); err != nil {
			return nil, err
		}
	}
	return terms[0], nil
}

// floatFunction returns expr-lang's function, which converts integers to floating point. It refuses integers that this would round.
func floatFunction(name string) function {
	return func(e *evaluation, args []any) (any, error) {
		if err := checkExact(args...); err != nil {
			return nil, err
		}
		return call(name, args)
	}
}

// absolute implements abs.
func absolute(_ *evaluation, args []any) (any, error) {
	if args[0] == math.MinInt {
		return nil, overflow()
	}
	return call("abs", args)
}

// integer implements int for a number or a text.
func integer(e *evaluation, args []any) (any, error) {
	switch n := args[0].(type) {
	case bigInteger:
		return nil, checkExact(n)
	case float64:
		if math.IsNaN(n) || n < math.MinInt64 || n >= math.MaxInt64 {
			return nil, overflow()
		}
	}
	return call("int", args)
}

// averageFunction returns mean or median.
func averageFunction(name string) function {
	walk := walkingFunction(elementBytes, name)
	return func(e *evaluation, args []any) (any, error) {
		for _, a := range args {
			list, ok := a.([]any)
			if !ok {
				list = []any{a}
			}
			if err := checkExact(list...); err != nil {
				return nil, err
			}
		}
		return walk(e, args)
	}
}

// shiftLeft implements bitshl.
func shiftLeft(_ *evaluation, args []any) (any, error) {
	value, err := call("bitshl", args)
	if n, ok := value.(int); ok && n>>args[1].(int) != args[0].(int) {
		return nil, overflow()
	}
	return value, err
}
