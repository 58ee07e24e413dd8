package app

import (
	"slices"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/commands"
)

// openCommands opens the commands of the configuration, which work below the root of files: without one they fail. It returns the names of
// their functions.
func (o *sourceOpener) openCommands() []string {
	if len(o.config.Commands) == 0 || o.hasFault("/fs/root") {
		return nil
	}
	if reason := o.lacksRoot(); reason != "" {
		f := fault.New(fault.BadRequest, "commands cannot run because %s", reason)
		o.add("sh", "/commands", absentSource{steps.Status{State: steps.StateFailed, Error: f}}, nil)
		return nil
	}
	source, err := commands.New(&commands.Options{
		Root:     config.Or(o.config.FS.Root, ""),
		Commands: o.commands(),
		Warn:     o.warnMissingProgram,
	})
	o.add("sh", "/commands", source, err)
	if err != nil {
		return nil
	}
	return namesOf(source)
}

// warnMissingProgram shows the warning of a command whose program is missing. Commands of the command line that do not list functions do
// not show it, because they may need another function.
func (o *sourceOpener) warnMissingProgram(f *fault.Error) {
	if p := o.process; p.serve || p.List || p.Verbose {
		p.warnRedacted(o.config.FaultAt("/commands", f))
	}
}

// commands converts the commands of the configuration. It leaves out presets with a fault that commands.New would report again.
func (o *sourceOpener) commands() []commands.Command {
	list := make([]commands.Command, 0, len(o.config.Commands))
	for _, entry := range o.config.Commands {
		c, at := entry.Config, fault.Key("/commands", entry.Name)
		reported := func(f *fault.Error) bool { return f.At == at || f.At == at+"/preset" || f.At == at+"/run" }
		if c.Preset != nil && slices.ContainsFunc(o.faults, reported) {
			continue
		}
		command := commands.Command{
			Name: entry.Name, Preset: config.Or(c.Preset, ""), Run: c.Run, Args: c.Args, Optional: c.Optional,
			Description: config.Or(c.Description, ""), Effect: config.Or(c.Effect, ""), Dir: config.Or(c.Dir, ""), Env: c.Env,
			FailsFrom: config.Or(c.FailsFrom, 0), Errors: c.Errors, MaxOutputBytes: int64(config.Or(c.MaxOutputBytes, 0)),
			MaxMemoryBytes: int64(config.Or(c.MaxMemoryBytes, 0)), MaxCPUTime: config.Or(c.MaxCPUTime, 0),
		}
		if command.Preset == "preset" {
			command.Preset = entry.Name
		}
		list = append(list, command)
	}
	return list
}
