package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/onecall-mcp/onecall/fault"
)

// addSettings adds the values of a node as written, by JSON Pointer. A list is one value, unless it has only objects with unique names:
// each is then an entry, with its name in place of its index. Depth and number are limited because aliases repeat their targets.
func (d *decoder) addSettings(settings map[string]string, n ast.Node, at string) {
	depth := strings.Count(at, "/")
	if depth > maxDepth || len(settings) > maxValues {
		return
	}
	switch node := d.resolve(n).(type) {
	case *ast.NullNode:
	case *ast.MappingNode, *ast.MappingValueNode:
		if depth > 1 {
			settings[at] = "" // an entry is added or removed as a whole
		}
		pairs, _ := d.pairs(node, at)
		for _, pair := range pairs {
			d.addSettings(settings, pair.Value, fault.Key(at, pair.Key.GetToken().Value))
		}
	case *ast.SequenceNode:
		names := d.listNames(node)
		if names == nil {
			settings[at] = node.String()
			return
		}
		for i, one := range node.Values {
			d.addSettings(settings, one, fault.Key(at, names[i]))
		}
	default:
		settings[at] = node.GetToken().Value
	}
}

// listNames returns the names of the objects in a list; nil: the list is empty, an item has no name, or two have the same.
func (d *decoder) listNames(list *ast.SequenceNode) (names []string) {
	for _, one := range list.Values {
		name := ""
		if node, ok := d.resolve(one).(*ast.MappingNode); ok {
			for _, pair := range node.Values {
				if pair.Key.GetToken().Value == "name" {
					name = d.resolve(pair.Value).GetToken().Value
				}
			}
		}
		if name == "" || slices.Contains(names, name) {
			return nil
		}
		names = append(names, name)
	}
	return names
}

// Difference is the difference of two configurations, as JSON Pointers.
type Difference struct{ Added, Removed, Changed []string }

// Compare compares the settings of two configurations. An entry that was added or removed as a whole is named by its own pointer alone.
func Compare(before, after map[string]string) (d Difference) {
	for _, at := range slices.Sorted(maps.Keys(after)) {
		switch text, ok := before[at]; {
		case !ok:
			d.Added = appendPointer(d.Added, at)
		case text != after[at]:
			d.Changed = append(d.Changed, at)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[at]; !ok {
			d.Removed = appendPointer(d.Removed, at)
		}
	}
	return d
}

// appendPointer appends a pointer unless it is below one in the list.
func appendPointer(pointers []string, at string) []string {
	if slices.ContainsFunc(pointers, func(pointer string) bool { return strings.HasPrefix(at, pointer+"/") }) {
		return pointers
	}
	return append(pointers, at)
}
