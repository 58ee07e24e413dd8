package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// Arguments are the arguments of a function by its input schema: which there are, what stands in for those that a call
// does not give, and what is wrong with those that it gives. They may be used by many goroutines.
type Arguments struct {
	schema    []byte
	options   ArgumentsOptions
	validator *Validator // nil: any object
	names     func() []string
	plain     func() *plain // nil: the schema is not plain
	prepare   func() *preparation
}

// ArgumentsOptions is what is known of arguments beside their schema.
type ArgumentsOptions struct {
	// Aliases are further names of top-level arguments: the name that is accepted → the name that the schema declares.
	Aliases map[string]string
	// Defaults is a compact JSON object of arguments that stand in where a call does not give them; empty: none.
	Defaults []byte
	// Secret keeps values out of faults; keys are shown.
	Secret bool
}

// NewArguments compiles an input schema. notes tell which parts of it are not checked, and why. A schema that is empty, or cannot
// be used, allows any object.
func NewArguments(input []byte, o ArgumentsOptions) (a *Arguments, notes string) {
	a = &Arguments{options: o}
	if a.schema, notes = Sound(input); notes == "" {
		a.validator, notes = Compile(a.schema)
	}
	if a.validator != nil {
		a.validator.secret = o.Secret
	}
	a.names = sync.OnceValue(func() []string { return Properties(a.schema) })
	a.plain = sync.OnceValue(func() *plain { return plainOf(gjson.ParseBytes(a.schema), 0) })
	a.prepare = sync.OnceValue(func() *preparation { return newPreparation(a.schema, &a.options, a.names()) })
	return a, notes
}

// Schema is the input schema, compact; empty if the one given cannot be used. It must not be changed.
func (a *Arguments) Schema() []byte { return a.schema }

// Names are the top-level properties that the schema declares in any of its branches, in its order. The slice must not
// be changed.
func (a *Arguments) Names() []string { return a.names() }

// Name is the name under which the schema declares an argument that may be given by this name: the name itself, what it
// is an alias of, or the one that differs from it in case and the separators _ and - only, unless the schema takes keys
// of the caller's own; "" where there is none.
func (a *Arguments) Name(given string) string {
	if slices.Contains(a.names(), given) {
		return given
	}
	return a.prepare().stands(given)
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

// checkTime bounds a check of a plan, for which no caller's deadline counts.
const checkTime = 2 * time.Second

// Check finds what is wrong with arguments of which some places are not known: only what no value of the holes could
// put right. inspect is asked about arguments that fit the schema, under the names that it declares. See steps.Entry.Check.
func (a *Arguments) Check(args []byte, holes []Hole, inspect func(args []byte, holes []Hole) *fault.Error) []*fault.Error {
	compact, f := compactArguments(args)
	if f != nil {
		return []*fault.Error{f}
	}
	compact, given := a.prepare().apply(compact)
	holes = declaredHoles(holes, given)
	open := make([]hole, len(holes))
	for i, h := range holes {
		if h.At == "" {
			return nil // nothing at all is known
		}
		open[i] = hole{at: tokens(h.At), types: typesNamed(h.Types)}
	}
	var faults []*fault.Error
	if len(open) > 0 || !a.fits(compact) {
		ctx, cancel := context.WithTimeout(context.Background(), checkTime)
		defer cancel()
		var err error
		if faults, err = a.mistakes(ctx, compact, open); err != nil {
			return nil
		}
	}
	if len(faults) == 0 {
		if f := inspect(compact, holes); f != nil {
			faults = append(faults, f)
		}
	}
	return accepted(faults, given)
}

// Accept checks the arguments of a call, and returns them compact, under the names that the schema declares and with the
// defaults. One fault tells all mistakes. err is that of ctx, which has ended.
func (a *Arguments) Accept(ctx context.Context, args []byte) (prepared []byte, f *fault.Error, err error) {
	compact, f := compactArguments(args)
	if f != nil {
		return nil, f, nil
	}
	compact, given := a.prepare().apply(compact)
	if a.fits(compact) {
		return compact, nil, nil
	}
	faults, err := a.mistakes(ctx, compact, nil)
	switch {
	case errors.Is(err, errTooMuchWork):
		return nil, tooMuchWork("the arguments", err), nil
	case err != nil:
		return nil, nil, err
	case len(faults) > 0:
		return nil, joined(accepted(faults, given)), nil
	}
	return compact, nil, nil
}

// compactArguments takes no arguments at all as an empty object.
func compactArguments(args []byte) ([]byte, *fault.Error) {
	if len(args) == 0 {
		return []byte("{}"), nil
	}
	compact, f := CompactWithin(args, MaxArgumentsDepth)
	if f != nil {
		f.Code, f.Message = fault.BadArguments, "the arguments are not JSON: "+f.Message
	}
	return compact, f
}

func tooMuchWork(what string, err error) *fault.Error {
	f := fault.New(fault.LimitExceeded, "%s cannot be checked against the schema with a reasonable amount of work: make them smaller or less nested", what)
	f.Err = err
	return f
}

// maxJoined bounds, in bytes, the message for all that is wrong with a call's arguments.
const maxJoined = 4000

// joined is one fault for all that is wrong with a call's arguments; its place is that of a single one.
func joined(faults []*fault.Error) *fault.Error {
	one := *faults[0]
	for i, f := range faults[1:] {
		one.At = ""
		if len(one.Message)+len(f.Message) > maxJoined {
			one.Message += fmt.Sprintf("; and %d more", len(faults)-1-i)
			break
		}
		one.Message += "; " + f.Message
	}
	return &one
}

// mistakes validates compact arguments, except for the holes. An error says why it could not be done.
func (a *Arguments) mistakes(ctx context.Context, compact []byte, holes []hole) ([]*fault.Error, error) {
	if compact[0] != '{' {
		return []*fault.Error{fault.New(fault.BadArguments, "the arguments are no JSON object")}, nil
	}
	if a.validator == nil {
		return nil, nil
	}
	return a.validator.violations(ctx, compact, holes)
}

// fits reports whether compact arguments certainly fit the schema; if not, they may.
func (a *Arguments) fits(compact []byte) bool {
	p := a.plain()
	return compact[0] == '{' && p != nil && p.accepts(gjson.ParseBytes(compact))
}

// Oddities tells of aliases of what the schema does not declare, and of defaults that it does not take: bad_request.
func (a *Arguments) Oddities() (odd []*fault.Error) {
	if a.validator == nil || len(a.options.Aliases)+len(a.options.Defaults) == 0 {
		return nil
	}
	return a.prepare().oddities(a)
}
