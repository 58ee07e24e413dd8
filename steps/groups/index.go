package groups

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// index finds a dispatcher's functions by resource and action.
type index struct {
	functions []*function
	folded    []foldedName           // the folded names of the functions, in their order
	longest   int                    // bytes of the longest folded name; a longer path matches no function
	ends      map[string][]*function // the functions by every suffix of the folded name that starts at a part
	byFolded  map[string][]*function // the functions by the name without separators: in full, without its source, or as shown
}

// foldedName holds the folded names of a function's resource (see foldPath).
type foldedName struct{ label, short, prefix string }

func newIndex(functions []*function) *index {
	x := &index{functions: functions, ends: map[string][]*function{}, byFolded: map[string][]*function{}}
	for _, f := range functions {
		x.folded = append(x.folded, foldedName{foldPath(f.label), foldPath(f.short()), foldPath(f.prefix)})
		for _, name := range []string{pathOf(f.entry), f.entry.Spec().Name} {
			name = foldPath(name)
			x.longest = max(x.longest, len(name))
			for end, ok := name, true; ok; _, end, ok = strings.Cut(end, ".") {
				if list := x.ends[end]; len(list) == 0 || list[len(list)-1] != f {
					x.ends[end] = append(x.ends[end], f)
				}
			}
		}
		var seen []string
		for _, path := range []string{f.entry.Spec().Name, dotted(f.short(), f.action), dotted(f.label, f.action)} {
			if run := steps.FoldName(path); !slices.Contains(seen, run) {
				seen = append(seen, run)
				x.byFolded[run] = append(x.byFolded[run], f)
			}
		}
	}
	return x
}

// find returns the functions that match a resource ("": not given) and an action. It tries these forms and returns the matches of the first
// that has any: as help shows them; the same as one path; ignoring case and the separators _ - /; the name without its source, or in full;
// a suffix that starts at a part; for an action alone, the whole name without separators; for an action that repeats the resource, the
// action alone.
func (x *index) find(resource, action string) []*function {
	for _, f := range x.ends[foldPath(action)] {
		if f.label == resource && callText(f) == action {
			return []*function{f}
		}
	}
	path := dotted(resource, action)
	folded := foldPath(path)
	ends := x.ends[folded]
	for _, matches := range []func(*function) bool{
		func(f *function) bool { return dotted(f.label, f.action) == path },
		func(f *function) bool { return foldPath(dotted(f.label, f.action)) == folded },
		func(f *function) bool {
			return foldPath(dotted(f.short(), f.action)) == folded || foldPath(f.entry.Spec().Name) == folded
		},
	} {
		var functions []*function
		for _, f := range ends {
			if matches(f) {
				functions = append(functions, f)
			}
		}
		if len(functions) > 0 {
			return functions
		}
	}
	switch {
	case len(ends) > 0:
		return ends
	case resource == "":
		return x.byFolded[steps.FoldName(action)]
	}
	return x.findRepeated(resource, action)
}

// findRepeated returns the functions for an action that repeats parts of the resource. Either the parts before the action's last contain
// the given resource, or a function's full resource must end with it.
func (x *index) findRepeated(resource, action string) []*function {
	resource, repeated := foldPath(resource), foldPath(parseName(action).prefix)
	if len(resource) > x.longest {
		return nil
	}
	adjacent := repeated != "" && containsSegments(repeated, dots(resource))
	var functions []*function
	for _, f := range x.ends[foldPath(action)] {
		if adjacent || strings.HasSuffix("."+foldPath(f.prefix), "."+resource) {
			functions = append(functions, f)
		}
	}
	return functions
}

// below returns the functions of a resource and of those below it. If no resource has this label or name, it returns those of all
// resources that contain it as a part.
func (x *index) below(resource string) []*function {
	wanted := foldPath(resource)
	if wanted == "" || len(wanted) > x.longest {
		return nil
	}
	needle := dots(wanted)
	for _, matches := range []func(*foldedName) bool{
		func(f *foldedName) bool {
			return isAtOrBelow(f.label, wanted) || isAtOrBelow(f.short, wanted) || isAtOrBelow(f.prefix, wanted)
		},
		func(f *foldedName) bool { return containsSegments(f.prefix, needle) },
	} {
		var functions []*function
		for i, f := range x.functions {
			if matches(&x.folded[i]) {
				functions = append(functions, f)
			}
		}
		if len(functions) > 0 {
			return functions
		}
	}
	return nil
}

