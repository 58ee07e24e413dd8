package steps

import (
	"context"
	"sync"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// Entry is a compiled function of a registry. Many goroutines may use it.
type Entry struct {
	*compiledFunction      // shared by all views
	call              Call // the guarded call, within the registry's wrappers
	observers         []observer
	scrubber          Scrubber            // nil: there are no secrets
	resultShape       func() *ResultShape // nil: the shape of results is not learned
	rungPlusOne       int                 // 0: on no rung
}

type observer = func(ctx context.Context, spec *Spec, args, result []byte, err error)

// compiledFunction holds the data that is computed once for a function, at registration or at first use.
type compiledFunction struct {
	spec      *Spec
	input     *schema.Arguments
	prompt    bool  // see Function.Prompt
	maxResult int64 // the maximum bytes of a result; below 0: no limit
	signature func() string
	output    schema.Paths // the paths of the output schema
	results   *resultCheck // nil: results are not compared with the output schema
}

func newEntry(fn *Function, o *RegistryOptions) *Entry {
	spec := fn.Spec
	c := &compiledFunction{spec: &spec, maxResult: o.MaxResultBytes, prompt: fn.Prompt}
	warn := func(which, what string) {
		o.Warn(fault.New(fault.BadRequest, "%s: its %s schema is not checked as written: %s", spec.Name, which, what))
	}
	spec.Description = schema.BoundDescription(spec.Description, o.MaxDescription)
	spec.Defaults, _ = schema.CompactWithin(spec.Defaults, schema.MaxArgumentsDepth)
	shown := shownDefaults(&spec)
	if o.Scrubber != nil {
		shown = o.Scrubber.JSON(shown)
	}
	var problem string
	if spec.Output, problem = schema.CompactSchema(spec.Output); problem == "" {
		spec.Output, problem = schema.FitEnums(spec.Output)
	}
	if problem != "" {
		warn("output", problem)
	}
	c.input, problem = schema.NewArguments(schema.WithDefaults(spec.Input, shown, secret.Redacted), schema.ArgumentsOptions{
		Aliases: spec.Aliases, Defaults: spec.Defaults, Secret: spec.Redact != nil,
	})
	if problem != "" {
		warn("input", problem)
	}
	spec.Input, c.results = c.input.Schema(), newResultCheck(spec.Output)
	for _, warning := range c.input.Warnings() {
		o.Warn(withFunctionName(&spec, warning))
	}
	c.signature = sync.OnceValue(func() string { return schema.Signature(spec.Name, spec.Input, ": ", spec.Output) })
	return &Entry{compiledFunction: c, call: scrubCall(o.Scrubber, c.guard(fn.Call, spec.TakesMarks)), scrubber: o.Scrubber}
}

// shownDefaults returns a function's defaults as its schema may show them, or nil.
func shownDefaults(spec *Spec) []byte {
	if len(spec.Defaults) == 0 {
		return nil
	}
	redact := spec.Redact
	if redact == nil {
		redact = secret.Redaction(spec.Input)
	}
	return redact(spec.Defaults, func([]byte) []byte { return []byte(`"` + secret.Redacted + `"`) })
}

// Spec returns the function's spec, which must not be changed. Its schemas are compact; a schema that was not valid JSON is empty.
func (e *Entry) Spec() *Spec { return e.spec }

// Rung returns the function's rung on the ladder (see Registry.Rank); -1: none.
func (e *Entry) Rung() int { return e.rungPlusOne - 1 }

// Signature returns one line in the style of TypeScript that tells an agent how to call the function and what it returns:
//
//	fs.grep(pattern: string, path?: string = ".", limit?: integer = 100): {count, files: {path, matches: {line, text}[]}[]}
//
// Required arguments come first. It takes at most 120 tokens, about 390 bytes; "…" replaces deeper or longer parts, and
// names of result members take precedence over their types (TypeText). An unknown result is left out.
//
// If the function declares no result, the signature ends with "seen: {…}", the shape of its results so far, once it is known.
func (e *Entry) Signature() string {
	shape := e.ResultShape()
	if shape == nil {
		return e.signature()
	}
	shape.once.Do(func() { shape.signature = schema.Signature(e.spec.Name, e.spec.Input, " seen: ", shape.Schema) })
	return shape.signature
}

// Summary returns the first sentence of the function's description on one line, at most 120 characters; "" if there is no
// description.
func (e *Entry) Summary() string { return schema.Summary(e.spec.Description) }

// Argument returns the declared argument with this name or alias; "" if there is none. Unless the schema accepts arbitrary keys, it ignores
// case and the separators _ and -.
func (e *Entry) Argument(name string) string { return e.input.Name(name) }

// Resembling returns the declared arguments that the name of an undeclared argument resembles, the nearest first; nil: none, or the schema
// accepts other arguments explicitly (additionalProperties, patternProperties) or has conditions that may declare them.
func (e *Entry) Resembling(argument string) []string { return e.input.Resembling(argument) }

// Requires reports whether the input schema requires a top-level argument.
func (e *Entry) Requires(argument string) bool { return e.input.Requires(argument) }

// Properties returns the top-level properties that any branch of the input schema declares, in the schema's order. The slice must not be
// changed.
func (e *Entry) Properties() []string { return e.input.Names() }

// Produces returns the JSON Schema types that the result may have at a path, nil if they are not known. It fails with
// reference_missing if the output schema rules out a value there, with the available keys and the nearest.
func (e *Entry) Produces(path []schema.Element) (types []string, f *fault.Error) {
	return e.output.TypesAt(e.spec.Name, e.spec.Output, path)
}

// Undeclared returns reference_missing, with the nearest names, if a path names a member that the output schema allows but does not
// declare, and the name resembles a declared one; else nil. It is only a warning, because a result may have undeclared members. It covers
// the paths that Produces was called with.
func (e *Entry) Undeclared(path []schema.Element) *fault.Error {
	return e.output.Undeclared(e.spec.Name, e.spec.Output, path)
}
