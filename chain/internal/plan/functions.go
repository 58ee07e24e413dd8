package plan

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// AwaitFunctions takes the functions that are available now. While sources are starting, it waits for names that are not found. A full
// name, in any case and with any separators, is unambiguous; any other name may become ambiguous.
//
// A request waits no longer than it may run. r is nil if it could not be decoded; it does not wait then.
func (u *Rules) AwaitFunctions(ctx context.Context, r *Request) *steps.Registry {
	if r == nil || u.Functions.Starting() == nil {
		return u.Functions.Registry()
	}
	longest := u.Limits
	longest.lower(r.Budget)
	ctx, cancel := context.WithTimeout(ctx, longest.Duration)
	defer cancel()
	return steps.Await(ctx, u.Functions, func(now *steps.Registry) bool { return allResolvable(u.Functions, now, r.Steps) })
}

// allResolvable reports whether the name of each step is known now, or cannot become known.
func allResolvable(functions steps.Provider, now *steps.Registry, list []StepRequest) bool {
	for i := range list {
		if inline := list[i].Chain; inline != nil && !allResolvable(functions, now, inline.Steps) {
			return false
		}
		if name := list[i].Fn; name != "" && !now.HasName(name) && steps.Pending(functions, name) {
			return false
		}
	}
	return true
}

// SourcesDownFault is the fault of a chain if every fault is about an unavailable source; otherwise nil.
func SourcesDownFault(list []*fault.Error) *fault.Error {
	var causes []string
	for _, f := range list {
		var source *steps.NotReady
		if !errors.As(f.Err, &source) {
			return nil
		}
		if !slices.Contains(causes, source.Message) {
			causes = append(causes, source.Message)
		}
	}
	ready := "it is ready"
	if len(causes) > 1 {
		ready = "they are ready"
	}
	return fault.New(fault.Unavailable, "nothing was run: %s; send the same chain again when %s", strings.Join(causes, ", "), ready)
}

// notFoundFault is the fault for a name that is not found, perhaps because its source is unavailable.
func notFoundFault(functions steps.Provider, name string, err error) *fault.Error {
	if missing := new(steps.MissingFunctionError); errors.As(err, &missing) {
		name = missing.Name
	}
	if down := steps.Unavailable(functions, name); down != nil {
		return down
	}
	f, _ := fault.As(err)
	if key := steps.ClosedBy(functions, name); key != "" {
		f = f.Under("") // a copy
		f.Message, f.Nearest = "there is no function "+fault.Quote(name)+": the configuration opens it with "+key, nil
		return f
	}
	if steps.Qualified(functions, name) {
		return f
	}
	down, locked := steps.AbsentSources(functions)
	for _, absent := range []struct {
		sources []string
		why     string
	}{{down, "cannot be reached"}, {locked, "only callers with a credential of their own see"}} {
		if n := len(absent.sources); n > 0 && n <= 10 {
			f = f.Under("") // a copy
			f.Message += "; not looked for in " + strings.Join(absent.sources, ", ") + ", which " + absent.why
		}
	}
	return f
}

// unboundFault is the fault of a step that calls a function without the credential that its caller needs; nil: it calls none, or is only
// checked or planned.
func (c *compiler) unboundFault(entry *steps.Entry) *fault.Error {
	if c.unsent {
		return nil
	}
	return steps.MissingCredential(c.rules.Functions, entry.Spec())
}
