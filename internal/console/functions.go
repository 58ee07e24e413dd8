package console

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/history"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
	"github.com/onecall-mcp/onecall/steps/search"
)

const (
	functionsShown = 200  // how many functions the page lists
	maxQuery       = 1024 // bytes of a query; a search reads no more
	useDays        = 30   // the days for which the use of functions is summed up
)

// functionsView is the page of functions.
type functionsView struct {
	Query, Source string
	Sources       []steps.SourceInfo // those that the viewer may know
	Functions     []function
	More          int // functions that match and are not shown
	HasUse        bool
}

// function is a function, with what the viewer's runs did with it.
type function struct {
	*steps.Entry
	Use history.Sum
}

// Starting reports whether functions may still appear, so that the page asks again by itself.
func (v *functionsView) Starting() bool {
	return slices.ContainsFunc(v.Sources, func(s steps.SourceInfo) bool { return s.State == steps.StateStarting })
}

// Down reports whether the functions of a source are missing for now.
func (*functionsView) Down(s steps.SourceInfo) bool {
	return s.State == steps.StateStarting || s.State == steps.StateRetrying || s.State == steps.StateFailed
}

// showFunctions lists the functions that the viewer may use, or those that a search finds.
func showFunctions(r *request) (*page, error) {
	view, err := r.functions()
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	v := &functionsView{Query: fault.Clip(strings.TrimSpace(query.Get("q")), maxQuery), Source: query.Get("source"), Sources: view.Sources()}
	entries := findFunctions(view.Registry(), v.Query)
	if v.Source != "" {
		entries = slices.DeleteFunc(entries, func(e *steps.Entry) bool { return e.Spec().Source() != v.Source })
	}
	shown := entries[:min(len(entries), functionsShown)]
	v.More = len(entries) - len(shown)
	use, err := r.use("")
	if err != nil {
		return nil, err
	}
	v.HasUse = use != nil
	for _, entry := range shown {
		v.Functions = append(v.Functions, function{entry, use[entry.Spec().Name]})
	}
	return &page{template: "functions", title: "Functions", data: v}, nil
}

// findFunctions returns the functions that match a query, best first; "" matches all. The index has only what the viewer may use, so
// nothing else has an effect on the order.
func findFunctions(functions *steps.Registry, query string) (found []*steps.Entry) {
	if query == "" {
		return slices.Clone(functions.All())
	}
	for _, hit := range search.New(functions).Find(query, nil, 0) {
		found = append(found, hit.Entry)
	}
	return found
}

// use sums up the viewer's calls of a function, or of all functions, by their names; nil: runs are not recorded.
func (r *request) use(function string) (map[string]history.Sum, error) {
	if r.Journal == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	f := r.lastDays(useDays)
	f.Function = function
	sums, err := history.FunctionsOf(ctx, r.Journal, f)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]history.Sum, len(sums))
	for _, s := range sums {
		byName[s.Name] = s
	}
	return byName, nil
}

// functionView is the page of one function.
type functionView struct {
	function
	HasUse   bool
	Approval string // which of its calls need approval
	Takes    string // the outline of its arguments
	Gives    string // the outline of its result; "": unknown
	Seen     bool   // Gives is what its results looked like so far
}

// showFunction shows how a function is called, and how it was used.
func showFunction(r *request) (*page, error) {
	view, err := r.functions()
	if err != nil {
		return nil, err
	}
	entry, err := view.Registry().Resolve(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	spec := entry.Spec()
	use, err := r.use(spec.Name)
	if err != nil {
		return nil, err
	}
	v := &functionView{function: function{entry, use[spec.Name]}, HasUse: use != nil, Takes: "any object",
		Approval: cmp.Or(spec.Approve, "as the configuration says for all functions")}
	if len(spec.Input) > 0 {
		v.Takes = schema.Outline(spec.Input)
	}
	if len(spec.Output) > 0 {
		v.Gives = schema.Outline(spec.Output)
	} else if seen := entry.ResultShape(); seen != nil {
		v.Gives, v.Seen = schema.Outline(seen.Schema), true
	}
	return &page{template: "function", title: spec.Name, data: v}, nil
}
