package refs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/expr-lang/expr/file"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// Expression is a compiled expression of expr-lang over the names of references. A missing key is null, a walk into
// null is an error. A number is an integer if it fits 64 bits, else a floating point number; a longer integer keeps its digits, can
// be compared and passed on, and is an error elsewhere. So is arithmetic whose result would overflow or be rounded. Objects and arrays that
// come out as they were in the data, and an expression that is nothing but a path, keep their bytes.
//
// It is bounded: source 4 KB, 1,000,000 iterations, 128 MiB of memory for values made or read, and the context's deadline (at most
// 10 seconds; one second where it has none). reduce and repeat are not available. Past a bound it fails with
// bad_expression, past the context's end with timeout or cancelled.
type Expression struct {
	*program
	at      string
	sources []source
}

// source is what a lookup's name stands for.
type source struct {
	root   Root
	number int    // of RootStep
	raw    string // a given value, in place of a root
}

// CompileExpression compiles source: bad_expression where it is no expression or uses an unknown name or function,
// bad_reference where it names a step that is not before this one, not_supported.
func CompileExpression(source string, p Place) (*Expression, []*fault.Error) {
	program, failure := compileProgram(source)
	if failure != nil {
		failure.At = p.At
		return nil, []*fault.Error{failure}
	}
	x := &Expression{program: program, at: p.At}
	var faults []*fault.Error
	for _, l := range program.lookups {
		s, err := p.source(l, strings.Contains(source, "("))
		if err != nil {
			err.At = p.At
			faults = append(faults, atOffset(err, source, l.offset))
		}
		x.sources = append(x.sources, s)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return x, nil
}

// source resolves a name of an expression; within tells that it may stand in a function's predicate.
func (p *Place) source(l *lookup, within bool) (source, *fault.Error) {
	if l.name[0] != '$' {
		e := fault.New(fault.BadExpression, "The name %s is not known. %s", clip(l.name), p.remedy(l.name, within))
		e.Available = p.names()
		e.Nearest = fault.Nearest("$"+l.name, e.Available, 3)
		return source{}, e
	}
	r, err := parseWhole(l.name, true)
	if err != nil {
		return source{}, err
	}
	root, number, err := p.resolve(r)
	if err == nil && l.status && (root != RootStep || len(r.segments) > 0) {
		err = fault.New(fault.BadExpression, "status takes the number of a step, status(0), or its id in quotes.")
	}
	return source{root: root, number: number}, err
}

// remedy tells how a bare name is written that was meant for a member.
func (p *Place) remedy(name string, within bool) string {
	root := "Results and inputs begin with a dollar: $0, $input."
	if p.Result {
		root = "Write $result." + clip(name) + "."
	}
	if within {
		root = strings.TrimSuffix(root, ".") + ", or ." + clip(name) + " for a list's element."
	}
	return root
}

// Uses lists what the expression reads: every name with the fixed members taken of it, then what predicates read of the
// elements of such a value (`filter($0.items, .size > 10)` reads $0.items and $0.items[*].size), and the steps whose status
// it asks for. A path ends where a computed key, a slice or a function follows. Each path is walked if evaluation
// reaches it; the branches of a condition are all listed. What is read of a variable of let, or of a value that a function
// other than filter, sortBy or take made, is not.
func (x *Expression) Uses() []Use {
	var uses []Use
	for i, l := range x.lookups {
		s := x.sources[i]
		uses = append(uses, Use{At: x.at, Root: s.root, Step: s.number, Path: l.segments, Whole: x.direct, Lenient: l.lenient(), Status: l.status, Expression: true})
	}
	for _, r := range x.elements {
		s := x.sources[r.of.index]
		uses = append(uses, Use{At: x.at, Root: s.root, Step: s.number, Path: r.segments, Lenient: r.lenient || r.of.expected || anyOptional(r.segments), Expression: true})
	}
	return uses
}

// Eval gives the expression's value as compact JSON.
func (x *Expression) Eval(ctx context.Context, sc *Scope) ([]byte, error) {
	e := newEvaluation(ctx, x, sc)
	defer e.end()
	var out []byte
	var err error
	if x.direct {
		var raw string
		if raw, err = e.raw(x.lookups[0]); err == nil {
			return []byte(raw), nil
		}
	} else {
		var value any
		if value, err = e.run(); err == nil {
			if out, err = e.appendValue(nil, value, 0); err == nil {
				return out, nil
			}
		}
	}
	return nil, x.failed(err)
}

// True evaluates a condition. A value that is no boolean is an error (bad_expression) that names what it was.
func (x *Expression) True(ctx context.Context, sc *Scope) (bool, error) {
	e := newEvaluation(ctx, x, sc)
	defer e.end()
	value, err := e.run()
	if err != nil {
		return false, x.failed(err)
	}
	b, ok := value.(bool)
	if !ok {
		return false, x.failed(fault.New(fault.BadExpression, "A condition must be true or false; this is %s. Compare it, as in $0.count > 0 or $0.name != nil.", typeName(value)))
	}
	return b, nil
}

// failed gives an evaluation's error its place.
func (x *Expression) failed(err error) *fault.Error {
	e, ok := fault.As(err)
	if ok {
		c := *e
		e = &c
	} else {
		e = fault.New(fault.BadExpression, "The expression failed: %s.", plainMessage(err))
		if strings.Contains(e.Message, "operation: string + ") || strings.Contains(e.Message, " + string.") {
			e.Message += " A number becomes a text by string(…)."
		}
	}
	e.At = x.at
	var place *file.Error
	if e.Source == "" {
		offset := 0
		if errors.As(err, &place) {
			offset = byteOffset(x.source, place.From)
		}
		e = atOffset(e, x.source, offset)
	}
	return e
}

// maxMessage bounds, in bytes, what is repeated of an error.
const maxMessage = 300

// plainMessage takes Go's words out of a run-time error of expr-lang's.
func plainMessage(err error) string {
	message := err.Error()
	var f *file.Error
	if errors.As(err, &f) {
		message = f.Message
	}
	message, _, _ = strings.Cut(message, "\n")
	if message == "memory budget exceeded" {
		return "it makes more than a million elements in all: take fewer, or filter first"
	}
	if message == "runtime error: integer divide by zero" {
		return "it takes the remainder of a division by zero"
	}
	if strings.Contains(message, "refs.large") {
		return "it takes an integer of more than 64 bits, which can only be compared or passed on; string(…) gives its text"
	}
	if types, ok := strings.CutPrefix(message, "interface conversion: interface {} is "); ok {
		got, want, _ := strings.Cut(types, ", not ")
		message = "there is " + goType(got) + " where " + goType(want) + " is needed"
	}
	return fault.Clip(goTypes.Replace(message), maxMessage)
}

var goTypes = strings.NewReplacer("map[string]interface {}", "object", "[]interface {}", "array")

// goType says a Go type in JSON's words.
func goType(name string) string {
	switch name {
	case "nil":
		return "null"
	case "bool":
		return "a boolean"
	case "int", "float64":
		return "a number"
	case "map[string]interface {}":
		return "an object"
	case "[]interface {}":
		return "an array"
	}
	return "a " + name
}

// EvalFree evaluates source over variables, a JSON object whose keys are plain names of the expression (`price * count`).
// The same bounds hold; errors are bad_expression (also for a name that variables lacks), bad_arguments where variables
// is no object, timeout and cancelled.
func EvalFree(ctx context.Context, source string, variables []byte) ([]byte, error) {
	if len(variables) == 0 {
		variables = []byte("{}")
	}
	var object bytes.Buffer
	if json.Compact(&object, variables) != nil || object.Bytes()[0] != '{' {
		return nil, fault.New(fault.BadArguments, "The variables must be a JSON object.")
	}
	program, failure := compileProgram(source)
	if failure != nil {
		return nil, failure
	}
	x := &Expression{program: program}
	for _, l := range program.lookups {
		s, err := freeSource(object.String(), l)
		if err != nil {
			return nil, atOffset(err, source, l.offset)
		}
		x.sources = append(x.sources, s)
	}
	return x.Eval(ctx, &Scope{})
}

// CheckFree compiles an expression for EvalFree without running it: bad_expression for what does not compile, and for a
// name that is not among names, where those are known (nil: they are not).
func CheckFree(source string, names []string) *fault.Error {
	program, failure := compileProgram(source)
	if failure != nil {
		return failure
	}
	variables := []byte("{}")
	if names != nil {
		members := make(map[string]int, len(names))
		for _, name := range names {
			members[name] = 0
		}
		variables, _ = json.Marshal(members) // names and numbers: never fails
	}
	for _, l := range program.lookups {
		if names == nil && l.name[0] != '$' && !l.status {
			continue
		}
		if _, err := freeSource(string(variables), l); err != nil {
			return atOffset(err, source, l.offset)
		}
	}
	return nil
}

// freeSource resolves a name among variables.
func freeSource(variables string, l *lookup) (source, *fault.Error) {
	if l.name[0] == '$' || l.status {
		return source{}, fault.New(fault.BadExpression, "%s is not known here, as only the variables are: write an expr step, {\"expr\": \"…\"}, which reads references, or pass the value as a variable.", clip(l.name))
	}
	if raw, kind := whole(variables, gjson.Escape(l.name)); kind == found {
		return source{raw: raw}, nil
	}
	e := fault.New(fault.BadExpression, "The name %s is not known: the names here are the keys of vars. An expr step, {\"expr\": \"…\"}, reads $0 and $input.", clip(l.name))
	var all []string
	e.Available, all = keys(variables)
	e.Nearest = fault.Nearest(l.name, slices.Clone(all), 3)
	return source{}, e
}
