package schema

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// The work of a validation is the number of schemas applied to values, plus the branches of each schema and the members of each value. It
// may not exceed minWork plus workPerByte for each byte of the value. Without this bound it would grow exponentially in recursive schemas
// with several branches.
const minWork, workPerByte = 200_000, 16

// errTooMuchWork is the error of a validation that was stopped because of its work.
var errTooMuchWork = errors.New("the validation takes too long")

// compiledSchema is a compiled schema that counts its work; it validates one value at a time.
type compiledSchema struct {
	schema   *jsonschema.Schema
	ctx      context.Context
	workLeft int
	visits   uint // schemas visited; ctx is checked at every 64th
}

// validate returns the violations, or why it gave up: errTooMuchWork or ctx's error.
func (v *compiledSchema) validate(ctx context.Context, value any, size int) (tree *violation, err error) {
	v.ctx, v.workLeft = ctx, minWork+workPerByte*size
	defer func() {
		v.ctx = nil
		if panicked := recover(); panicked != nil {
			stop, ok := panicked.(stopValidation)
			if !ok {
				panic(panicked)
			}
			err = stop.reason
		}
	}()
	errors.As(v.schema.Validate(value), &tree)
	return tree, nil
}

// stopValidation is the panic value that stops a validation, because the library has no other way to stop.
type stopValidation struct{ reason error }

// spend counts the work of one schema. It is called before anything below the schema is visited.
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

// workFormat returns the name of the format that a normalized schema gets in place of its own, which would check nothing. The name
// contains the number of branches. The validator checks formats before anything that takes long.
func workFormat(branches int) string { return "branches:" + strconv.Itoa(branches) }

// countWork makes compiled schemas count their work in v, and ignore all other formats.
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
			return nil, nil // after compiling, only the format "regex" calls this
		}
		return compileRegexp(pattern)
	})
	for _, name := range []string{"uri", "uri-reference", "uriref"} { // formats of the drafts' own schemas, which are not checked
		compiler.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
}

// Validator checks values against a schema. Many goroutines may use it. Each concurrent use compiles the schema, or takes one of up to
// maxIdle compiled schemas that earlier uses left.
type Validator struct {
	schema []byte
	secret bool                 // faults do not show values
	simple func() *simpleSchema // nil: the schema is not simple
	mu     sync.Mutex
	idle   []*compiledSchema
}

const maxIdle = 8

func (v *Validator) validate(ctx context.Context, value any, size int) (*violation, error) {
	compiled := v.acquire()
	defer v.release(compiled)
	return compiled.validate(ctx, value, size)
}

func (v *Validator) acquire() *compiledSchema {
	v.mu.Lock()
	defer v.mu.Unlock()
	if last := len(v.idle) - 1; last >= 0 {
		compiled := v.idle[last]
		v.idle = v.idle[:last]
		return compiled
	}
	compiled, _ := compileValidator(v.schema) // Compile has succeeded
	return compiled
}

func (v *Validator) release(compiled *compiledSchema) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.idle) < maxIdle {
		v.idle = append(v.idle, compiled)
	}
}

// Accepts reports whether a compact value certainly matches the schema, without allocating. If it returns false, the value may still match.
func (v *Validator) Accepts(compact []byte) bool {
	simple := v.simple()
	return simple != nil && simple.accepts(gjson.Parse(rawjson.View(compact)))
}

// Check returns the faults of a JSON value: at most 20 bad_arguments faults, sorted by position.
func (v *Validator) Check(ctx context.Context, value []byte) []*fault.Error {
	compact, f := CompactWithin(value, MaxResultDepth)
	if f != nil {
		return []*fault.Error{f}
	}
	faults, err := v.violations(ctx, compact, nil, false)
	if err != nil {
		return []*fault.Error{tooMuchWork("the value", err)}
	}
	return faults
}

// violations validates a compact value, except for the unknowns. hide: faults do not show values.
func (v *Validator) violations(ctx context.Context, compact []byte, unknowns []unknownValue, hide bool) ([]*fault.Error, error) {
	r := newReport(v.schema, v.secret || hide, unknowns)
	value, f := decode(compact)
	if f != nil {
		return []*fault.Error{r.decodeFault(f)}, nil
	}
	for _, unknown := range unknowns {
		unknown.fill(value)
	}
	tree, err := v.validate(ctx, value, len(compact))
	if tree == nil || err != nil {
		return nil, err
	}
	r.value = value
	return r.faults(tree), nil
}
