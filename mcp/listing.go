package mcp

import (
	"encoding/json"

	"github.com/onecall-mcp/onecall/steps"
)

// Listing is a tool as clients read it in a list of tools.
type Listing struct {
	Name string
	JSON json.RawMessage // the whole tool; it must not be changed
}

// List is the list of tools that callers with these rights read on the server's surface, by name, of the sources that are there now.
func (s *Server) List(r steps.Rights) []Listing {
	f := s.toolset(r, s.o().Surface)
	f.refresh()
	var list []Listing
	for _, t := range f.offerOf(nil).tools {
		list = append(list, Listing{t.Name, t.listed})
	}
	return list
}
