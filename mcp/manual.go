package mcp

import (
	_ "embed"
	"encoding/json"
	"strings"
	"sync"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
)

// toolsJSON has the schemas and manuals of the builtin tools; internal/gen writes it from the types that decode their arguments.
//
//go:embed tools.json
var toolsJSON []byte

// toolSchema is a tool's input schema, and the manual of its fields.
type toolSchema struct {
	InputSchema, Manual json.RawMessage
}

var toolSchemas = sync.OnceValue(func() (all map[string]toolSchema) {
	if err := json.Unmarshal(toolsJSON, &all); err != nil {
		panic(err) // embedded: cannot fail
	}
	for name, t := range all {
		all[name] = toolSchema{marshal(t.InputSchema), marshal(t.Manual)} // compact
	}
	return all
})

// schemaOfTool returns the schema and manual of a builtin tool; zero for any other name.
func schemaOfTool(name string) toolSchema { return toolSchemas()[name] }

// manualOf returns the manual of a builtin tool, or for chain its full schema if schema is set; nil: there is no such tool.
func (f *toolset) manualOf(name string, schema bool) json.RawMessage {
	manual := schemaOfTool(name).Manual
	if name != "chain" || manual == nil {
		return manual
	}
	if schema {
		return chain.ChainSchema()
	}
	if hoist := f.server.opts().Hoist; len(hoist) > 0 {
		manual = raw.With(manual, "hoisted", marshal(strings.Join(hoist, ", ")+": accepted beside steps, as in common"))
	}
	return manual
}
