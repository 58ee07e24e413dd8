package steps

import (
	"encoding/json"
	"sync"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// ResultShape is the shape of the results so far of a function that declares none.
type ResultShape struct {
	// Schema is a compact JSON Schema with type, properties, required, additionalProperties and items.
	Schema json.RawMessage
	// Rare reports whether a path that Schema rules out was in some results, but in too few to be in Schema.
	Rare func(path []schema.Element) bool

	paths     schema.Paths // the paths of Schema
	once      sync.Once
	signature string // the function's signature with Schema as its result
}

// Learn returns a clone whose calls are wrapped as in Wrap, and whose functions get the result shapes that shape returns. w is called only
// for functions without an output schema. shape may be called at any time; it returns nil while no shape is known. If w returns a nil
// shape, the function is left as it is.
func (r *Registry) Learn(w func(*Spec, Call) (call Call, shape func() *ResultShape)) *Registry {
	return r.mapEntries(func(e *Entry) {
		if len(e.spec.Output) > 0 {
			return
		}
		if call, shape := w(e.spec, e.call); shape != nil {
			e.call, e.resultShape = call, shape
		}
	})
}

// ResultShape returns the shape of the function's results so far; nil if the function declares a result or no shape is known.
func (e *Entry) ResultShape() *ResultShape {
	if e.resultShape == nil {
		return nil
	}
	return e.resultShape()
}

// UnseenPath returns reference_missing, with the nearest names, if a path was in no result so far; nil if it was, or if
// nothing is known. It is only a warning, because results may differ.
func (e *Entry) UnseenPath(path []schema.Element) *fault.Error {
	shape := e.ResultShape()
	if shape == nil {
		return nil
	}
	_, f := shape.paths.TypesAt(e.spec.Name, shape.Schema, path)
	if f == nil || shape.Rare(path) {
		return nil
	}
	return f
}
