package callcache

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"golang.org/x/text/unicode/norm"

	"github.com/onecall-mcp/onecall/steps"
)

// maxPaths bounds the paths that a call is known by: a call with more counts as one without any.
const maxPaths = 64

// path is a path in a form that can be compared.
type path struct {
	base byte   // what it begins at: '/' a root, '\\' a share, ':' a drive, '.' the server's folder; 0: it may be anywhere
	text string // its elements, a slash after each
}

// related tells whether one path may lie within the other. Paths of different bases cannot be compared, and so may.
func (p path) related(other path) bool {
	return p.base == 0 || other.base == 0 || p.base != other.base ||
		strings.HasPrefix(p.text, other.text) || strings.HasPrefix(other.text, p.text)
}

func relatedPaths(a, b []path) bool {
	return slices.ContainsFunc(a, func(p path) bool { return slices.ContainsFunc(b, p.related) })
}

// parsePath reads a path as an argument spells it, on any operating system. It is cut before an element that does not stand
// for itself; of a write also before one that begins with a dot, as other answers of its folder may follow from it.
func parsePath(text string, write bool) path {
	if strings.Index(text, ":/") > 1 || strings.HasPrefix(text, "~") { // a URL, somebody's home
		return path{}
	}
	text = strings.ReplaceAll(text, `\`, "/")
	p := path{base: '.'}
	switch {
	case strings.HasPrefix(text, "//"):
		p.base = '\\'
	case strings.HasPrefix(text, "/"):
		p.base = '/'
	case len(text) > 1 && text[1] == ':':
		if p.base = ':'; len(text) == 2 || text[2] != '/' {
			return path{} // C:name lies in a folder that only the server knows
		}
	}
	cut := false
	var elements strings.Builder
	for element := range strings.SplitSeq(text, "/") {
		if element == ".." {
			return path{}
		}
		cut = cut || strings.ContainsAny(element, "*?[]{}$%") || write && len(element) > 1 && element[0] == '.'
		element = norm.NFC.String(strings.ToLower(strings.TrimRight(element, ". ")))
		if !cut && element != "" {
			elements.WriteString(element)
			elements.WriteByte('/')
		}
	}
	p.text = elements.String()
	return p
}

// paths gives what a call depends on or changes, where that is sure to be what its path arguments name; else nil.
func (f *function) paths(args []byte) []path {
	if !f.files {
		return nil
	}
	var paths []path
	sure := true
	gjson.ParseBytes(args).ForEach(func(name, value gjson.Result) bool {
		if folded := steps.FoldName(name.Str); pathArguments[folded] {
			var found []path
			found, sure = pathsIn(value, f.writes)
			paths = append(paths, found...)
		} else {
			sure = saysNoPlace(folded, value)
		}
		return sure && len(paths) <= maxPaths
	})
	if !sure || len(paths) > maxPaths {
		return nil
	}
	return paths
}

// pathsIn reads a path, or an array of them; anything else is not understood.
func pathsIn(value gjson.Result, write bool) (paths []path, understood bool) {
	if value.Type == gjson.String {
		return []path{parsePath(value.Str, write)}, true
	}
	if !value.IsArray() {
		return nil, false
	}
	understood = true
	value.ForEach(func(_, element gjson.Result) bool {
		paths, understood = append(paths, parsePath(element.Str, write)), element.Type == gjson.String
		return understood && len(paths) <= maxPaths
	})
	return paths, understood
}

// saysNoPlace tells whether an argument is known not to say where a call reads or writes: a boolean, null, or what has a
// name that says so, as have all within it.
func saysNoPlace(name string, value gjson.Result) bool {
	switch {
	case value.IsBool() || value.Type == gjson.Null:
		return true
	case value.Type == gjson.Number && numberArguments[name]:
		return true
	case value.Type == gjson.String && patternArguments[name]:
		return !strings.Contains(value.Str, "..") && parsePath(value.Str, false).base == '.'
	case !otherArguments[name] && !patternArguments[name]:
		return false
	}
	known := true
	if value.IsObject() || value.IsArray() {
		value.ForEach(func(inner, v gjson.Result) bool {
			within := name
			if value.IsObject() {
				within = steps.FoldName(inner.Str)
			}
			known = saysNoPlace(within, v)
			return known
		})
	}
	return known
}
