package steps

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
)

const (
	maxName    = 256 // bytes of a function's name
	maxListed  = 20  // candidates that the fault of an ambiguous name lists
	maxNearest = 3   // suggestions
	maxAlike   = 100 // names from which the suggestions are chosen
)

// separators are the characters that resolution ignores.
const separators = "._-/"

// FoldName returns the form in which names are compared: lower case, without the separators . _ - /.
func FoldName(name string) string {
	return strings.Map(func(c rune) rune {
		if c < utf8.RuneSelf && strings.IndexByte(separators, byte(c)) >= 0 {
			return -1
		}
		return unicode.ToLower(c)
	}, name)
}

// spelling is one way to write a function's name; the lowest rank wins.
type spelling struct {
	position int32 // the index of the name in index.names
	rank     rank
}

type rank uint8

const (
	fullName      rank = iota // the name with its source
	withoutSource             // the name after its first dot
	suffix                    // the name after a later separator
)

// index finds names by their spellings. It is made once and shared by all views of a registry.
type index struct {
	names    []string // sorted
	exact    map[string]int32
	byFolded func() map[string][]spelling // the spellings, by folded text; computed on the first lookup that has no exact match
	sources  func() map[string][]int32    // the positions of a source's names, by folded source
}

func newIndex(sorted []string) *index {
	x := &index{names: sorted, exact: make(map[string]int32, len(sorted))}
	for i, name := range sorted {
		x.exact[name] = int32(i)
	}
	x.byFolded = sync.OnceValue(x.bySpelling)
	x.sources = sync.OnceValue(x.bySource)
	return x
}

func (x *index) bySource() map[string][]int32 {
	sources := map[string][]int32{}
	for i, name := range x.names {
		if source, _, dotted := strings.Cut(name, "."); dotted {
			folded := FoldName(source)
			sources[folded] = append(sources[folded], int32(i))
		}
	}
	return sources
}

func (x *index) bySpelling() map[string][]spelling {
	variants := make(map[string][]spelling, 3*len(x.names))
	for i, name := range x.names {
		add := func(text string, r rank) {
			if folded := FoldName(text); folded != "" {
				variants[folded] = append(variants[folded], spelling{int32(i), r})
			}
		}
		add(name, fullName)
		dot := strings.IndexByte(name, '.')
		for at := 0; at < len(name); at++ {
			switch {
			case at == dot:
				add(name[at+1:], withoutSource)
			case strings.IndexByte(separators, name[at]) >= 0:
				add(name[at+1:], suffix)
			}
		}
	}
	return variants
}

// checkName rejects names that cannot be written in a chain or a configuration.
func checkName(name string) *fault.Error {
	isInvalid := func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }
	switch {
	case FoldName(name) == "":
		return fault.New(fault.BadRequest, "a function has the name %s: a name needs letters or digits", fault.Quote(name))
	case len(name) > maxName:
		return fault.New(fault.BadRequest, "the function name %s is longer than %d bytes", fault.Quote(name), maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, isInvalid):
		return fault.New(fault.BadRequest, "the function name %s holds blanks or control characters", fault.Quote(name))
	}
	return nil
}

// Resolve returns the function of this view that a name means. It compares, in this order: the exact name; the name without regard to case
// and the separators . _ - /; the same without the source; the same for a suffix after a separator. The first comparison that matches
// decides; other functions take precedence over saved chains. A name that begins with a source of this view means a function of that
// source, so that a rule for "fs.*" covers everything that "fs.x" can mean. It returns unknown_function if nothing matches, with the three
// nearest names, or if several functions match, with at most 20 of them.
func (r *Registry) Resolve(name string) (*Entry, error) {
	if i, ok := r.index.exact[name]; ok && r.entries[i] != nil {
		return r.entries[i], nil
	}
	var matches []*Entry
	if len(name) <= maxName {
		best := suffix
		ofSource := r.ofSource(name)
		for _, s := range r.index.byFolded()[FoldName(name)] {
			entry := r.entries[s.position]
			if entry == nil || s.rank > best || ofSource != nil && !slices.Contains(ofSource, s.position) {
				continue
			}
			if s.rank < best {
				best, matches = s.rank, matches[:0]
			}
			if !slices.Contains(matches, entry) {
				matches = append(matches, entry)
			}
		}
	}
	if len(matches) > 1 { // other functions take precedence over saved chains
		if functions := slices.DeleteFunc(slices.Clone(matches), func(e *Entry) bool { return e.spec.Saved != nil }); len(functions) > 0 {
			matches = functions
		}
	}
	switch len(matches) {
	case 0:
		return nil, r.unknown(name)
	case 1:
		return matches[0], nil
	}
	return nil, ambiguous(name, matches)
}

// ofSource returns the positions of the functions of the source with which the name begins; nil if it begins with no source of this
// view.
func (r *Registry) ofSource(name string) []int32 {
	source, _, dotted := strings.Cut(name, ".")
	if !dotted {
		return nil
	}
	positions := r.index.sources()[FoldName(source)]
	if !slices.ContainsFunc(positions, func(i int32) bool { return r.entries[i] != nil }) {
		return nil
	}
	return positions
}

func ambiguous(name string, matches []*Entry) *fault.Error {
	names := make([]string, 0, len(matches))
	for _, entry := range matches {
		names = append(names, entry.spec.Name)
	}
	total := len(names)
	names = names[:min(total, maxListed)]
	f := fault.New(fault.UnknownFunction, "%s means any of %d functions: write one of %s", fault.Quote(name), total, strings.Join(names, ", "))
	f.Available = names
	if f.Nearest = fault.Nearest(name, names, maxNearest); f.Nearest == nil {
		f.Nearest = names[:min(len(names), maxNearest)]
	}
	return f
}

// MissingFunctionError is the cause of a fault unknown_function. If a saved chain cannot be used, it names the function that the chain
// lacks.
type MissingFunctionError struct{ Name string }

// Error implements error.
func (m *MissingFunctionError) Error() string { return "there is no function " + m.Name }

func (r *Registry) unknown(name string) *fault.Error {
	if f := r.brokenChain(name); f != nil {
		return f
	}
	f := fault.New(fault.UnknownFunction, "there is no function %s", fault.Quote(name))
	f.Err = &MissingFunctionError{Name: name}
	if f.Nearest = r.nearest(name); f.Nearest != nil {
		f.Message += ": did you mean " + strings.Join(f.Nearest, ", ") + "?"
	}
	return f
}

// nearest returns the names in this view that are nearest to a name, at most maxNearest; nil if none is near or the name is too long.
func (r *Registry) nearest(name string) []string {
	if len(name) > maxName {
		return nil
	}
	var names []string
	for _, entry := range r.All() {
		names = append(names, entry.spec.Name)
	}
	names = fault.Alike(name, names, maxAlike)
	nearest := fault.Nearest(name, names, maxNearest)
	if len(nearest) == maxNearest || strings.Contains(name, ".") {
		return nearest
	}
	// A name without a source is also compared with the last segments of names: read_file is close to files.read_text_file.
	ends := make([]string, len(names))
	byEnd := map[string][]string{}
	for i, name := range names {
		ends[i] = name[strings.LastIndexByte(name, '.')+1:]
		byEnd[ends[i]] = append(byEnd[ends[i]], name)
	}
	for _, end := range fault.Nearest(name, slices.Compact(slices.Sorted(slices.Values(ends))), maxNearest) {
		for _, name := range byEnd[end] {
			if len(nearest) < maxNearest && !slices.Contains(nearest, name) {
				nearest = append(nearest, name)
			}
		}
	}
	return nearest
}
