package schema

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/onecall-mcp/onecall/fault"
)

// The work of a validation is counted in schemas applied to values, with the branches of each and the members of each
// value: at most minWork, and workPerByte more for each byte of the value. Recursive schemas with several branches would
// make it grow exponentially.
const minWork, workPerByte = 200_000, 16

// errTooMuchWork is the error of a validation that was given up.
var errTooMuchWork = errors.New("the validation takes too long")

// compiledSchema is a compiled schema that counts its work; it validates one value at a time.
type compiledSchema struct {
	schema   *jsonschema.Schema
	ctx      context.Context
	workLeft int
	visits   uint
}

// validate returns the violations, or why it was given up: errTooMuchWork or ctx's error.
func (v *compiledSchema) validate(ctx context.Context, value any, size int) (tree *violation, err error) {
	v.ctx, v.workLeft = ctx, minWork+workPerByte*size
	defer func() {
		v.ctx = nil
		if given := recover(); given != nil {
			stop, ok := given.(stopValidation)
			if !ok {
				panic(given)
			}
			err = stop.reason
		}
	}()
	errors.As(v.schema.Validate(value), &tree)
	return tree, nil
}

// stopValidation is panicked with to stop a validation: the library has no other way out.
type stopValidation struct{ reason error }

// spend is called at each schema before anything below it is visited.
func (v *compiledSchema) spend(branches int, value any) {
	v.workLeft -= 1 + branches
	switch value := value.(type) {
	case map[string]any:
		v.workLeft -= len(value)
	case []any:
		v.workLeft -= len(value)
	}
	if v.workLeft < 0 {
		panic(stopValidation{errTooMuchWork})
	}
	if v.visits++; v.visits%64 == 0 && v.ctx.Err() != nil {
		panic(stopValidation{v.ctx.Err()})
	}
}

// workFormat returns the format that a normalized schema has instead of its own (which checks nothing): the number of its
// branches. The validator checks formats before anything that takes long.
func workFormat(branches int) string { return "branches:" + strconv.Itoa(branches) }

// countWork makes compiled schemas spend the work of v and check no other format.
func (v *compiledSchema) countWork(compiler *jsonschema.Compiler, doc *document) {
	compiler.AssertFormat()
	for branches := range doc.branches {
		compiler.RegisterFormat(&jsonschema.Format{Name: workFormat(branches), Validate: func(value any) error {
			v.spend(branches, value)
			return nil
		}})
	}
	compiler.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) {
		if v.schema != nil {
			return nil, nil // the format regex, when all is compiled
		}
		return compileRegexp(pattern)
	})
	for _, name := range []string{"uri", "uri-reference", "uriref"} { // of the drafts' own schemas
		compiler.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
}

// Validator checks values against a schema. Many goroutines may use it: it compiles schemas when they are needed and keeps
// as many as were needed at once, up to maxIdle.
type Validator struct {
	schema []byte
	secret bool // faults do not show values
	mu     sync.Mutex
	idle   []*compiledSchema
}

const maxIdle = 8

func (p *Validator) validate(ctx context.Context, value any, size int) (*violation, error) {
	v := p.acquire()
	defer p.release(v)
	return v.validate(ctx, value, size)
}

func (p *Validator) acquire() *compiledSchema {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.idle) - 1; last >= 0 {
		v := p.idle[last]
		p.idle = p.idle[:last]
		return v
	}
	v, _ := compileValidator(p.schema) // it has compiled before
	return v
}

func (p *Validator) release(v *compiledSchema) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) < maxIdle {
		p.idle = append(p.idle, v)
	}
}

// Check returns where a JSON value violates the schema: at most 20 bad_arguments faults, sorted by position. It is for
// tests of sources: calls do not check results, as a wrongly documented answer is still an answer.
func (p *Validator) Check(ctx context.Context, value []byte) []*fault.Error {
	compact, f := CompactWithin(value, MaxResultDepth)
	if f != nil {
		return []*fault.Error{f}
	}
	faults, err := p.violations(ctx, compact, nil)
	if err != nil {
		return []*fault.Error{tooMuchWork("the value", err)}
	}
	return faults
}

// violations validates a compact value, except for the unknowns.
func (p *Validator) violations(ctx context.Context, compact []byte, unknowns []unknownValue) ([]*fault.Error, error) {
	r := newReport(p.schema, p.secret, unknowns)
	value, f := decode(compact)
	if f != nil {
		return []*fault.Error{r.decodeFault(f)}, nil
	}
	for _, h := range unknowns {
		h.fill(value)
	}
	tree, err := p.validate(ctx, value, len(compact))
	if tree == nil || err != nil {
		return nil, err
	}
	r.value = value
	return r.faults(tree), nil
}
