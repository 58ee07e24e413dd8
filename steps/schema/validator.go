package schema

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/onecall-mcp/onecall/fault"
)

// The work of one validation is counted in schemas that are applied to values, with the branches of each and the
// members of each value: at most leastWork and workPerByte more for each byte of the value. Schemas that refer to
// themselves in several branches would make it grow exponentially.
const leastWork, workPerByte = 200_000, 16

// errTooMuchWork says that a validation was given up.
var errTooMuchWork = errors.New("the validation takes too long")

// validator is a compiled schema that counts its work; it validates one value at a time.
type validator struct {
	schema *jsonschema.Schema
	ctx    context.Context
	left   int
	visits uint
}

// validate gives the violations, or why it was given up: errTooMuchWork, or that ctx ended.
func (v *validator) validate(ctx context.Context, value any, size int) (tree *violation, err error) {
	v.ctx, v.left = ctx, leastWork+workPerByte*size
	defer func() {
		v.ctx = nil
		if given := recover(); given != nil {
			stop, ok := given.(givenUp)
			if !ok {
				panic(given)
			}
			err = stop.reason
		}
	}()
	errors.As(v.schema.Validate(value), &tree)
	return tree, nil
}

// givenUp is what a validation is ended with: the library has no other way out.
type givenUp struct{ reason error }

// spend is called at each schema before anything below it is looked at.
func (v *validator) spend(branches int, value any) {
	v.left -= 1 + branches
	switch value := value.(type) {
	case map[string]any:
		v.left -= len(value)
	case []any:
		v.left -= len(value)
	}
	if v.left < 0 {
		panic(givenUp{errTooMuchWork})
	}
	if v.visits++; v.visits%64 == 0 && v.ctx.Err() != nil {
		panic(givenUp{v.ctx.Err()})
	}
}

// workFormat is the name of the format that a normalised schema has in the place of its own (which checks nothing): the
// number of its branches. The validator looks at formats before all else that takes long.
func workFormat(branches int) string { return "branches:" + strconv.Itoa(branches) }

// count has the compiler make schemas that spend the work of v, and check no other format.
func (v *validator) count(compiler *jsonschema.Compiler, doc *document) {
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

// Validator checks values against a compiled schema. It may be used by many goroutines: it keeps as many of the library's
// validators as have ever been needed at once, up to maxIdle, and one from the start.
type Validator struct {
	schema []byte
	secret bool // faults show no values
	mu     sync.Mutex
	idle   []*validator
}

const maxIdle = 8

func (p *Validator) validate(ctx context.Context, value any, size int) (*violation, error) {
	v := p.take()
	defer p.put(v)
	return v.validate(ctx, value, size)
}

func (p *Validator) take() *validator {
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

func (p *Validator) put(v *validator) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) < maxIdle {
		p.idle = append(p.idle, v)
	}
}

// Check tells where a JSON value breaks the schema: at most 20 faults of code bad_arguments, sorted by place. It is for
// tests of sources: calls do not check results, as an answer that its source documents wrongly is an answer still.
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

// violations validates a compact value, except for the holes.
func (p *Validator) violations(ctx context.Context, compact []byte, holes []hole) ([]*fault.Error, error) {
	r := newReport(p.schema, p.secret, holes)
	value, f := decode(compact)
	if f != nil {
		return []*fault.Error{r.undecoded(f)}, nil
	}
	for _, h := range holes {
		h.fill(value)
	}
	tree, err := p.validate(ctx, value, len(compact))
	if tree == nil || err != nil {
		return nil, err
	}
	r.value = value
	return r.faults(tree), nil
}
