package budget

import (
	"bytes"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// maxFilterKeys is the maximum number of filter_keys of a fetch. maxDepth is how many levels deep they reach: for each level, everything
// below it is walked over once more.
const maxFilterKeys, maxDepth = 100, 64

// maxKeysShown is the maximum number of keys in an error.
const maxKeysShown = 50

// filter answers the mode filtered: the value with only what the paths name, in its original order and nesting. A path is a key, or keys
// joined by dots; keys that contain dots are found, too. In an array a path continues in each element: an object with none of the keys
// becomes {}, and an element that is not an object becomes null. If the value is an object that contains exactly one array, a path that
// begins with none of the object's keys is looked up in the items of that array. A path that matches nothing is bad_request with the
// available keys.
func filter(w *work, o outline, paths []string) ([]byte, error) {
	f := filterWriter{work: w, matched: make([]bool, len(paths))}
	wanted := pendingPaths(paths)
	if o.kind == object && o.paged != nil {
		wanted = append(wanted, arrayPaths(w, o.value, o.arrays[0], paths)...)
	}
	f.value(o.value, wanted, 0)
	if err := w.interrupted(); err != nil {
		return nil, err
	}
	for i, ok := range f.matched {
		if !ok {
			return nil, keyNotFound(o, i, paths[i])
		}
	}
	return f.out, nil
}

// pendingPath is the rest of a path below the current value, with the path's index.
type pendingPath struct {
	index int
	rest  string
}

func pendingPaths(paths []string) []pendingPath {
	pending := make([]pendingPath, len(paths))
	for i, p := range paths {
		pending[i] = pendingPath{i, p}
	}
	return pending
}

// arrayPaths returns the paths to look up in an object's only array: those that begin with none of the object's keys.
func arrayPaths(w *work, value []byte, arrayKey string, paths []string) []pendingPath {
	var wanted []pendingPath
	keys := make(map[string]bool)
	for key := range rawjson.Members(value) {
		if keys[rawjson.Unquote(string(key))] = true; !w.step() {
			break
		}
	}
	for i, p := range paths {
		if !beginsWithKey(p, keys) {
			wanted = append(wanted, pendingPath{i, arrayKey + "." + p})
		}
	}
	return wanted
}

// beginsWithKey reports whether path is one of keys, or begins with one followed by a dot.
func beginsWithKey(path string, keys map[string]bool) bool {
	for end, c := range path {
		if c == '.' && keys[path[:end]] {
			return true
		}
	}
	return keys[path]
}

// filterWriter writes a filtered value.
type filterWriter struct {
	work    *work
	out     []byte
	matched []bool // by path: whether it matched anything
}

// value appends what the paths select of an object or an array, and reports whether that is anything. For any other value, and at
// maxDepth, it appends null and reports false.
func (f *filterWriter) value(v []byte, wanted []pendingPath, depth int) (any bool) {
	k := kindOf(v)
	if k == object && depth < maxDepth {
		return f.object(v, wanted, depth)
	}
	if k != array || depth == maxDepth {
		f.out = append(f.out, "null"...)
		return false
	}
	f.out = append(f.out, '[')
	for start, end := range rawjson.Elements(v) {
		if !f.work.step() {
			return false
		}
		if f.out[len(f.out)-1] != '[' {
			f.out = append(f.out, ',')
		}
		any = f.value(v[start:end], wanted, depth+1) || any
	}
	f.out = append(f.out, ']')
	return any
}

// object appends an object with the members that the paths select, and reports whether there are any.
func (f *filterWriter) object(v []byte, wanted []pendingPath, depth int) (any bool) {
	f.out = append(f.out, '{')
	var below []pendingPath
	for rawKey, member := range rawjson.Members(v) {
		if !f.work.step() {
			return false
		}
		var whole bool
		whole, below = matchKey(rawKey, wanted, below[:0], f.matched)
		if !whole && len(below) == 0 {
			continue
		}
		start := len(f.out)
		if any {
			f.out = append(f.out, ',')
		}
		f.out = append(append(f.out, rawKey...), ':')
		switch k := kindOf(member); {
		case whole:
			f.out = append(f.out, member...)
			f.markBelow(member, below, depth+1)
		case k != object && k != array || !f.value(member, below, depth+1):
			f.out = f.out[:start] // nothing is selected: remove the key
			continue
		}
		any = true
	}
	f.out = append(f.out, '}')
	return any
}

// matchKey reports whether a path ends with this key, and appends the rest of longer paths to below. In matched it marks the paths that
// end here; nil: it marks none.
func matchKey(rawKey []byte, wanted, below []pendingPath, matched []bool) (whole bool, _ []pendingPath) {
	if len(wanted) == 0 {
		return false, below
	}
	key := rawjson.Inside(rawKey)
	if bytes.IndexByte(key, '\\') >= 0 {
		key = []byte(rawjson.Unquote(string(rawKey)))
	}
	for _, w := range wanted {
		n := len(key)
		switch {
		case len(w.rest) < n || w.rest[:n] != string(key):
		case len(w.rest) == n:
			whole = true
			if matched != nil {
				matched[w.index] = true
			}
		case w.rest[n] == '.':
			below = append(below, pendingPath{w.index, w.rest[n+1:]})
		}
	}
	return whole, below
}

// markBelow marks the paths that match inside a member that is selected as a whole.
func (f *filterWriter) markBelow(member []byte, below []pendingPath, depth int) {
	if len(below) > 0 {
		unwritten := filterWriter{work: f.work, matched: f.matched}
		unwritten.value(member, below, depth)
	}
}

// keyNotFound returns an error with the available keys: those of the object, and of the first object in the array.
func keyNotFound(o outline, i int, path string) error {
	shown, _ := cutText([]byte(path), summaryCut)
	e := fault.New(fault.BadRequest, "The key %q is not in the result. Name keys that are in it, or use the mode query.", shown)
	e.At = fault.Index("/filter_keys", i)
	collect := func(v []byte) {
		for key := range rawjson.Members(v) {
			if len(e.Available) == maxKeysShown {
				return
			}
			name, _ := cutText([]byte(rawjson.Unquote(string(key))), summaryCut)
			e.Available = append(e.Available, string(name))
		}
	}
	collect(o.value)
	for start, end := range rawjson.Elements(o.paged) {
		if !o.work.step() {
			break
		}
		if kindOf(o.paged[start:end]) == object {
			collect(o.paged[start:end])
			break
		}
	}
	e.Nearest = fault.Nearest(path, e.Available, 3)
	return e
}
