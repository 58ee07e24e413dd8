package groups

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/steps"
)

// Arrangement assigns the functions of one view to dispatchers.
type Arrangement struct {
	Dispatchers []*Dispatcher  // groups in the order of the configuration, then resources, sorted by name
	Rest        []*steps.Entry // functions of no dispatcher, sorted by name; empty if the configuration hides them

	byFunction map[string]*Dispatcher
}

// DispatcherOf returns the dispatcher of the function with exactly this name; nil: none.
func (a *Arrangement) DispatcherOf(function string) *Dispatcher { return a.byFunction[function] }

// Arrange assigns the functions of a view to dispatchers. A group without a function in the view gets no dispatcher. A function
// whose name has an empty part, or is help, belongs to no dispatcher, because no call could name it. Those of chains only are left out.
func (d *Dispatch) Arrange(view *steps.Registry) *Arrangement {
	a := &Arrangement{byFunction: map[string]*Dispatcher{}}
	grouped := make([][]*function, len(d.groups))
	byResource := map[string][]*function{} // the functions by source and first part of the resource
	for _, e := range view.All() {
		if e.Spec().ChainOnly {
			continue
		}
		path := pathOf(e)
		f := &function{entry: e, name: parseName(path)}
		group, callable := -1, isComplete(path) && !isHelp(path)
		if callable {
			group = d.groupOf(e)
		}
		switch {
		case group >= 0:
			grouped[group] = append(grouped[group], f)
		case d.autodispatch && callable && f.prefix != "":
			byResource[f.top()] = append(byResource[f.top()], f)
		case !d.hide:
			a.Rest = append(a.Rest, e)
		}
	}
	for i, functions := range grouped {
		if len(functions) > 0 {
			a.add(newDispatcher(d.groups[i].tool(), d.groups[i].Description, functions, d.hoist))
		}
	}
	names := d.resourceTools(slices.Collect(maps.Keys(byResource)))
	for _, top := range slices.SortedFunc(maps.Keys(names), func(a, b string) int { return cmp.Compare(names[a], names[b]) }) {
		a.add(newDispatcher(names[top], "", byResource[top], d.hoist))
	}
	return a
}

func (a *Arrangement) add(d *Dispatcher) {
	a.Dispatchers = append(a.Dispatchers, d)
	for _, f := range d.functions {
		a.byFunction[f.entry.Spec().Name] = d
	}
}

// groupOf returns the index of a function's group; -1: none.
func (d *Dispatch) groupOf(function *steps.Entry) int {
	group, reached := -1, 0
	var best *entry
	for i := range d.entries {
		e := &d.entries[i]
		if n := e.coverage(function); n > 0 && (best == nil || e.moreExact(n, best, reached)) {
			group, best, reached = e.group, e, n
		}
	}
	return group
}

// top returns the source and the first part of the resource.
func (f *function) top() string {
	source, resource, _ := strings.Cut(f.prefix, ".")
	first, _, _ := strings.Cut(resource, ".")
	return dotted(source, first)
}

// resourceTools names the dispatchers of resources: by resource, or by source and resource if another resource or a group has that
// name.
func (d *Dispatch) resourceTools(tops []string) map[string]string {
	n := newNamer(builtinTools)
	for _, g := range d.groups {
		n.reserve(g.tool())
	}
	for _, top := range tops {
		n.want(top, top[strings.IndexByte(top, '.')+1:])
	}
	return n.names()
}
