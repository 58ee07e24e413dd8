// Package stepstest is the conformance suite for sources: the rules that the registry, and chains above it, rely on.
package stepstest

import (
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/steps"
)

// Options tell the suite what to test.
type Options struct {
	// New returns a new source. It is called more than once; the suite closes the sources.
	New func(t *testing.T) steps.Source

	// Args has arguments for functions, by name: a JSON object with which every call succeeds. Functions without an entry are
	// inspected, but not called with valid arguments. At least one entry is needed.
	Args map[string]string

	// Fails has arguments that match the input schema and must be answered with a coded error: a missing file, a host that
	// is not allowed.
	Fails map[string][]string

	// AssumedEffects allows functions whose effect was not declared, for sources that pass on the declarations of others.
	AssumedEffects bool
}

// Run runs the suite, each rule as a subtest:
//
//   - spec: a canonical name (source.tool), a description, a declared effect, an input schema that is a plain root object
//     and compiles without warnings, an output schema that compiles too; the same functions every time;
//   - result: a call that succeeds answers one JSON value that matches the output schema;
//   - misfit: arguments that do not match the schema are rejected with bad_arguments, and do not make the function panic;
//   - fails: the calls of Options.Fails give coded errors;
//   - args: a function neither changes its arguments nor keeps them, and its result shares no memory with them;
//   - cancel: a call returns soon after its context is done;
//   - concurrent: calls may be made side by side (run with -race);
//   - close: Close may be called twice, and calls after it fail with unavailable.
func Run(t *testing.T, o Options) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) { r.check(newSuite(t, o, t.Errorf)) })
	}
}

// suite is one source under test.
type suite struct {
	Options
	t           *testing.T
	callTimeout time.Duration // how long to wait before reporting that a call hangs
	fail        func(format string, args ...any)
	source      steps.Source
	functions   []steps.Function
	registry    *steps.Registry
}

var rules = []struct {
	name  string
	check func(*suite)
}{
	{"spec", checkSpecs},
	{"result", checkResults},
	{"misfit", checkMisfits},
	{"fails", checkFailures},
	{"args", checkArguments},
	{"cancel", checkCancellation},
	{"concurrent", checkConcurrency},
	{"close", checkClose},
}

// newSuite opens a source and puts its functions into a registry. It reports problems with them through fail.
func newSuite(t *testing.T, o Options, fail func(string, ...any)) *suite {
	t.Helper()
	s := &suite{Options: o, t: t, callTimeout: callTimeout, fail: fail, source: o.New(t)}
	t.Cleanup(func() { _ = s.source.Close() })
	s.functions = s.source.Functions()
	for i := range s.functions {
		s.functions[i].Check = nil // only the schema decides here; the call must report the rest
	}
	registry, err := steps.NewRegistry(s.functions, &steps.RegistryOptions{})
	if err != nil {
		fail("the functions cannot be registered: %v", err)
		if registry, err = steps.NewRegistry(nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.registry = registry
	for name := range o.Args {
		if s.entry(name) == nil {
			fail("Args names %s, which the source does not offer", name)
		}
	}
	if len(o.Args) == 0 {
		fail("Args names no function: nothing can be called")
	}
	return s
}

// entry finds a function by its exact name; nil when there is none.
func (s *suite) entry(name string) *steps.Entry {
	entry, err := s.registry.Resolve(name)
	if err != nil || entry.Spec().Name != name {
		return nil
	}
	return entry
}

// each calls check for every function that has example arguments.
func (s *suite) each(check func(entry *steps.Entry, raw steps.Call, args string)) {
	for i := range s.functions {
		fn := &s.functions[i]
		args, ok := s.Args[fn.Name]
		if entry := s.entry(fn.Name); ok && entry != nil {
			check(entry, fn.Call, args)
		}
	}
}
