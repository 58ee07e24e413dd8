package schema

import (
	"context"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// function has the schemas of a function in the form that package steps uses.
type function struct {
	*Arguments
	output []byte
	paths  Paths
}

// entry reads the schemas of a function, and returns the warnings about them.
func entry(input, output string) (f *function, warnings []string) {
	sound, warning := CompactSchema([]byte(output))
	if warning != "" {
		warnings = append(warnings, warning)
	}
	arguments, warning := NewArguments([]byte(input), ArgumentsOptions{})
	if warning != "" {
		warnings = append(warnings, warning)
	}
	return &function{Arguments: arguments, output: sound}, warnings
}

// hiding reads the schema of arguments whose values may be secret.
func hiding(t testing.TB, input string) *function {
	t.Helper()
	arguments, warning := NewArguments([]byte(input), ArgumentsOptions{Secret: true})
	if warning != "" {
		t.Fatal(warning)
	}
	return &function{Arguments: arguments}
}

func (f *function) Check(args []byte, unknowns []Unknown) []*fault.Error {
	return f.Arguments.Check(args, unknowns, func([]byte, []Unknown) *fault.Error { return nil })
}

func (f *function) Call(ctx context.Context, args []byte) error {
	_, refused, err := f.Accept(ctx, args, nil)
	if refused != nil {
		return refused
	}
	return err
}

func (f *function) Produces(path []Element) ([]string, *fault.Error) {
	return f.paths.TypesAt("test.call", f.output, path)
}

func (f *function) Undeclared(path []Element) *fault.Error {
	return f.paths.Undeclared("test.call", f.output, path)
}

func (f *function) Signature() string { return Signature("test.call", f.Schema(), ": ", f.output) }
