package steps

import (
	"context"
	"slices"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
)

// Entry is a function in a registry, compiled. It may be used by many goroutines.
type Entry struct {
	*compiled      // shared by all views
	call      Call // the guarded call of the function, within the registry's wrappings
	observers []observer
	scrubber  Scrubber // nil: there are no secrets
	seen      *seen    // nil: nothing is learnt of its results
	rank      int      // its rung, from 1; 0: none
}

type observer = func(ctx context.Context, spec *Spec, args, result []byte, err error)

// compiled is what is worked out of a function once, at registration or at first use.
type compiled struct {
	spec       *Spec
	input      *validators   // nil: any object
	plain      func() *plain // nil: the input schema is not plain
	prepare    func() *preparation
	prompt     bool
	maxResult  int64
	properties func() []string
	signature  func() string
	output     func() *validators // nil: any result
	walked     walkedPaths        // of the output schema
}

func newEntry(fn *Function, o *RegistryOptions) *Entry {
	spec := fn.Spec
	c := &compiled{spec: &spec, maxResult: o.MaxResultBytes, prompt: fn.Prompt}
	warn := func(which, what string) {
		o.Warn(fault.New(fault.BadRequest, "%s: its %s schema is not checked as written: %s", spec.Name, which, what))
	}
	spec.Description = BoundDescription(spec.Description)
	spec.Defaults, _ = compactJSON(spec.Defaults, maxArgsDepth)
	shown := withoutSecrets(&spec)
	if o.Scrubber != nil {
		shown = o.Scrubber.JSON(shown)
	}
	spec.Input = withDefaults(spec.Input, shown)
	var notes string
	if spec.Output, notes = soundSchema(spec.Output); notes != "" {
		warn("output", notes)
	}
	if spec.Input, notes = soundSchema(spec.Input); notes == "" {
		c.input, notes = compileSchema(spec.Input)
	}
	if notes != "" {
		warn("input", notes)
	}
	c.properties = sync.OnceValue(func() []string { return declared(spec.Input) })
	c.plain = sync.OnceValue(func() *plain { return plainOf(gjson.ParseBytes(spec.Input), 0) })
	c.prepare = sync.OnceValue(func() *preparation { return newPreparation(&spec, c.properties()) })
	if c.input != nil && (len(spec.Aliases) > 0 || len(spec.Defaults) > 0) {
		for _, odd := range c.prepare().oddities(&spec, c) {
			o.Warn(odd)
		}
	}
	c.walked.doubts = true
	c.signature = sync.OnceValue(func() string { return signature(&spec, ": ", spec.Output) })
	c.output = sync.OnceValue(func() *validators {
		compiled, _ := compileSchema(spec.Output)
		return compiled
	})
	return &Entry{compiled: c, call: c.guard(fn.Call)}
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
	if e.seen == nil {
		return e.signature()
	}
	return e.seen.withSeen(e.spec, e.signature)
}

// Declares tells whether the input schema declares this top-level property, in any of its branches.
func (e *Entry) Declares(arg string) bool { return slices.Contains(e.properties(), arg) }

// Argument is the name under which the input schema declares an argument that may be given by this name: the name
// itself, what it is an alias of, or the one that differs from it in case and the separators _ and - only, unless the
// schema takes keys of the caller's own; "" where there is none.
func (e *Entry) Argument(name string) string {
	if e.Declares(name) {
		return name
	}
	return e.prepare().stands(name)
}

// Requires reports whether the input schema requires a top-level argument.
func (e *Entry) Requires(argument string) bool {
	for _, name := range gjson.GetBytes(e.spec.Input, "required").Array() {
		if name.Str == argument {
			return true
		}
	}
	return false
}

// Properties are the top-level properties that the input schema declares in any of its branches, in its order. The
// slice must not be changed.
func (e *Entry) Properties() []string { return e.properties() }

// CheckResult tells where a result does not fit the output schema, as Check does for arguments; nothing where there is no
// output schema. Calls do not make this check: an answer that its source documents wrongly is an answer still. It is
// for tests of sources.
func (e *Entry) CheckResult(result []byte) []*fault.Error {
	compact, f := compactJSON(result, maxResultDepth)
	if f != nil {
		return []*fault.Error{f}
	}
	faults, err := violations(context.Background(), e.spec, e.spec.Output, e.output(), compact, nil)
	if err != nil {
		return []*fault.Error{tooMuchWork("the result", err)}
	}
	return faults
}
