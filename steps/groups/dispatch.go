// Package groups puts functions behind few tools. A dispatcher is one tool that calls any function of its group by resource
// and action; functions of no dispatcher may be tools of their own. The package builds the dispatchers of a registry view,
// reads their calls strictly, and writes their help; it runs nothing. No description, help or fault names a function
// outside the view.
//
// The last part of a function's path (steps.Spec.Path, else its name) is its action; the part before it is its resource:
// netbox.device.list is the action list of the resource device of the source netbox. An MCP tool whose name is not split
// into a resource and an action is an action of its server as a resource.
package groups

import (
	"regexp"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Config configures the dispatchers. The zero value has none.
type Config struct {
	Groups       []Group  // the groups in the order in which their tools are listed
	Autodispatch bool     // functions of no group get a dispatcher for each source and first part of a resource
	Hide         bool     // functions of no dispatcher are not tools
	Hoist        []string // names that a call accepts in addition to its fields: arguments of each function that declares them
}

// Group is a configured dispatcher: the functions that match its resources.
type Group struct {
	Name        string // the name of the tool; _ replaces characters that are invalid in tool names (Renamed)
	Description string // describes the group for the agent; "": only its resources do

	// Resources are prefixes of function names or paths, with or without the source's name. They match whole parts: "device" matches
	// netbox.device.list and netbox.device.interface.list, not netbox.device_type.list. In a pattern * matches any characters, including dots,
	// and ? matches one. A function belongs to the group whose entry covers most of its name. Among equals, a plain entry wins over a pattern,
	// then the entry with more literal characters, then the first.
	Resources []string
}

// Dispatch builds dispatchers. It is immutable, and many goroutines may use it.
type Dispatch struct {
	groups       []Group
	entries      []entry
	autodispatch bool
	hide         bool
	hoist        []string
}

// The fields of a call that are never arguments of a function, and the names of onecall's own tools.
var (
	callFields   = []string{"resource", "action", "params", "lite", "verify"}
	helpFields   = []string{"schema", "again"}
	builtinTools = []string{"chain", "chain_read", "search", "info"}
)

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,52}$`) // has at most maxToolName characters

// New compiles a configuration; nil is the zero Config. It returns all faults, each bad_request At a JSON Pointer:
// /groups/NAME, /groups/NAME/resources/N or /hoist/N. It rejects empty names, names of onecall's own tools, groups whose
// tool names differ only in case and separators, empty groups and entries, duplicate entries, and hoisted names that are
// fields of a call.
func New(c *Config) (*Dispatch, []*fault.Error) {
	if c == nil {
		c = &Config{}
	}
	d := &Dispatch{groups: c.Groups, autodispatch: c.Autodispatch, hide: c.Hide, hoist: c.Hoist}
	var faults []*fault.Error
	refuse := func(at, format string, args ...any) {
		faults = append(faults, fault.New(fault.BadRequest, format, args...).Under(at))
	}
	names, groupByResource := map[string]string{}, map[string]string{}
	for i := range c.Groups {
		g := &c.Groups[i]
		at := fault.Key("/groups", g.Name)
		tool := steps.FoldName(g.tool())
		twin, taken := names[tool]
		switch {
		case g.Name == "":
			refuse(at, "a group needs a name: that of its tool")
		case slices.Contains(builtinTools, strings.ToLower(g.tool())):
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
			if holder, taken := groupByResource[text]; taken {
				refuse(at, "%s occurs twice, in the groups %s and %s: a function belongs to one group", fault.Quote(text), fault.Quote(holder),
					fault.Quote(g.Name))
				continue
			}
			groupByResource[text] = g.Name
			e.group, e.number = i, n
			d.entries = append(d.entries, e)
		}
	}
	for n, name := range c.Hoist {
		if name == "" || slices.Contains(callFields, name) || slices.Contains(helpFields, name) || slices.Contains(fetchFields, name) {
			refuse(fault.Index("/hoist", n), "%s cannot be hoisted: it already has a meaning in requests", fault.Quote(name))
		}
	}
	return d, faults
}

// tool returns the group's name as a tool name.
func (g *Group) tool() string {
	if toolName.MatchString(g.Name) {
		return g.Name
	}
	if name := sanitize(g.Name); toolName.MatchString(name) {
		return name
	}
	return hashedName(g.Name, 0) // it is too long
}

// Renamed returns a warning for each group whose tool has another name. At is /groups/NAME.
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

// Unmatched returns a warning for each entry that matches no function of a registry: bad_request with the nearest names; At is
// /groups/NAME/resources/N. Call it at the start, when the sources are ready, with the registry of all functions.
func (d *Dispatch) Unmatched(all *steps.Registry) []*fault.Error {
	used := make([]bool, len(d.entries))
	var known []string
	for _, e := range all.All() {
		for i := range d.entries {
			used[i] = used[i] || d.entries[i].coverage(e) > 0
		}
		p := parseName(pathOf(e))
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
		f := fault.New(fault.BadRequest, "the group %s: no function belongs to %s", g.Name, fault.Quote(e.text))
		if f.Nearest = fault.Nearest(e.text, known, maxNearest); len(f.Nearest) > 0 {
			f.Message += ", did you mean " + strings.Join(f.Nearest, ", ") + "?"
		}
		warnings = append(warnings, f.Under(fault.Index(fault.Key("/groups", g.Name)+"/resources", e.number)))
	}
	return warnings
}
