package schema

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/fault"
)

// Paths caches the types of some paths of one schema, because the same paths are needed repeatedly. The zero value is ready. Many
// goroutines may use it.
type Paths struct {
	hasWarnings atomic.Bool // some path has a warning; until then, Undeclared skips the lookup
	mu          sync.RWMutex
	paths       map[string]pathTypes
}

type pathTypes struct {
	types   []string
	warning *fault.Error // see Undeclared
}

// Bounds of the cache of one function: paths, and bytes of each.
const maxPaths, maxPathBytes = 64, 128

// TypesAt returns the JSON Schema types that a value may have at path, according to the compact schema of a function's result; nil if they
// are not known. It fails with reference_missing if the schema rules out a value there, with the available keys and the nearest. An empty
// schema allows everything. A path through every element is ruled out if no element can have the rest of the path. Paths that are not ruled
// out are cached.
func (p *Paths) TypesAt(name string, schema []byte, path []Element) (types []string, f *fault.Error) {
	if len(schema) == 0 {
		return nil, nil
	}
	entry, f := p.at(name, schema, path)
	return entry.types, f
}

// Undeclared returns reference_missing, with the nearest names, if a path names a member that the schema allows but does not declare, and
// the name resembles a declared one; else nil. It is only a warning, because a value may have undeclared members. It covers only paths that
// TypesAt was called with earlier.
func (p *Paths) Undeclared(name string, schema []byte, path []Element) *fault.Error {
	if len(path) == 0 || !p.hasWarnings.Load() {
		return nil
	}
	entry, _ := p.at(name, schema, path)
	return entry.warning
}

func (p *Paths) at(name string, schema []byte, path []Element) (entry pathTypes, f *fault.Error) {
	var scratch [128]byte
	key := scratch[:0]
	for _, element := range path {
		key = append(append(key, element.kindByte()), element.Key...)
	}
	entry, ok := p.get(key)
	if ok {
		return entry, nil
	}
	if entry.types, f = typesAt(name, schema, path); f != nil {
		return pathTypes{}, f
	}
	if entry.warning = undeclaredWarning(name, schema, path); entry.warning != nil {
		p.hasWarnings.Store(true)
	}
	p.put(key, entry)
	return entry, nil
}

func (p *Paths) get(key []byte) (entry pathTypes, ok bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	entry, ok = p.paths[string(key)]
	return entry, ok
}

func (p *Paths) put(key []byte, entry pathTypes) {
	if len(key) > maxPathBytes {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paths == nil || len(p.paths) >= maxPaths { // a full cache starts again
		p.paths = map[string]pathTypes{}
	}
	entry.types = slices.Clip(entry.types)
	p.paths[string(key)] = entry
}
