package app

import (
	"fmt"
	"strings"

	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/commands"
	"github.com/onecall-mcp/onecall/steps/source/files"
)

// closedFunction describes a function that changes files or runs a program, and returns the key with which the configuration opens it. nil:
// name is no such function, or it is open.
func closedFunction(cfg *config.File, name string) (would *steps.Spec, key string) {
	if would = files.Changing(name); would != nil && len(cfg.FS.Write) == 0 {
		return would, "fs: {write: [DIR]}"
	}
	source, program, _ := strings.Cut(name, ".")
	if source != "sh" || program == "" {
		return nil, ""
	}
	would = &steps.Spec{Name: name, Effect: steps.Write, EffectDeclared: true}
	preset, effect := commands.PresetOf(name)
	if preset == "" {
		return would, fmt.Sprintf("commands: {%s: {run: [PROGRAM, …]}}", program)
	}
	would.Effect, _ = steps.ParseEffect(effect)
	return would, fmt.Sprintf("commands: {%s: preset}", preset)
}
