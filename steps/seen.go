package steps

import (
	"encoding/json"
	"sync"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// Seen is the shape of the results of a function that declares none, as its results so far have had it.
type Seen struct {
	// Schema is a JSON Schema, compact, of type, properties, required, additionalProperties and items.
	Schema json.RawMessage
	// Rare reports whether a path that Schema forbids was in a result, though not in enough of them to stand in Schema.
	Rare func(path []schema.Element) bool

	paths     schema.Paths // of Schema
	once      sync.Once
	signature string // of the function, with Schema as its result
}

// Learn returns a clone whose calls go through what w makes of them, as Wrap does, and whose functions have the shapes that
// now gives for each, at any time and nil while none is known. Both are asked only of functions without an output schema;
// now may give nil for one of which nothing is learnt.
func (r *Registry) Learn(w func(*Spec, Call) (call Call, now func() *Seen)) *Registry {
	return r.with(func(e *Entry) {
		if len(e.spec.Output) > 0 {
			return
		}
		if call, now := w(e.spec, e.call); now != nil {
			e.call, e.seen = call, now
		}
	})
}

// Seen is the shape that the function's results had so far; nil where none is known, and for a function that declares an
// output schema.
func (e *Entry) Seen() *Seen {
	if e.seen == nil {
		return nil
	}
	return e.seen()
}

// Unseen reports where a path leaves the shape of the results so far, with the nearest names: reference_missing. nil: it
// does not, or nothing is known. As other results may come, it is no more than a warning.
func (e *Entry) Unseen(path []schema.Element) *fault.Error {
	known := e.Seen()
	if known == nil {
		return nil
	}
	_, f := known.paths.TypesAt(e.spec.Name, known.Schema, path)
	if f == nil || known.Rare(path) {
		return nil
	}
	return f
}
