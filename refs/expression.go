package refs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr/file"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// Expression is a compiled expr-lang expression over the names of references. A missing key is null; a walk into null is an
// error. A number is an integer if it fits 64 bits, else a floating point number. A longer integer keeps its digits and can
// be compared and returned; other uses are errors. So is arithmetic whose result would overflow or be rounded. Objects and
// arrays that are returned unchanged keep their bytes, and so does the value of an expression that is only a path.
//
// Bounds: 4 KB of source, 1,000,000 iterations, 128 MiB of memory for values made or read, and the context's deadline (at
// most 10 seconds; one second if there is none). reduce and repeat are not available. It fails with bad_expression past a
// bound, and with timeout or cancelled if the context ends.
type Expression struct {
	*program
	at      string
	sources []source
}

// source is the value of a lookup's name.
type source struct {
	root   Root
	number int    // the number of the step, for RootStep
	raw    string // the JSON of a variable of EvalFree, in place of a root; "": there is a root
}

// CompileExpression compiles source. The faults are bad_expression if it is not an expression or uses an unknown name
// or function, bad_reference if it names a step that is not before this one, and not_supported (see CompileScope).
func CompileExpression(source string, p CompileScope) (*Expression, []*fault.Error) {
	program, failure := compileProgram(source)
	if failure != nil {
		if f := p.foreignFault(source); f != nil {
			failure = f
		}
		failure.At = p.At
		return nil, []*fault.Error{failure}
	}
	x := &Expression{program: program, at: p.At}
	var faults []*fault.Error
	for _, l := range program.lookups {
		s, err := p.resolveName(l, strings.Contains(source, "("))
		if err != nil {
			err.At = p.At
			faults = append(faults, atOffset(err, source, l.offset))
		}
		x.sources = append(x.sources, s)
	}
	if len(faults) > 0 {
		if f := p.foreignFault(source); f != nil {
			faults = []*fault.Error{f}
		}
		return nil, faults
	}
	return x, nil
}

// resolveName resolves a name of an expression. If inPredicate is set, the name may be in a predicate, so the message for an unknown
// name also says how to read a list's element.
func (s *CompileScope) resolveName(l *lookup, inPredicate bool) (source, *fault.Error) {
	if l.name[0] != '$' {
		e := fault.New(fault.BadExpression, "The name %s is not known. %s", clip(l.name), s.memberRemedy(l.name, inPredicate))
		e.Available = s.names()
		e.Nearest = fault.Nearest("$"+l.name, e.Available, 3)
		return source{}, e
	}
	r, err := parseWhole(l.name, true)
	if err != nil {
		return source{}, err
	}
	root, number, err := s.resolve(r)
	if err == nil && l.status && (root != RootStep || len(r.segments) > 0) {
		err = fault.New(fault.BadExpression, "status takes the number of a step, status(0), or its id in quotes.")
	}
	return source{root: root, number: number}, err
}

// memberRemedy says how to write a bare name that was meant as a member.
func (s *CompileScope) memberRemedy(name string, inPredicate bool) string {
	root := "Results and inputs begin with a dollar: $0, $input."
	if s.Result {
		root = "Write $result." + clip(name) + "."
	}
	if inPredicate {
		root = strings.TrimSuffix(root, ".") + ", or ." + clip(name) + " for a list's element."
	}
	return root
}

// String returns the text that was compiled.
func (x *Expression) String() string { return x.source }

// Uses lists what the expression reads: each name with its fixed members, what predicates read of the elements of such a
// value (`filter($0.items, .size > 10)` reads $0.items and $0.items[*].size), and the steps whose status it reads. A path
// ends before a computed key, a slice or a function. A path is walked only if the evaluation reaches it; both branches of a
// condition are listed. Reads of a let variable, or of the value of a function other than filter, sortBy or take, are not
// listed.
func (x *Expression) Uses() []Use {
	var uses []Use
	for i, l := range x.lookups {
		s := x.sources[i]
		uses = append(uses, Use{At: x.at, Root: s.root, Step: s.number, Path: l.segments, Whole: x.isLookup, Lenient: l.lenient(),
			Status: l.status, Expression: true})
	}
	for _, r := range x.elements {
		s := x.sources[r.lookup.index]
		uses = append(uses, Use{At: x.at, Root: s.root, Step: s.number, Path: r.segments, Lenient: r.lenient || r.lookup.hasDefault ||
			anyOptional(r.segments), Expression: true})
	}
	return uses
}

