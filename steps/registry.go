package steps

import (
	"context"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// DefaultMaxResultBytes bounds one result if RegistryOptions do not: 64 MiB.
const DefaultMaxResultBytes = 64 << 20

// RegistryOptions configure a registry. nil is the zero value.
type RegistryOptions struct {
	// MaxResultBytes bounds one result, counted without the white space between its tokens. 0: DefaultMaxResultBytes;
	// -1: no bound.
	MaxResultBytes int64

	// MaxDescription bounds the description of a function in bytes; a longer one is cut, with an ellipsis. 0: no bound, since most
	// clients show a description whole, and those that do not cut it themselves.
	MaxDescription int

	// Scrubber removes secrets from results, errors, callbacks, default arguments in input schemas, and arguments that Entry.Shown
	// returns; nil: there are no secrets. A Catalog overwrites it with its own (CatalogOptions.Scrubber).
	Scrubber Scrubber

	// Warn receives problems that do not stop the registration: a schema that cannot be checked in full (reported once per registration,
	// as bad_request), or names that differ only in case and separators. One goroutine calls it, only during NewRegistry and With. May
	// be nil.
	Warn func(*fault.Error)
}

// Registry is an immutable set of functions with unique names. Narrowing and wrapping return clones that share the compiled
// functions. Many goroutines may use it.
type Registry struct {
	index   *index
	entries []*Entry // the functions by position in index.names; nil: not in this view
	length  int
	broken  []*linkResult // saved chains that are left out
	beneath *Registry     // see Beneath
	options RegistryOptions
}

// NewRegistry compiles functions into a registry. It fails with bad_request for an invalid or duplicate name, a function without a Call,
// default arguments that are not a JSON object, or an unknown value of Heavy. Names that differ only in case and separators give a warning;
// each is found by its exact name. A schema that cannot be used, in whole or in part, gives a warning, and what is unusable is not checked.
func NewRegistry(fns []Function, o *RegistryOptions) (*Registry, error) {
	var options RegistryOptions
	if o != nil {
		options = *o
	}
	if options.MaxResultBytes == 0 {
		options.MaxResultBytes = DefaultMaxResultBytes
	}
	if options.Warn == nil {
		options.Warn = func(*fault.Error) {}
	}
	return (&Registry{options: options}).With(fns...)
}

// With returns a clone with more functions, under the rules of NewRegistry.
func (r *Registry) With(fns ...Function) (*Registry, error) {
	entries := r.All()
	for i := range fns {
		fn := &fns[i]
		if f := checkFunction(fn); f != nil {
			return nil, f
		}
		entries = append(entries, newEntry(fn, &r.options))
	}
	slices.SortStableFunc(entries, func(a, b *Entry) int { return strings.Compare(a.spec.Name, b.spec.Name) })
	names, own := make([]string, len(entries)), map[string]int32{}
	for i, entry := range entries {
		names[i] = entry.spec.Name
		if entry.spec.OwnName != "" {
			own[entry.spec.OwnName] = int32(i)
		}
		if i > 0 && names[i] == names[i-1] {
			return nil, fault.New(fault.BadRequest, "two functions have the name %s: rename one", fault.Quote(names[i]))
		}
	}
	if len(fns) > 0 {
		warnOfSimilarNames(names, r.options.Warn)
	}
	return &Registry{index: newIndex(names, own), entries: entries, length: len(entries), options: r.options}, nil
}

func checkFunction(fn *Function) *fault.Error {
	if f := checkName(fn.Name); f != nil {
		return f
	}
	if fn.Call == nil {
		return fault.New(fault.BadRequest, "the function %s has no Call", fault.Quote(fn.Name))
	}
	if len(fn.Defaults) > 0 && !isObject(fn.Defaults) {
		return fault.New(fault.BadRequest, "the default arguments of %s are not a JSON object", fault.Quote(fn.Name))
	}
	heavy := []string{"", "auto", "always", "never"}
	if !slices.Contains(heavy, fn.Heavy) {
		f := unknownWord("value of heavy", fn.Heavy, heavy[1:])
		f.Message = fn.Name + ": " + f.Message
		return f
	}
	return nil
}

// warnOfSimilarNames warns of names that differ only in case and separators.
func warnOfSimilarNames(names []string, warn func(*fault.Error)) {
	first := make(map[string]string, len(names))
	for _, name := range names {
		folded := FoldName(name)
		if twin, ok := first[folded]; ok {
			warn(fault.New(fault.BadRequest,
				"the functions %s and %s differ in case and separators only: each is found by its exact name", twin, name))
			continue
		}
		first[folded] = name
	}
}

// View returns a clone with only the functions that keep accepts. Other functions, and the saved chains that call them, are not
// called, suggested or counted. keep must not change the spec.
func (r *Registry) View(keep func(*Spec) bool) *Registry {
	view := r.clone()
	for i, entry := range view.entries {
		if entry != nil && !keep(entry.spec) {
			view.entries[i] = nil
			view.length--
		}
	}
	view.dropChains(keep)
	return view
}

// Wrap returns a clone whose calls go through the wrapper that w returns, such as a cache or a logger (see Observe for
// recording). The wrapper receives checked, compact arguments. The Call that w receives returns compact JSON within bounds
// or a coded error and does not panic; the wrapper must return such JSON too. The last wrapper is the outermost.
func (r *Registry) Wrap(w func(*Spec, Call) Call) *Registry {
	return r.mapEntries(func(e *Entry) { e.call = w(e.spec, e.call) })
}

// Rank returns a clone with the rungs of a ladder: rungs maps the names of functions to their rungs. All other functions are on no rung.
func (r *Registry) Rank(rungs map[string]int) *Registry {
	return r.mapEntries(func(e *Entry) {
		e.rungPlusOne = 0
		if rung, on := rungs[e.spec.Name]; on {
			e.rungPlusOne = rung + 1
		}
	})
}

// Replace returns a clone that calls the result of replacement in place of each function and all its wrappers, for instance to give
// recorded answers. The replacement is guarded like a function: time limits, panics, codes, result size. It gets marks in place of the
// bytes of blocks (Spec.TakesMarks).
func (r *Registry) Replace(replacement func(*Spec) Call) *Registry {
	return r.mapEntries(func(e *Entry) { e.call = e.guard(replacement(e.spec), true) })
}

// Observe returns a clone that calls o after each call that reached the function. args are checked and compact. result and err are what
// Entry.Call returns, even for a call that was abandoned at its deadline. o must not change or retain args and result. Many goroutines may
// call it at once, and each call waits for it. If there are several observers, all are called.
func (r *Registry) Observe(o func(ctx context.Context, spec *Spec, args, result []byte, err error)) *Registry {
	return r.mapEntries(func(e *Entry) { e.observers = append(slices.Clone(e.observers), o) })
}

// Hides reports whether a function with this name, ignoring case and separators, was removed from this view.
func (r *Registry) Hides(name string) bool {
	return slices.ContainsFunc(r.index.byFolded()[FoldName(name)], func(s spelling) bool {
		return s.rank == fullName && r.entries[s.position] == nil
	})
}

func (r *Registry) clone() *Registry {
	c := *r
	c.entries = slices.Clone(r.entries)
	return &c
}

// mapEntries returns a clone with a changed copy of each entry.
func (r *Registry) mapEntries(change func(*Entry)) *Registry {
	c := r.clone()
	for i, entry := range c.entries {
		if entry != nil {
			entry := *entry
			change(&entry)
			c.entries[i] = &entry
		}
	}
	return c
}

// All returns the functions of this view, sorted by name.
func (r *Registry) All() []*Entry {
	all := make([]*Entry, 0, r.length)
	for _, entry := range r.entries {
		if entry != nil {
			all = append(all, entry)
		}
	}
	return all
}

// Has reports whether this view has a function with exactly this name.
func (r *Registry) Has(name string) bool {
	i, ok := r.index.exact[name]
	return ok && r.entries[i] != nil
}

// Len returns the number of functions in this view.
func (r *Registry) Len() int { return r.length }

// isObject reports whether args is a JSON object.
func isObject(args []byte) bool {
	compact, f := schema.CompactWithin(args, schema.MaxArgumentsDepth)
	return f == nil && compact[0] == '{'
}
