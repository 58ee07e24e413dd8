package chain

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// awaitFunctions takes the functions that are available now. While sources are starting, it waits for names that are not found. A full
// name, in any case and with any separators, is unambiguous; any other name may become ambiguous.
func (s *requestState) awaitFunctions(ctx context.Context, r *request) {
	if s.provider.Starting() == nil {
		s.view = s.provider.Registry()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.maxWait(r))
	defer cancel()
	s.view = steps.Await(ctx, s.provider, func(now *steps.Registry) bool { return r == nil || s.allResolvable(now, r.Steps) })
}

// maxWait is how long a request may wait for functions: as long as it may run.
func (s *requestState) maxWait(r *request) time.Duration {
	patience := s.maxDuration
	if r != nil && r.Budget != nil && r.Budget.MaxDurationMs != nil {
		patience = min(patience, time.Duration(*r.Budget.MaxDurationMs)*time.Millisecond)
	}
	return patience
}

// allResolvable reports whether the name of each step is known, or cannot become known.
func (s *requestState) allResolvable(functions *steps.Registry, list []step) bool {
	for i := range list {
		if inline := list[i].Chain; inline != nil && !s.allResolvable(functions, inline.Steps) {
			return false
		}
		if name := list[i].Fn; name != "" && !functions.HasName(name) && steps.Pending(s.provider, name) {
			return false
		}
	}
	return true
}

// sourcesDownFault is the fault of a chain if every fault is about an unavailable source; otherwise nil.
func sourcesDownFault(list []*fault.Error) *fault.Error {
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
func (s *requestState) notFoundFault(name string, err error) *fault.Error {
	if missing := new(steps.MissingFunctionError); errors.As(err, &missing) {
		name = missing.Name
	}
	if down := steps.Unavailable(s.provider, name); down != nil {
		return down
	}
	f, _ := fault.As(err)
	if absent := steps.AbsentSources(s.provider); len(absent) > 0 && len(absent) <= 10 && !steps.Qualified(s.provider, name) {
		f = f.Under("") // a copy
		f.Message += "; not looked for in " + strings.Join(absent, ", ") + ", which cannot be reached"
	}
	return f
}
