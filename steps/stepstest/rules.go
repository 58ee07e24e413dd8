package stepstest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// callTimeout is how long the suite waits for a call before it reports that the call hangs.
const callTimeout = 5 * time.Second

var canonical = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+$`)

func checkSpecs(s *suite) {
	if len(s.functions) == 0 {
		s.fail("the source offers no functions")
	}
	for i := range s.functions {
		s.checkSpec(&s.functions[i])
	}
	names := func(fns []steps.Function) []string {
		var names []string
		for _, fn := range fns {
			names = append(names, fn.Name)
		}
		return slices.Sorted(slices.Values(names))
	}
	if again := names(s.source.Functions()); !slices.Equal(again, names(s.functions)) {
		s.fail("a second call of Functions returns different functions: %v", again)
	}
}

func (s *suite) checkSpec(fn *steps.Function) {
	if !canonical.MatchString(fn.Name) {
		s.fail("%q is not a canonical name: source.tool or source.resource.action", fn.Name)
	}
	if strings.TrimSpace(fn.Description) == "" {
		s.fail("%s has no description", fn.Name)
	}
	if !fn.EffectDeclared && !s.AssumedEffects {
		s.fail("%s does not declare its effect", fn.Name)
	}
	warn := func(f *fault.Error) { s.fail("%s", f.Message) }
	if _, err := steps.NewRegistry([]steps.Function{*fn}, &steps.RegistryOptions{Warn: warn}); err != nil {
		s.fail("%s cannot be registered: %v", fn.Name, err)
	}
	// The output schema must be usable too: it is registered as an input schema to check it.
	if len(fn.Output) > 0 {
		output := *fn
		output.Input, output.Output = fn.Output, nil
		if _, err := steps.NewRegistry([]steps.Function{output}, &steps.RegistryOptions{Warn: func(f *fault.Error) {
			s.fail("the output schema has a fault: %s", f.Message)
		}}); err != nil {
			s.fail("%s cannot be registered: %v", fn.Name, err)
		}
	}
	var root map[string]json.RawMessage
	if err := json.Unmarshal(fn.Input, &root); err != nil || string(root["type"]) != `"object"` {
		s.fail(`%s has no input schema with "type":"object" at its root`, fn.Name)
	}
	for _, keyword := range []string{"oneOf", "anyOf", "allOf", "not", "if", "$ref"} {
		if _, ok := root[keyword]; ok {
			s.fail("%s has %s at the root of its input schema: a plain object is needed", fn.Name, keyword)
		}
	}
}

func checkResults(s *suite) {
	s.each(func(entry *steps.Entry, _ steps.Call, args string) {
		name := entry.Spec().Name
		for _, f := range entry.Check([]byte(args), nil) {
			s.fail("%s: the example arguments violate its schema: %v", name, f)
		}
		result, err := s.call(s.t.Context(), name, entry.Call, []byte(args))
		if err != nil {
			s.fail("%s fails with its example arguments: %v", name, err)
			return
		}
		for _, f := range outputFaults(s.t.Context(), entry.Spec().Output, result) {
			s.fail("%s: the result violates its output schema: %v", name, f)
		}
	})
}

// call calls with a timeout. A panic fails the test and is returned as an error.
func (s *suite) call(ctx context.Context, name string, call steps.Call, args []byte) ([]byte, error) {
	type callResult struct {
		result []byte
		err    error
		panic  any
	}
	done := make(chan callResult, 1)
	go func() {
		var o callResult
		defer func() {
			o.panic = recover()
			done <- o
		}()
		o.result, o.err = call(ctx, args)
	}()
	select {
	case o := <-done:
		if o.panic != nil {
			s.fail("%s panics: %v", name, o.panic)
			o.err = fault.New(fault.Internal, "panic")
		}
		return o.result, o.err
	case <-time.After(s.callTimeout):
		s.fail("%s does not return within %v", name, s.callTimeout)
		return nil, fault.New(fault.Timeout, "hangs")
	}
}

// invalidArguments returns arguments that violate the schema: each declared property with a value of each type that it may not have, each
// required property left out, and an undeclared property if none is allowed.
func invalidArguments(entry *steps.Entry, args string) []string {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(args), &members); err != nil {
		members = map[string]json.RawMessage{}
	}
	variant := func(key, value string) string {
		changed := map[string]json.RawMessage{}
		for k, v := range members {
			changed[k] = v
		}
		if changed[key] = json.RawMessage(value); value == "" {
			delete(changed, key)
		}
		text, err := json.Marshal(changed)
		if err != nil {
			return args
		}
		return string(text)
	}
	candidates := []string{variant("no such argument", "1")}
	for _, key := range entry.Properties() {
		for _, value := range []string{"", "null", "true", "-1", "1.5", `"\u0000"`, "[]", "[null]", "{}"} {
			candidates = append(candidates, variant(key, value))
		}
	}
	return slices.DeleteFunc(candidates, func(candidate string) bool { return len(entry.Check([]byte(candidate), nil)) == 0 })
}

func checkMisfits(s *suite) {
	s.each(func(entry *steps.Entry, raw steps.Call, args string) {
		name := entry.Spec().Name
		for _, misfit := range append(invalidArguments(entry, args), "[]", "null", `"text"`, "{", "") {
			if misfit != "" {
				_, err := s.call(s.t.Context(), name, entry.Call, []byte(misfit))
				s.expectCode(fmt.Sprintf("%s with %s", name, misfit), err, fault.BadArguments)
			}
			// Without the registry's check, a function may accept these arguments, but must not panic.
			if _, err := s.call(s.t.Context(), name, raw, []byte(misfit)); err != nil {
				s.expectCode(fmt.Sprintf("%s, called without a check, with %s", name, misfit), err)
			}
		}
	})
}

// expectCode fails unless err has a known code, or one of want if given.
func (s *suite) expectCode(what string, err error, want ...fault.Code) {
	f, ok := fault.As(err)
	switch {
	case err == nil:
		s.fail("%s is accepted", what)
	case !ok || f == nil:
		s.fail("%s fails without a code: %v", what, err)
	case len(want) > 0 && !slices.Contains(want, f.Code):
		s.fail("%s fails with %s, want %v", what, f.Code, want)
	case !slices.Contains(fault.Codes(), f.Code):
		s.fail("%s fails with %q, which is not in the closed list", what, f.Code)
	case f.Message == "":
		s.fail("%s fails with %s and no message", what, f.Code)
	}
}

func checkFailures(s *suite) {
	for _, fn := range s.functions {
		entry := s.entry(fn.Name)
		for _, args := range s.Fails[fn.Name] {
			if entry == nil || len(entry.Check([]byte(args), nil)) > 0 {
				s.fail("%s: the arguments of Fails violate its schema: %s", fn.Name, args)
				continue
			}
			_, err := s.call(s.t.Context(), fn.Name, fn.Call, []byte(args))
			s.expectCode(fn.Name+" with "+args, err)
		}
	}
}

func checkArguments(s *suite) {
	s.each(func(entry *steps.Entry, raw steps.Call, args string) {
		name := entry.Spec().Name
		given := []byte(args)
		result, err := s.call(s.t.Context(), name, raw, given)
		if err != nil {
			s.fail("%s fails with its example arguments: %v", name, err)
			return
		}
		if string(given) != args {
			s.fail("%s changes its arguments", name)
		}
		before := bytes.Clone(result)
		for i := range given {
			given[i] = '#' // the race detector finds a function that still reads them
		}
		if !bytes.Equal(result, before) {
			s.fail("%s returns memory of its arguments", name)
		}
		if again, err := s.call(s.t.Context(), name, raw, []byte(args)); err != nil || !json.Valid(again) {
			s.fail("%s fails when it is called again after its arguments were overwritten: %v", name, err)
		}
	})
}

func checkCancellation(s *suite) {
	s.each(func(entry *steps.Entry, raw steps.Call, args string) {
		name := entry.Spec().Name
		ended, cancel := context.WithCancel(s.t.Context())
		cancel()
		_, err := s.call(ended, name, entry.Call, []byte(args))
		s.expectCode(name+" with a cancelled context", err, fault.Cancelled)
		if _, err := s.call(ended, name, raw, []byte(args)); err != nil && !isContext(err) {
			s.expectCode(name+", called without a guard, with a cancelled context", err)
		}
		ending, cancel := context.WithTimeout(s.t.Context(), time.Millisecond)
		defer cancel()
		if _, err := s.call(ending, name, raw, []byte(args)); err != nil && !isContext(err) {
			s.expectCode(name+" with a context that ends while it runs", err)
		}
	})
}

// isContext reports whether an error is a context's own: the registry gives it its code.
func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func checkConcurrency(s *suite) {
	const callers, rounds = 8, 3
	s.each(func(entry *steps.Entry, _ steps.Call, args string) {
		name := entry.Spec().Name
		var calls sync.WaitGroup
		errs := make(chan error, callers*rounds)
		for range callers {
			calls.Go(func() {
				for range rounds {
					_, err := entry.Call(s.t.Context(), []byte(args))
					errs <- err
				}
			})
		}
		calls.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				s.fail("%s fails when it is called concurrently: %v", name, err)
				return
			}
		}
	})
}

func checkClose(s *suite) {
	for range 2 {
		if err := s.source.Close(); err != nil {
			s.fail("Close fails: %v", err)
		}
	}
	s.each(func(entry *steps.Entry, raw steps.Call, args string) {
		name := entry.Spec().Name
		_, err := s.call(s.t.Context(), name, raw, []byte(args))
		s.expectCode(name+" after Close", err, fault.Unavailable)
	})
}

// outputFaults returns the violations of the output schema by a result.
func outputFaults(ctx context.Context, output, result []byte) []*fault.Error {
	if validator, _ := schema.Compile(output); validator != nil {
		return validator.Check(ctx, result)
	}
	return nil
}
