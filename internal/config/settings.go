package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/onecall-mcp/onecall/fault"
)

// addSettings adds what a node says, as it is written, by JSON Pointer. A list is one value, but for a list of objects with names,
// which stand in the place of indexes. The bounds are for aliases, which repeat what they stand for.
func (d *decoder) addSettings(settings map[string]string, n ast.Node, at string) {
	depth := strings.Count(at, "/")
	if depth > maxDepth || len(settings) > maxValues {
		return
	}
	switch node := d.resolve(n).(type) {
	case *ast.NullNode:
	case *ast.MappingNode, *ast.MappingValueNode:
		if depth > 1 {
			settings[at] = "" // an entry comes and goes as one
		}
		pairs, _ := d.pairs(node, at)
		for _, pair := range pairs {
			d.addSettings(settings, pair.Value, fault.Key(at, pair.Key.GetToken().Value))
		}
	case *ast.SequenceNode:
		names := d.namesIn(node)
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

// namesIn are the names of the objects in a list; nil: it is another list.
func (d *decoder) namesIn(list *ast.SequenceNode) (names []string) {
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

// Difference is what a configuration says other than another one, by JSON Pointer.
type Difference struct{ Added, Removed, Changed []string }

// Compare compares the settings of two configurations.
func Compare(before, after map[string]string) (d Difference) {
	for _, at := range slices.Sorted(maps.Keys(after)) {
		switch text, ok := before[at]; {
		case !ok:
			d.Added = appendPlace(d.Added, at)
		case text != after[at]:
			d.Changed = append(d.Changed, at)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[at]; !ok {
			d.Removed = appendPlace(d.Removed, at)
		}
	}
	return d
}

// appendPlace adds a place to those before it, unless it is within one of them.
func appendPlace(places []string, at string) []string {
	if slices.ContainsFunc(places, func(place string) bool { return strings.HasPrefix(at, place+"/") }) {
		return places
	}
	return append(places, at)
}
