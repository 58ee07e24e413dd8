package steps

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/pattern"
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

// MatchesSpelling reports whether a name matches a pattern (package pattern) in any accepted spelling. Rules that restrict use it.
func MatchesSpelling(p, name string) bool {
	folded := strings.ReplaceAll(FoldName(p), "?", "*") // a ? may stand for a separator, which folding removes
	return pattern.Matches(p, name) || pattern.Matches(folded, FoldName(name))
}

// spelling is one way to write a function's name. If one text is a spelling of several names, those of the lowest rank match.
type spelling struct {
	position int32 // the index of the name in index.names
	rank     rank
}

type rank uint8

const (
	fullName      rank = iota // the name with its source
	withoutSource             // the name after its first dot
	suffix                    // the name after any other separator
)

// index finds names by their spellings. All views of a registry share it.
type index struct {
	names    []string                     // sorted
	exact    map[string]int32             // the position of each name
	own      map[string]int32             // the position of each name by its own name (Spec.OwnName)
	byFolded func() map[string][]spelling // the spellings, by folded text; computed at the first call
	sources  func() map[string][]int32    // the positions of each source's names, by folded source; computed at the first call
}

func newIndex(sorted []string, own map[string]int32) *index {
	x := &index{names: sorted, own: own, exact: make(map[string]int32, len(sorted))}
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
	spellings := make(map[string][]spelling, 3*len(x.names))
	addAt := func(i int32, text string, r rank) {
		if folded := FoldName(text); folded != "" {
			spellings[folded] = append(spellings[folded], spelling{i, r})
		}
	}
	for own, i := range x.own {
		addAt(i, own, fullName)
		if _, rest, dotted := strings.Cut(own, "."); dotted {
			addAt(i, rest, withoutSource)
		}
	}
	for i, name := range x.names {
		add := func(text string, r rank) { addAt(int32(i), text, r) }
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
	return spellings
}

// checkName rejects names of separators only, overlong names, and names with blanks, unprintable characters or invalid UTF-8.
func checkName(name string) *fault.Error {
	isInvalid := func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }
	switch {
	case FoldName(name) == "":
		return fault.New(fault.BadRequest, "the function name %s has no letters or digits", fault.Quote(name))
	case len(name) > maxName:
		return fault.New(fault.BadRequest, "the function name %s is longer than %d bytes", fault.Quote(name), maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, isInvalid):
		return fault.New(fault.BadRequest, "the function name %s holds blanks, unprintable characters or invalid UTF-8", fault.Quote(name))
	}
	return nil
}

// Resolve returns the function of this view that a name means. It compares, in this order: the exact name, or a server's own
// (Spec.OwnName); the name without regard to case and the separators . _ - /; the same without the source; the same for a suffix after a
// separator. The first comparison with a match decides. If it matches both saved chains and other functions, the saved chains do not count.
// A name that begins with a source of this view can only mean a function of that source, so a rule for "fs.*" covers everything that "fs.x"
// can mean.
//
// If nothing matches, Resolve returns unknown_function with up to three similar names. If several functions match, it returns
// unknown_function with at most 20 of them. If the name is that of a saved chain that cannot be used, it returns the reason.
func (r *Registry) Resolve(name string) (*Entry, error) {
	if i, ok := r.index.exact[name]; ok && r.entries[i] != nil {
		return r.entries[i], nil
	}
	if i, ok := r.index.own[name]; ok && r.entries[i] != nil {
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
	if len(matches) > 1 { // saved chains do not count beside other functions
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

// ofSource returns the positions of all functions of the source with which the name begins, including those outside this view; nil if the
// view has no function of such a source.
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
	f := fault.New(fault.UnknownFunction, "%s matches %d functions: write one of %s", fault.Quote(name), total, strings.Join(names, ", "))
	f.Available = names
	if f.Nearest = fault.Nearest(name, names, maxNearest); f.Nearest == nil {
		f.Nearest = names[:min(len(names), maxNearest)]
	}
	return f
}

// MissingFunctionError is the cause of an unknown_function fault if no function matches the name. If a saved chain cannot be used because a
// function is missing, it is the cause too, and Name is the missing function.
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

// nearest returns the names in this view that are most similar to a name, at most maxNearest; nil if none is similar or the name is too
// long.
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
	// A name without a source is also compared with the last segment of each name: read_file is similar to files.read_text_file.
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
