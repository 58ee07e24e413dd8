package app

import (
	"context"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/search"
)

// Match is a function that matches a query.
type Match struct {
	Entry  *steps.Entry
	Source string
}

// Find returns the functions that match a query, best first. A query is a function's full name, the name of a source, or words about what
// functions do; "" matches all. exact reports whether it is the full name of the only match. Find waits until every source has
// started or failed.
func (a *App) Find(ctx context.Context, query string) (matches []Match, exact bool) {
	own := a.Functions()
	functions := steps.Await(ctx, own, nil)
	source := map[string]string{} // the name of the source, by function name
	for _, info := range own.Sources() {
		for name := range info.Functions {
			source[name] = info.Name
		}
	}
	entry, err := functions.Resolve(query)
	if err == nil && steps.FoldName(entry.Spec().Name) == steps.FoldName(query) {
		return []Match{{entry, source[entry.Spec().Name]}}, true
	}
	for _, entry := range matchingEntries(functions, query, source) {
		matches = append(matches, Match{entry, source[entry.Spec().Name]})
	}
	return matches, false
}

// matchingEntries returns the functions that match a query, best first. source maps the name of each function to that of its source.
func matchingEntries(functions *steps.Registry, query string, source map[string]string) (entries []*steps.Entry) {
	if query == "" {
		return functions.All()
	}
	ofSource := functions.View(func(spec *steps.Spec) bool { return source[spec.Name] == query })
	if ofSource.Len() > 0 {
		return ofSource.All()
	}
	for _, hit := range search.New(functions).Find(query, nil, 0) {
		entries = append(entries, hit.Entry)
	}
	return entries
}

// Nearest returns at most three names of functions that are spelled like a query, the most similar first.
func (a *App) Nearest(query string) []string {
	var names []string
	for _, entry := range a.Functions().Registry().All() {
		names = append(names, entry.Spec().Name)
	}
	return fault.Nearest(query, names, 3)
}