// choose returns the only function that matches a call, or unknown_function with the reason.
func (d *Dispatcher) choose(resource, action string) (*function, *fault.Error) {
	functions := d.index().find(resource, action)
	switch len(functions) {
	case 0:
		return nil, d.unknown(resource, action)
	case 1:
		return functions[0], nil
	}
	labels := labelsIn(functions)
	f := fault.New(fault.UnknownFunction, "%s is an action of %s: set resource to choose one", fault.Quote(action), joinFirst(labels))
	if resource != "" {
		f.Message = fmt.Sprintf("%s of %s may mean %s: write the resource in full", fault.Quote(action), fault.Quote(resource), joinFirst(labels))
	}
	f.At, f.Available = "/action", labels[:min(len(labels), maxListed)]
	return nil, f
}

// unknown returns the fault of a call that matches no function, with the nearest.
func (d *Dispatcher) unknown(resource, action string) *fault.Error {
	functions, at, text := d.functions, "/action", action
	var names []string
	var f *fault.Error
	if resource != "" {
		functions = d.index().below(resource)
	}
	switch {
	case len(functions) == 0:
		at, text, names = "/resource", resource, labelsIn(d.functions)
		f = fault.New(fault.UnknownFunction, "%s has no resource %s", d.Name, fault.Quote(resource))
		f.Available = names
		if only := d.index().find("", action); len(only) == 1 && declares(only[0].entry, "resource") {
			f.Message += ", and " + action + " declares resource itself: give its arguments in params"
		}
	case resource != "":
		f = fault.New(fault.UnknownFunction, "%s has no action %s", fault.Quote(resource), fault.Quote(action))
		f.Available = actionsIn(functions)
	default:
		f = fault.New(fault.UnknownFunction, "%s has no action %s", d.Name, fault.Quote(action))
		if f.Available = labelsIn(functions); oneLabel(functions) {
			f.Available = actionsIn(functions)
		}
	}
	if at == "/action" {
		names = append(sortedSet(functions, func(f *function) string { return f.action }), actionsIn(functions)...)
		slices.Sort(names)
		names = slices.Compact(names)
	}
	f.At, f.Available = at, f.Available[:min(len(f.Available), maxListed)]
	f.Nearest = fault.Nearest(text, names, maxNearest)
	if at == "/action" {
		f.Nearest = withSynonyms(action, names, f.Nearest)
	}
	if len(f.Nearest) > 0 {
		f.Message += ": did you mean " + strings.Join(f.Nearest, ", ") + "?"
	} else {
		f.Message += "."
	}
	f.Message += ` {"action":"help"} lists all`
	return f
}

// synonyms are actions by the names that web frameworks give them, such as those of Django REST framework, and what they are called here,
// the best first.
var synonyms = map[string][]string{
	"retrieve": {"get"}, "read": {"get"}, "show": {"get"}, "detail": {"get"}, "list": {"get"}, "index": {"list", "get"},
	"destroy": {"delete"}, "remove": {"delete"}, "delete": {"destroy", "remove"},
	"partialupdate": {"update", "replace"}, "patch": {"update", "replace"}, "edit": {"update", "replace"}, "update": {"replace"},
	"put": {"replace", "update"}, "add": {"create"}, "store": {"create"}, "insert": {"create"},
}

// withSynonyms returns the names that mean an action, followed by those that resemble it.
func withSynonyms(action string, names, resembling []string) []string {
	var all []string
	for _, name := range slices.Concat(synonyms[steps.FoldName(action)], resembling) {
		if slices.Contains(names, name) && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all[:min(len(all), maxNearest)]
}

func labelsIn(functions []*function) []string {
	return sortedSet(functions, func(f *function) string { return f.label })
}

// actionsIn lists actions, with their resources if there are several.
func actionsIn(functions []*function) []string {
	oneResource := oneLabel(functions)
	return sortedSet(functions, func(f *function) string {
		if oneResource {
			return f.action
		}
		return dotted(f.label, f.action)
	})
}

func sortedSet(functions []*function, of func(*function) string) []string {
	var set []string
	for _, f := range functions {
		if text := of(f); text != "" {
			set = append(set, text)
		}
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// joinFirst joins the first of many names.
func joinFirst(names []string) string {
	const maxNames = 5
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}

// declares reports whether a function has a top-level argument with this name.
func declares(e *steps.Entry, name string) bool { return e.Argument(name) != "" }