// Eval returns the expression's value as compact JSON.
func (x *Expression) Eval(ctx context.Context, sc *Scope) ([]byte, error) {
	e := newEvaluation(ctx, x, sc)
	defer e.release()
	var out []byte
	var err error
	if x.isLookup {
		var raw string
		if raw, err = e.rawValue(x.lookups[0]); err == nil {
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
	return nil, x.fault(err)
}

// True evaluates a condition. A value that is not a boolean is an error (bad_expression) that names its type.
func (x *Expression) True(ctx context.Context, sc *Scope) (bool, error) {
	e := newEvaluation(ctx, x, sc)
	defer e.release()
	value, err := e.run()
	if err != nil {
		return false, x.fault(err)
	}
	b, ok := value.(bool)
	if !ok {
		return false, x.fault(fault.New(fault.BadExpression,
			"A condition must be true or false; this is %s. Compare it, as in $0.count > 0 or $0.name != nil.", typeName(value)))
	}
	return b, nil
}

// numberToTextRemedy is the remedy for adding a text and a value of another type.
const numberToTextRemedy = " A number becomes a text by string(…)."

// fault turns an evaluation's error into a fault with its position.
func (x *Expression) fault(err error) *fault.Error {
	e, ok := fault.As(err)
	if ok {
		c := *e
		e = &c
	} else {
		e = fault.New(fault.BadExpression, "The expression failed: %s.", plainMessage(err))
		if strings.Contains(e.Message, "operation: string + ") || strings.Contains(e.Message, " + string.") {
			e.Message += numberToTextRemedy
		}
	}
	e.At = x.at
	var caret *file.Error
	if e.Source == "" {
		offset := 0
		if errors.As(err, &caret) {
			offset = byteOffset(x.source, caret.From)
		}
		e = atOffset(e, x.source, offset)
	}
	return e
}

// maxMessage bounds, in bytes, how much of an error is repeated.
const maxMessage = 300

// plainMessage replaces Go's words in a run-time error of expr-lang.
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
	if strings.Contains(message, bigIntegerType) {
		return "it takes an integer of more than 64 bits, which can only be compared by == or passed on; string(…) gives its text"
	}
	if types, ok := strings.CutPrefix(message, "interface conversion: interface {} is "); ok {
		got, want, _ := strings.Cut(types, ", not ")
		message = "there is " + goType(got) + " where " + goType(want) + " is needed"
	}
	return fault.Clip(goTypes.Replace(message), maxMessage)
}

// bigIntegerType is the name of bigInteger in expr-lang's messages.
var bigIntegerType = reflect.TypeFor[bigInteger]().String()

var goTypes = strings.NewReplacer("map[string]interface {}", "object", "[]interface {}", "array")

// goType returns a Go type in JSON's words.
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
// The bounds of Expression apply. Errors are bad_expression (also for a name that variables lacks), bad_arguments if
// variables is not an object, timeout and cancelled.
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

// CheckFree compiles an expression for EvalFree without running it: bad_expression if it does not compile or has a name
// that is not in names. If names is nil, the variables are not known, and only references and status are refused.
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
		variables, _ = json.Marshal(members) // strings and numbers: never fails
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

// freeSource resolves a name to a variable.
func freeSource(variables string, l *lookup) (source, *fault.Error) {
	if l.name[0] == '$' || l.status {
		return source{}, fault.New(fault.BadExpression, "%s is not known here: an expression of variables reads no references. Write an "+
			"expr step, {\"expr\": \"…\"}, or pass the value as a variable.", clip(l.name))
	}
	if raw, kind := findWhole(variables, gjson.Escape(l.name)); kind == present {
		return source{raw: raw}, nil
	}
	e := fault.New(fault.BadExpression, "The name %s is not known: the names here are the keys of vars. An expr step, {\"expr\": "+
		"\"…\"}, reads $0 and $input.", clip(l.name))
	var all []string
	e.Available, all = keys(variables)
	e.Nearest = fault.Nearest(l.name, slices.Clone(all), 3)
	return source{}, e
}
