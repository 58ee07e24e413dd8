package mcp

import (
	_ "embed"
	"encoding/json"
	"strings"
	"sync"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
)

// takenByTools is what the own tools take, by their names: internal/gen writes it from the types that are decoded.
//
//go:embed tools.json
var takenByTools []byte

// takes is what a tool takes: its input schema, and its manual, which tells of each field what it means.
type takes struct {
	InputSchema, Manual json.RawMessage
}

var allTaken = sync.OnceValue(func() (all map[string]takes) {
	if err := json.Unmarshal(takenByTools, &all); err != nil {
		panic(err) // it is part of the program
	}
	for name, t := range all {
		all[name] = takes{marshal(t.InputSchema), marshal(t.Manual)} // compact
	}
	return all
})

// taken is what one of the own tools takes.
func taken(name string) takes { return allTaken()[name] }

// manualOf is what is to be known of one of onecall's own tools, with schema losslessly; nil for any other name.
func (f *toolset) manualOf(name string, schema bool) json.RawMessage {
	manual := taken(name).Manual
	if name != "chain" || manual == nil {
		return manual
	}
	if schema {
		return chain.ChainSchema()
	}
	if hoist := f.server.o().Hoist; len(hoist) > 0 {
		manual = raw.With(manual, "hoisted", marshal(strings.Join(hoist, ", ")+": accepted beside steps, as in common"))
	}
	return manual
}
