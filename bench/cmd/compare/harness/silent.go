package harness

import (
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
)

// Silent is an app.Reporter that reports nothing.
type Silent struct{}

// Notice implements app.Reporter.
func (Silent) Notice(string, ...any) {}

// Warn implements app.Reporter.
func (Silent) Warn(*fault.Error) {}

// Faults implements app.Reporter.
func (Silent) Faults(*config.Error) {}
