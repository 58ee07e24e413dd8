package app

import (
	"strings"

	"github.com/onecall-mcp/onecall/steps"
)

// Starting lists the sources that are starting, each with its last line on stderr; "": no source is starting.
func (a *App) Starting() string {
	var names []string
	for _, source := range a.Catalog.Sources() {
		if source.State != steps.StateStarting {
			continue
		}
		name := source.Name
		if line, ok := a.process.lastLines.Load(name); ok {
			name += " (" + a.process.Redactor.Text(line.(string)) + ")" //nolint:forcetypeassert // nothing else is stored
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
