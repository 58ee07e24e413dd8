package refs

import (
	"fmt"
	"reflect"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
)

// checkArguments says what is wrong with a call of a guarded function. expr-lang's own check tries one signature after
// another and visits all arguments each time, which is exponential in nested calls.
func checkArguments(n *ast.BuiltinNode) string {
	f := builtin.Builtins[builtin.Index[n.Name]]
	types := make([]reflect.Type, len(n.Arguments))
	for i, a := range n.Arguments {
		types[i] = literalType(a)
	}
	if f.Validate != nil {
		if _, err := f.Validate(types); err != nil {
			return err.Error()
		}
		return ""
	}
	problem := ""
	for _, t := range f.Types {
		if problem = mismatch(t, types); problem == "" {
			return ""
		}
	}
	return problem
}

func mismatch(signature reflect.Type, types []reflect.Type) string {
	if signature.NumIn() != len(types) {
		return "wrong number of arguments"
	}
	for i, t := range types {
		if in := signature.In(i); t != anyType && !t.AssignableTo(in) {
			return fmt.Sprintf("argument %d is %s, %s is needed", i+1, typeName(reflect.Zero(t).Interface()), typeName(reflect.Zero(in).Interface()))
		}
	}
	return ""
}

var anyType = reflect.TypeFor[any]()

// literalType returns the type of a literal, and any for all other nodes.
func literalType(n ast.Node) reflect.Type {
	switch n.(type) {
	case *ast.StringNode:
		return reflect.TypeFor[string]()
	case *ast.IntegerNode:
		return reflect.TypeFor[int]()
	case *ast.FloatNode:
		return reflect.TypeFor[float64]()
	case *ast.BoolNode:
		return reflect.TypeFor[bool]()
	}
	return anyType
}
