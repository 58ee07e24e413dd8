package steps

import (
	"context"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// DefaultMaxResultBytes is the bound of one result where RegistryOptions name none: 64 MiB.
const DefaultMaxResultBytes = 64 << 20

// RegistryOptions configure a registry. nil is the zero value.
type RegistryOptions struct {
	// MaxResultBytes bounds one result, counted without the white space between its tokens. 0: DefaultMaxResultBytes;
	// -1: no bound.
	MaxResultBytes int64

	// Scrubber takes secrets out of results, errors, what functions tell while they run, default arguments in input schemas, and
	// what Entry.Shown gives; nil: there are none. A catalogue sets it.
	Scrubber Scrubber

	// Warn gets what is odd but stops nothing: a schema of which a part is not checked (once per function and
	// registration, bad_request), names that differ only in case and separators. nil: nobody listens. It is called
	// during NewRegistry and With only, by one goroutine.
	Warn func(*fault.Error)
}

// Registry is a set of functions with unique names. It is a value: nothing of it changes after it was made, narrowing
// and wrapping make clones that share what was compiled. All methods may be used by many goroutines.
type Registry struct {
	index   *index
	entries []*Entry // as index.names; nil: not in this view
	length  int
	broken  []*linked // saved chains that are left out
	options RegistryOptions
}

// NewRegistry compiles functions into a registry. Codes: bad_request for a name that is unfit or stands twice, a
// function without a Call, an unknown Heavy. Names that differ in case and separators only are accepted with a warning:
// each is found by its exact name. A schema that cannot be used is a warning, and what it would check is not checked.
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
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.spec.Name
		if i > 0 && names[i] == names[i-1] {
			return nil, fault.New(fault.BadRequest, "two functions have the name %s: rename one", fault.Quote(names[i]))
		}
	}
	if len(fns) > 0 {
		warnOfTwins(names, r.options.Warn)
	}
	return &Registry{index: newIndex(names), entries: entries, length: len(entries), options: r.options}, nil
}

func checkFunction(fn *Function) *fault.Error {
	if f := checkName(fn.Name); f != nil {
		return f
	}
	if fn.Call == nil {
		return fault.New(fault.BadRequest, "the function %s has nothing to call", fault.Quote(fn.Name))
	}
	if len(fn.Defaults) > 0 && !isObject(fn.Defaults) {
		return fault.New(fault.BadRequest, "the default arguments of %s are no JSON object", fault.Quote(fn.Name))
	}
	heavy := []string{"", "auto", "always", "never"}
	if !slices.Contains(heavy, fn.Heavy) {
		f := unknownWord("value of heavy", fn.Heavy, heavy[1:])
		f.Message = fn.Name + ": " + f.Message
		return f
	}
	return nil
}

// warnOfTwins tells of names that only their exact spelling tells apart.
func warnOfTwins(names []string, warn func(*fault.Error)) {
	first := make(map[string]string, len(names))
	for _, name := range names {
		folded := FoldName(name)
		if twin, ok := first[folded]; ok {
			warn(fault.New(fault.BadRequest, "the functions %s and %s differ in case and separators only: each is found by its exact name", twin, name))
			continue
		}
		first[folded] = name
	}
}

// View returns a clone that holds only the functions that keep accepts. The others cannot be named, suggested or
// counted in it, nor can the saved chains that call one of them. keep must not change the spec.
func (r *Registry) View(keep func(*Spec) bool) *Registry {
	view := r.clone()
	for i, entry := range view.entries {
		if entry != nil && !keep(entry.spec) {
			view.entries[i] = nil
			view.length--
		}
	}
	view.withoutChains(keep)
	return view
}

// Wrap returns a clone whose calls go through what w makes of them (caching, logging; see Observe for recording). Arguments come to it
// checked and compact; the Call that w is given answers compact JSON within bounds or a coded error, and does not
// panic; what w's Call answers must be such JSON too. Wrappings add up, the last is the outermost.
func (r *Registry) Wrap(w func(*Spec, Call) Call) *Registry {
	return r.with(func(e *Entry) { e.call = w(e.spec, e.call) })
}

// Rank returns a clone whose functions stand on these rungs of a ladder, by name, and the others on none.
func (r *Registry) Rank(rungs map[string]int) *Registry {
	return r.with(func(e *Entry) {
		e.rank = 0
		if rung, on := rungs[e.spec.Name]; on {
			e.rank = rung + 1
		}
	})
}

// Replace returns a clone whose functions are called through what w makes for each, instead of the functions themselves
// and of all wrappings: stand-ins, answers from a recording. What they answer is guarded as the functions are: time
// limits, panics, codes, the bound of a result.
func (r *Registry) Replace(w func(*Spec) Call) *Registry {
	return r.with(func(e *Entry) { e.call = e.guard(w(e.spec)) })
}

// Observe returns a clone that tells o of every call that was made, when its caller gets the answer: args are checked and
// compact, result and err exactly what Entry.Call returns, also for a call that was abandoned at its deadline. A call
// that was refused or stopped before the function was reached is not told. o must neither change nor keep args and result; it may be called by many goroutines at once, and
// the call waits for it. Observers add up.
func (r *Registry) Observe(o func(ctx context.Context, spec *Spec, args, result []byte, err error)) *Registry {
	return r.with(func(e *Entry) { e.observers = append(slices.Clone(e.observers), o) })
}

// Hides reports whether the name, whatever its case and separators, is that of a function which this view has not, but
// the registry that it was made of has.
func (r *Registry) Hides(name string) bool {
	return slices.ContainsFunc(r.index.spellings()[FoldName(name)], func(s spelling) bool {
		return s.rank == whole && r.entries[s.position] == nil
	})
}

func (r *Registry) clone() *Registry {
	c := *r
	c.entries = slices.Clone(r.entries)
	return &c
}

// with returns a clone whose entries are copies that change has changed.
func (r *Registry) with(change func(*Entry)) *Registry {
	c := r.clone()
	for i, entry := range c.entries {
		if entry != nil {
			own := *entry
			change(&own)
			c.entries[i] = &own
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

// Has reports whether this view has a function of exactly that name.
func (r *Registry) Has(name string) bool {
	i, ok := r.index.exact[name]
	return ok && r.entries[i] != nil
}

// Len is the number of functions in this view.
func (r *Registry) Len() int { return r.length }

// isObject reports whether arguments are a JSON object.
func isObject(args []byte) bool {
	compact, f := schema.CompactWithin(args, schema.MaxArgumentsDepth)
	return f == nil && compact[0] == '{'
}
