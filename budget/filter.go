package budget

import (
	"bytes"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// maxFilterKeys is the most filter_keys of a fetch, maxDepth the depth in the value to which they reach: each level is
// one more walk over what it holds.
const maxFilterKeys, maxDepth = 100, 64

// maxKeysTold is the most keys that an error tells.
const maxKeysTold = 50

// filter is the answer of the mode filtered: the value with nothing in it but what the paths name, in its own order and
// nesting. A path is a key, or keys joined by dots; a key that holds dots itself is found too. A path that meets an array
// goes on in each element: an object that holds none of the keys is then {}, an element that is no object null. A key
// that an object lacks is looked for in the items of the one array in it, if there is one. A path found nowhere is
// bad_request with the keys that are there.
func filter(w *work, o outline, paths []string) ([]byte, error) {
	f := filtering{work: w, found: make([]bool, len(paths))}
	wanted := make([]wish, len(paths))
	for i, p := range paths {
		wanted[i] = wish{i, p}
	}
	if o.kind == object && o.paged != nil {
		wanted = append(wanted, inTheArray(w, o.value, o.arrays[0], paths)...)
	}
	f.value(o.value, wanted, 0)
	if err := w.over(); err != nil {
		return nil, err
	}
	for i, found := range f.found {
		if !found {
			return nil, keyNotFound(o, i, paths[i])
		}
	}
	return f.out, nil
}

// wish is what is left of a path on the way down, and which path it is.
type wish struct {
	path int
	rest string
}

// inTheArray are the wishes of an object for its one array: the paths that begin with none of the object's keys.
func inTheArray(w *work, value []byte, arrayKey string, paths []string) []wish {
	var wanted []wish
	own := make(map[string]bool)
	for key := range rawjson.Members(value) {
		if own[rawjson.Unquote(string(key))] = true; !w.goesOn() {
			break
		}
	}
	for i, p := range paths {
		if !beginsWithKey(p, own) {
			wanted = append(wanted, wish{i, arrayKey + "." + p})
		}
	}
	return wanted
}

// beginsWithKey reports whether the path is one of the keys, or one of them followed by a dot.
func beginsWithKey(path string, keys map[string]bool) bool {
	for end, c := range path {
		if c == '.' && keys[path[:end]] {
			return true
		}
	}
	return keys[path]
}

// filtering writes a filtered value.
type filtering struct {
	work  *work
	out   []byte
	found []bool // by path
}

// value appends what the wishes select of an object or an array, and reports whether that is anything.
func (f *filtering) value(v []byte, wanted []wish, depth int) (any bool) {
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
		if !f.work.goesOn() {
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

func (f *filtering) object(v []byte, wanted []wish, depth int) (any bool) {
	f.out = append(f.out, '{')
	var below []wish
	for rawKey, member := range rawjson.Members(v) {
		if !f.work.goesOn() {
			return false
		}
		var whole bool
		whole, below = f.match(rawKey, wanted, below[:0])
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
			f.out = f.out[:start]
			continue
		}
		any = true
	}
	f.out = append(f.out, '}')
	return any
}

// match reports whether a wish ends with this key, and appends to below what is left of those that go on under it.
func (f *filtering) match(rawKey []byte, wanted, below []wish) (whole bool, _ []wish) {
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
			f.found[w.path] = true
		case w.rest[n] == '.':
			below = append(below, wish{w.path, w.rest[n+1:]})
		}
	}
	return whole, below
}

// markBelow marks the paths that are found inside a member which is taken whole.
func (f *filtering) markBelow(member []byte, below []wish, depth int) {
	if len(below) > 0 {
		aside := filtering{work: f.work, found: f.found}
		aside.value(member, below, depth)
	}
}

// keyNotFound tells the keys that a filter could have named: those of the object, and of the first object in the array.
func keyNotFound(o outline, i int, path string) error {
	shown, _ := cutText([]byte(path), summaryCut)
	e := fault.New(fault.BadRequest, "The key %q is nowhere in the result. Name keys that are there, or use the mode query.", shown)
	e.At = fault.Index("/filter_keys", i)
	collect := func(v []byte) {
		for key := range rawjson.Members(v) {
			if len(e.Available) == maxKeysTold {
				return
			}
			name, _ := cutText([]byte(rawjson.Unquote(string(key))), summaryCut)
			e.Available = append(e.Available, string(name))
		}
	}
	collect(o.value)
	for start, end := range rawjson.Elements(o.paged) {
		if !o.work.goesOn() {
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
