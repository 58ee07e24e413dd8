package refs

import (
	"math/bits"
	"reflect"
	"strings"

	"github.com/expr-lang/expr/vm/runtime"

	"github.com/onecall-mcp/onecall/fault"
)

// length implements len, which counts the characters of a text.
func length(e *evaluation, args []any) (any, error) {
	if s, ok := args[0].(string); ok {
		if err := e.chargeWork(len(s)); err != nil {
			return nil, err
		}
	}
	return call("len", args)
}

// contains implements the operator contains for two texts; it is false if either is null.
func contains(e *evaluation, args []any) (any, error) {
	if runtime.IsNil(args[0]) || runtime.IsNil(args[1]) {
		return false, nil
	}
	s, piece := args[0].(string), args[1].(string)
	if err := e.chargeWork(len(s)); err != nil {
		return nil, err
	}
	return strings.Contains(s, piece), nil
}

// splitFunction returns split or splitAfter.
func splitFunction(name string) function {
	return func(e *evaluation, args []any) (any, error) {
		s, separator := args[0].(string), args[1].(string)
		if err := e.chargeWork(len(s) + len(separator)); err != nil {
			return nil, err
		}
		if err := e.chargeValue((strings.Count(s, separator) + 1) * elementBytes); err != nil {
			return nil, err
		}
		return call(name, args)
	}
}

func replace(e *evaluation, args []any) (any, error) {
	s, old, replacement := args[0].(string), args[1].(string), args[2].(string)
	if err := e.chargeWork(len(s) + len(old)); err != nil {
		return nil, err
	}
	if err := e.chargeValue(len(s) + strings.Count(s, old)*len(replacement)); err != nil {
		return nil, err
	}
	return call("replace", args)
}

func join(e *evaluation, args []any) (any, error) {
	n := size(args[0]) * elementBytes // expr-lang first makes a list of strings
	if len(args) > 1 {
		n += size(args[0]) * len(args[1].(string))
	}
	switch list := args[0].(type) {
	case []any:
		for _, s := range list {
			n += size(s)
		}
	case []string:
		for _, s := range list {
			n += len(s)
		}
	}
	if err := e.chargeValue(n); err != nil {
		return nil, err
	}
	return call("join", args)
}

// sortArray implements sort.
func sortArray(e *evaluation, args []any) (any, error) {
	n := size(args[0])
	if err := e.chargeValue(n * elementBytes); err != nil {
		return nil, err
	}
	if err := e.chargeWork(n * bits.Len(uint(n))); err != nil {
		return nil, err
	}
	return call("sort", args)
}

// uniq keeps the first of equal elements. expr-lang's version takes quadratic time.
func uniq(e *evaluation, args []any) (any, error) {
	v := reflect.ValueOf(args[0])
	if v.Kind() != reflect.Slice && v.Kind() != reflect.Array {
		return nil, fault.New(fault.BadExpression, "uniq takes an array; this is %s.", typeName(args[0]))
	}
	if err := e.chargeValue(v.Len() * memberBytes); err != nil {
		return nil, err
	}
	seen := make(map[string]bool, v.Len())
	filtered := []any{}
	for i := range v.Len() {
		element := v.Index(i).Interface()
		key, err := e.marshal(element, true)
		if err != nil {
			return nil, err
		}
		if !seen[string(key)] {
			seen[string(key)] = true
			filtered = append(filtered, element)
		}
	}
	return filtered, nil
}
