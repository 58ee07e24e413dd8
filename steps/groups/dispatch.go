// Package groups gathers functions behind few tools. A dispatcher is one tool that calls any function of its group by
// resource and action; functions of no dispatcher may be tools of their own. The package makes the dispatchers of a
// registry view, reads their calls strictly, and writes their help; it runs nothing. What a view does not hold stands in
// no description, help or fault.
//
// The last part of a function's path (steps.Spec.Path, else its name) is its action, what stands before it its resource:
// netbox.device.list is the action list of the resource device of the source netbox. A tool of an MCP server whose name is
// not read as a resource and an action is an action of the resource that its server is.
package groups

import (
	"regexp"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Config says which dispatchers there are. The zero value has none.
type Config struct {
	Groups       []Group  // in the order in which their tools are listed
	Autodispatch bool     // one dispatcher for each first part of a resource that no group has
	Hide         bool     // functions of no dispatcher are no tools
	Hoist        []string // names that a call takes beside its own fields: arguments for each function that declares them
}

// Group is a dispatcher by configuration: the functions that its resources fit.
type Group struct {
	Name        string // of the tool; characters that no tool's name may have become _ (Renamed)
	Description string // for the agent; "": its resources alone

	// Resources are beginnings of function names or paths, part by part, with the source's name or without: "device" has
	// netbox.device.list and netbox.device.interface.list, not netbox.device_type.list. In a pattern each * stands for
	// any characters, dots included, and each ? for one. A function belongs to the group whose entry reaches furthest into
	// its name; of those that reach as far, to a plain one before a pattern, to the one with more characters of its own,
	// then to the first.
	Resources []string
}

// Dispatch makes dispatchers. It never changes, and may be used by many goroutines.
type Dispatch struct {
	groups       []Group
	entries      []entry
	autodispatch bool
	hide         bool
	hoist        []string
}

// The fields of a call that are never arguments of a function, and the names that tools of onecall itself have.
var (
	callFields = []string{"resource", "action", "params", "lite", "verify"}
	helpFields = []string{"schema", "again"}
	ownTools   = []string{"chain", "chain_read", "search", "info"}
)

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,52}$`) // at most maxToolName

// New reads a configuration; nil is the zero Config. It gives all faults at once, each bad_request At a JSON Pointer:
// /groups/NAME, /groups/NAME/resources/N or /hoist/N. Refused are an empty name, names of onecall's own tools,
// two groups whose tools' names differ in case and separators only, groups and entries that are empty, an entry that stands
// twice, and hoisted names that are fields of a call.
func New(c *Config) (*Dispatch, []*fault.Error) {
	if c == nil {
		c = &Config{}
	}
	d := &Dispatch{groups: c.Groups, autodispatch: c.Autodispatch, hide: c.Hide, hoist: c.Hoist}
	var faults []*fault.Error
	refuse := func(at, format string, args ...any) {
		faults = append(faults, fault.New(fault.BadRequest, format, args...).Under(at))
	}
	names, owners := map[string]string{}, map[string]string{}
	for i := range c.Groups {
		g := &c.Groups[i]
		at := fault.Key("/groups", g.Name)
		tool := steps.FoldName(g.tool())
		twin, taken := names[tool]
		switch {
		case g.Name == "":
			refuse(at, "a group needs a name: that of its tool")
		case slices.Contains(ownTools, strings.ToLower(g.tool())):
			refuse(at, "a group cannot have the name %s: it is a tool of onecall", g.Name)
		case taken:
			refuse(at, "the groups %s and %s cannot be told apart: rename one", fault.Quote(twin), fault.Quote(g.Name))
		}
		names[tool] = g.Name
		if len(g.Resources) == 0 {
			refuse(at, "the group %s has no resources: list some, as in [device, rack]", fault.Quote(g.Name))
		}
		for n, text := range g.Resources {
			at := fault.Index(at+"/resources", n)
			e, f := newEntry(text)
			if f != nil {
				faults = append(faults, f.Under(at))
				continue
			}
			if owner, taken := owners[text]; taken {
				refuse(at, "%s stands twice, in the groups %s and %s: a function belongs to one group", fault.Quote(text), fault.Quote(owner), fault.Quote(g.Name))
				continue
			}
			owners[text] = g.Name
			e.group, e.number = i, n
			d.entries = append(d.entries, e)
		}
	}
	for n, name := range c.Hoist {
		if name == "" || slices.Contains(callFields, name) || slices.Contains(helpFields, name) || slices.Contains(fetchFields, name) {
			refuse(fault.Index("/hoist", n), "%s cannot be hoisted: it is a field of the contract", fault.Quote(name))
		}
	}
	return d, faults
}

// tool is the group's name as a tool can have it.
func (g *Group) tool() string {
	if toolName.MatchString(g.Name) {
		return g.Name
	}
	if name := plain(g.Name); toolName.MatchString(name) {
		return name
	}
	return hashed(g.Name, 0) // it is too long
}

// Renamed gives a warning for each group whose tool has another name, At /groups/NAME.
func (d *Dispatch) Renamed() (warnings []*fault.Error) {
	for i := range d.groups {
		if g := &d.groups[i]; g.tool() != g.Name {
			f := fault.New(fault.BadRequest, "the tool of the group %s is %s: a tool's name is 1 to 52 of the characters A-Z a-z 0-9 _ -",
				fault.Quote(g.Name), g.tool())
			warnings = append(warnings, f.Under(fault.Key("/groups", g.Name)))
		}
	}
	return warnings
}

// Unmatched gives a warning for each entry that fits no function of a registry, bad_request with the nearest names, At
// /groups/NAME/resources/N. It is for the start, when the sources are there: the registry is not that of a caller.
func (d *Dispatch) Unmatched(all *steps.Registry) []*fault.Error {
	used := make([]bool, len(d.entries))
	var known []string
	for _, e := range all.All() {
		for i := range d.entries {
			used[i] = used[i] || d.entries[i].reach(e) > 0
		}
		p := parse(pathOf(e))
		known = append(known, p.short(), p.source())
	}
	slices.Sort(known)
	known = slices.Compact(known)
	var warnings []*fault.Error
	for i := range d.entries {
		if used[i] {
			continue
		}
		e := &d.entries[i]
		g := d.groups[e.group]
		f := fault.New(fault.BadRequest, "the group %s: no function is of %s", g.Name, fault.Quote(e.text))
		if f.Nearest = fault.Nearest(e.text, known, maxNearest); len(f.Nearest) > 0 {
			f.Message += ", did you mean " + strings.Join(f.Nearest, ", ") + "?"
		}
		warnings = append(warnings, f.Under(fault.Index(fault.Key("/groups", g.Name)+"/resources", e.number)))
	}
	return warnings
}
