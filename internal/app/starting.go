package app

import (
	"strings"

	"github.com/onecall-mcp/onecall/steps"
)

// Starting names the sources that are starting, each with what it said last on its stderr; "": none is.
func (a *App) Starting() string {
	var names []string
	for _, source := range a.Catalog.Sources() {
		if source.State != steps.StateStarting {
			continue
		}
		name := source.Name
		if said, ok := a.process.said.Load(name); ok {
			name += " (" + a.process.Redactor.Text(said.(string)) + ")" //nolint:forcetypeassert // nothing else is stored
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
