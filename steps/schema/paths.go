package schema

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/fault"
)

// Paths are what is known of some paths of one schema, as the same ones are asked for again and again. The zero value is
// ready. They may be used by many goroutines.
type Paths struct {
	some  atomic.Bool // a path of it was doubted: most schemas have none, and nothing is looked for then
	mu    sync.RWMutex
	paths map[string]walked
}

type walked struct {
	types []string
	doubt *fault.Error // see Undeclared
}

// Bounds of what is kept of a function: paths, and bytes of each.
const maxWalked, maxWalkedPath = 64, 128

// TypesAt walks a compact schema of what a function of that name gives: types are the JSON Schema types of what may stand at path,
// nil when that is not known. Code reference_missing if the schema forbids that there ever is a value, with the keys that there are
// and the nearest. If the schema is empty or silent, everything is possible. A walk over each element is forbidden if no element can
// have the rest. What is possible is kept.
func (p *Paths) TypesAt(name string, schema []byte, path []Element) (types []string, f *fault.Error) {
	if len(schema) == 0 {
		return nil, nil
	}
	found, f := p.at(name, schema, path)
	return found.types, f
}

// Undeclared reports where a path takes a member that the schema does not declare, though it allows it, and that
// resembles one that it declares: reference_missing, with the nearest. nil: there is none. As a value may have what its
// schema does not declare, it is no more than a warning. It knows of paths that TypesAt was asked for.
func (p *Paths) Undeclared(name string, schema []byte, path []Element) *fault.Error {
	if len(path) == 0 || !p.some.Load() {
		return nil
	}
	found, _ := p.at(name, schema, path)
	return found.doubt
}

func (p *Paths) at(name string, schema []byte, path []Element) (found walked, f *fault.Error) {
	var room [128]byte
	key := room[:0]
	for _, element := range path {
		key = append(append(key, element.kind()), element.Key...)
	}
	found, ok := p.get(key)
	if ok {
		return found, nil
	}
	if found.types, f = typesAt(name, schema, path); f != nil {
		return walked{}, f
	}
	if found.doubt = undeclared(name, schema, path); found.doubt != nil {
		p.some.Store(true)
	}
	p.put(key, found)
	return found, nil
}

func (p *Paths) get(key []byte) (found walked, ok bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	found, ok = p.paths[string(key)]
	return found, ok
}

func (p *Paths) put(key []byte, found walked) {
	if len(key) > maxWalkedPath {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paths == nil || len(p.paths) >= maxWalked {
		p.paths = map[string]walked{}
	}
	found.types = slices.Clip(found.types)
	p.paths[string(key)] = found
}
