package schema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// Arguments checks and completes the arguments of a function according to its input schema. Many goroutines may use it.
type Arguments struct {
	schema    []byte
	options   ArgumentsOptions
	validator *Validator // nil: any object
	names     func() []string
	prepare   func() *preparation
}

// ArgumentsOptions holds the settings of arguments that a schema cannot express.
type ArgumentsOptions struct {
	// Aliases map further accepted names of top-level arguments to the declared names.
	Aliases map[string]string
	// Defaults is a compact JSON object of arguments that a call may leave out; empty: none.
	Defaults []byte
	// Secret keeps values out of messages; keys are shown.
	Secret bool
}

// NewArguments compiles an input schema. warnings says which parts of the schema are not checked, and why; "": all are. An empty or
// unusable schema allows any object.
func NewArguments(input []byte, o ArgumentsOptions) (a *Arguments, warnings string) {
	a = &Arguments{options: o}
	if a.schema, warnings = CompactSchema(input); warnings == "" {
		a.schema, warnings = FitEnums(a.schema)
		validator, unchecked := Compile(a.schema)
		if a.validator = validator; warnings != "" && unchecked != "" {
			warnings += "; "
		}
		warnings += unchecked
	}
	if a.validator != nil {
		a.validator.secret = o.Secret
	}
	a.names = sync.OnceValue(func() []string { return Properties(a.schema) })
	a.prepare = sync.OnceValue(func() *preparation { return newPreparation(a.schema, &a.options, a.names()) })
	return a, warnings
}

// Schema returns the compact input schema; empty if it is unusable. It must not be changed.
func (a *Arguments) Schema() []byte { return a.schema }

// Names returns the top-level properties that any branch of the schema declares, in the schema's order. The slice must not be changed.
func (a *Arguments) Names() []string { return a.names() }

// Name returns the declared argument with this name or alias; "" if there is none. Unless the schema accepts arbitrary keys, it ignores
// case and the separators _ and -.
func (a *Arguments) Name(name string) string {
	if slices.Contains(a.names(), name) {
		return name
	}
	return a.prepare().declaredName(name)
}

// Resembling returns the declared arguments that the name of an undeclared argument resembles, the nearest first; nil: none, or the schema
// accepts other arguments explicitly (additionalProperties, patternProperties) or has conditions that may declare them.
func (a *Arguments) Resembling(name string) []string {
	if len(a.schema) == 0 || a.Name(name) != "" {
		return nil
	}
	if f := undeclaredWarning("", a.schema, []Element{{Key: name}}); f != nil {
		return f.Nearest
	}
	return nil
}

// Requires reports whether the schema requires a top-level argument.
func (a *Arguments) Requires(name string) bool {
	for _, required := range gjson.GetBytes(a.schema, "required").Array() {
		if required.Str == name {
			return true
		}
	}
	return false
}

// checkTime bounds Check, which has no deadline from a caller.
const checkTime = 2 * time.Second

// Check reports what is wrong with arguments that have unknown values. It reports only faults that no value of the unknowns could
// fix, and none if all arguments are unknown or the check takes too long. inspect runs further checks on arguments that match the
// schema, under their declared names. See steps.Entry.Check.
func (a *Arguments) Check(args []byte, unknowns []Unknown, inspect func(args []byte, unknowns []Unknown) *fault.Error) []*fault.Error {
	compact, f := compactArguments(args)
	if f != nil {
		return []*fault.Error{f}
	}
	compact, givenNames := a.prepare().apply(compact)
	unknowns = withDeclaredNames(unknowns, givenNames)
	unknownValues := make([]unknownValue, len(unknowns))
	for i, unknown := range unknowns {
		if unknown.At == "" {
			return nil // nothing is known
		}
		unknownValues[i] = unknownValue{at: splitPointer(unknown.At), types: typeSetOf(unknown.Types)}
	}
	var faults []*fault.Error
	if len(unknownValues) > 0 || !a.valid(compact) {
		ctx, cancel := context.WithTimeout(context.Background(), checkTime)
		defer cancel()
		var err error
		if faults, err = a.faults(ctx, compact, unknownValues, false); err != nil {
			return nil
		}
	}
	if len(faults) == 0 {
		if f := inspect(compact, unknowns); f != nil {
			faults = append(faults, f)
		}
	}
	return withGivenNames(faults, givenNames)
}

