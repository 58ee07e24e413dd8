package steps

import (
	"context"
	"sync"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// Entry is a function in a registry, compiled. It may be used by many goroutines.
type Entry struct {
	*compiled      // shared by all views
	call      Call // the guarded call of the function, within the registry's wrappings
	observers []observer
	scrubber  Scrubber     // nil: there are no secrets
	seen      func() *Seen // nil: nothing is learnt of its results
	rank      int          // its rung, from 1; 0: none
}

type observer = func(ctx context.Context, spec *Spec, args, result []byte, err error)

// compiled is what is worked out of a function once, at registration or at first use.
type compiled struct {
	spec      *Spec
	input     *schema.Arguments
	prompt    bool
	maxResult int64
	signature func() string
	output    schema.Paths // of the output schema
}

func newEntry(fn *Function, o *RegistryOptions) *Entry {
	spec := fn.Spec
	c := &compiled{spec: &spec, maxResult: o.MaxResultBytes, prompt: fn.Prompt}
	warn := func(which, what string) {
		o.Warn(fault.New(fault.BadRequest, "%s: its %s schema is not checked as written: %s", spec.Name, which, what))
	}
	spec.Description = schema.BoundDescription(spec.Description)
	spec.Defaults, _ = schema.CompactWithin(spec.Defaults, schema.MaxArgumentsDepth)
	shown := withoutSecrets(&spec)
	if o.Scrubber != nil {
		shown = o.Scrubber.JSON(shown)
	}
	var notes string
	if spec.Output, notes = schema.Sound(spec.Output); notes != "" {
		warn("output", notes)
	}
	c.input, notes = schema.NewArguments(schema.WithDefaults(spec.Input, shown, secret.Redacted), schema.ArgumentsOptions{
		Aliases: spec.Aliases, Defaults: spec.Defaults, Secret: spec.Redact != nil,
	})
	if notes != "" {
		warn("input", notes)
	}
	spec.Input = c.input.Schema()
	for _, odd := range c.input.Oddities() {
		o.Warn(named(&spec, odd))
	}
	c.signature = sync.OnceValue(func() string { return schema.Signature(spec.Name, spec.Input, ": ", spec.Output) })
	return &Entry{compiled: c, call: scrubbed(o.Scrubber, c.guard(fn.Call)), scrubber: o.Scrubber}
}

// withoutSecrets is the defaults of a function as its schema may show them.
func withoutSecrets(spec *Spec) []byte {
	if len(spec.Defaults) == 0 {
		return nil
	}
	redact := spec.Redact
	if redact == nil {
		redact = secret.Redaction(spec.Input)
	}
	return redact(spec.Defaults, func([]byte) []byte { return []byte(`"` + secret.Redacted + `"`) })
}

// Spec is what is known of the function. It must not be changed. Its schemas are compact; one that was not JSON is
// empty.
func (e *Entry) Spec() *Spec { return e.spec }

// Rung is the place of the function on the ladder of its registry (see Registry.Rank); -1 if it has none.
func (e *Entry) Rung() int { return e.rank - 1 }

// Signature is one line that tells an agent how to call the function and what it gets, in the manner of TypeScript:
//
//	fs.grep(pattern: string, path?: string = ".", limit?: integer = 100): {count, files: {path, matches: {line, text}[]}[]}
//
// Required arguments come first. It takes at most 120 tokens, some 390 bytes: what is deeper or longer is "…", and of the
// result the names of members come before their types (TypeText). The result is left out where it is not known.
//
// A function that declares no result has the shape of its results so far in that place, once it is known: seen: {…}.
func (e *Entry) Signature() string {
	known := e.Seen()
	if known == nil {
		return e.signature()
	}
	known.once.Do(func() { known.signature = schema.Signature(e.spec.Name, e.spec.Input, " seen: ", known.Schema) })
	return known.signature
}

// Summary is the first sentence of the function's description on one line, at most 120 characters; "" where there is no
// description.
func (e *Entry) Summary() string { return schema.Summary(e.spec.Description) }

// Argument is the name under which the input schema declares an argument that may be given by this name: the name
// itself, what it is an alias of, or the one that differs from it in case and the separators _ and - only, unless the
// schema takes keys of the caller's own; "" where there is none.
func (e *Entry) Argument(name string) string { return e.input.Name(name) }

// Requires reports whether the input schema requires a top-level argument.
func (e *Entry) Requires(argument string) bool { return e.input.Requires(argument) }

// Properties are the top-level properties that the input schema declares in any of its branches, in its order. The
// slice must not be changed.
func (e *Entry) Properties() []string { return e.input.Names() }

// Produces gives the JSON Schema types of what may stand at a path of the function's result, nil if that is not known.
// Code reference_missing if its output schema forbids that there ever is a value, with the keys that there are and the nearest.
func (e *Entry) Produces(path []schema.Element) (types []string, f *fault.Error) {
	return e.output.TypesAt(e.spec.Name, e.spec.Output, path)
}

// Undeclared reports where a path takes a member that the output schema does not declare, though it allows it, and that
// resembles one that it declares: reference_missing, with the nearest. nil: there is none. As a result may have what its
// schema does not declare, it is no more than a warning. It knows of paths that Produces was asked for.
func (e *Entry) Undeclared(path []schema.Element) *fault.Error {
	return e.output.Undeclared(e.spec.Name, e.spec.Output, path)
}