// Accept checks the arguments of a call and returns them compact, with declared names and defaults. f joins all faults. err is the
// error of ctx. If marks stand in arguments for other texts, actual returns them with these, which are checked and not shown; nil: there
// are no marks.
func (a *Arguments) Accept(ctx context.Context, args []byte, actual func(compact []byte) ([]byte, *fault.Error)) (prepared []byte,
	f *fault.Error, err error) {
	compact, f := compactArguments(args)
	if f != nil {
		return nil, f, nil
	}
	compact, givenNames := a.prepare().apply(compact)
	if a.valid(compact) { // of a text, this has compared the type, and perhaps values, which no mark equals
		return compact, nil, nil
	}
	checked := compact
	if actual != nil {
		if checked, f = actual(compact); f != nil {
			return nil, f, nil
		}
	}
	faults, err := a.faults(ctx, checked, nil, !bytes.Equal(checked, compact))
	switch {
	case errors.Is(err, errTooMuchWork):
		return nil, tooMuchWork("the arguments", err), nil
	case err != nil:
		return nil, nil, err
	case len(faults) > 0:
		return nil, joinFaults(withGivenNames(faults, givenNames)), nil
	}
	return compact, nil, nil
}

// compactArguments compacts arguments; empty args become {}.
func compactArguments(args []byte) ([]byte, *fault.Error) {
	if len(args) == 0 {
		return []byte("{}"), nil
	}
	compact, f := CompactWithin(args, MaxArgumentsDepth)
	if f != nil {
		f.Code, f.Message = fault.BadArguments, "the arguments cannot be read as JSON: "+f.Message
	}
	return compact, f
}

func tooMuchWork(what string, err error) *fault.Error {
	f := fault.New(fault.LimitExceeded,
		"%s cannot be checked against the schema with a reasonable amount of work: make them smaller or less nested", what)
	f.Err = err
	return f
}

// maxJoinedBytes bounds the message of all faults of a call's arguments.
const maxJoinedBytes = 4000

// joinFaults joins all faults of a call's arguments. A single fault keeps its position.
func joinFaults(faults []*fault.Error) *fault.Error {
	joined := *faults[0]
	for i, f := range faults[1:] {
		joined.At = ""
		if len(joined.Message)+len(f.Message) > maxJoinedBytes {
			joined.Message += fmt.Sprintf("; and %d more", len(faults)-1-i)
			break
		}
		joined.Message += "; " + f.Message
	}
	return &joined
}

// faults validates compact arguments, except for the unknowns. The error says why the validation was given up: errTooMuchWork or the
// error of ctx. hide: they do not show values.
func (a *Arguments) faults(ctx context.Context, compact []byte, unknowns []unknownValue, hide bool) ([]*fault.Error, error) {
	if compact[0] != '{' {
		return []*fault.Error{fault.New(fault.BadArguments, "the arguments are not a JSON object")}, nil
	}
	if a.validator == nil {
		return nil, nil
	}
	return a.validator.violations(ctx, compact, unknowns, hide)
}

// valid reports whether compact arguments certainly match the schema. If it returns false, they may still match.
func (a *Arguments) valid(compact []byte) bool {
	return compact[0] == '{' && (a.validator == nil || a.validator.Accepts(compact))
}

// Warnings returns a bad_request fault for each alias of an undeclared argument and for defaults that do not match the
// schema.
func (a *Arguments) Warnings() (warnings []*fault.Error) {
	if a.validator == nil || len(a.options.Aliases)+len(a.options.Defaults) == 0 {
		return nil
	}
	return a.prepare().warnings(a)
}
