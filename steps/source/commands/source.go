// Package commands offers the programs that the configuration names as functions: sh.NAME. No shell stands in between: a program gets its
// arguments one by one, and what a caller gives stays one argument.
//
// A program runs in a process group of its own, in a folder below one root, with the variables of the environment that its command names
// and no others, and with an empty standard input. Its time, the output that is kept of it and, on Linux, its memory and processor time are
// bounded. Presets are commands that are known here: git, go and rg.
package commands

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Options configure New; nil and zero values are the defaults.
type Options struct {
	Root     string // the folder that contains the working folders of all commands; "": the working directory
	Commands []Command

	// Warn is called by New for each program that is missing, with At `/NAME/run/0` or `/NAME/preset`. The function is offered all the same,
	// and its calls fail until the program is there. nil: nobody is told.
	Warn func(*fault.Error)
}

// Command describes one program as the function sh.NAME, or the functions of a preset.
type Command struct {
	Name string // letters, digits, _ and -, in parts separated by dots

	// Preset is git, go or rg, which offer sh.NAME.log and others, sh.NAME.test, and sh.NAME. Only Dir, Env and the bounds go with it, and
	// win over the preset's own. "": Run is given.
	Preset string

	// Run is the program, as a path, and its arguments. {n} in an argument stands for the argument n of a call. An argument in which a value
	// is absent is left out; one with a list is repeated for each element.
	Run []string

	// Args are the JSON Schemas of the function's arguments, by name: strings, numbers, booleans, or lists of them. A text with the format
	// path must lead to a place below the root. Optional names those that a call may leave out.
	Args     map[string]json.RawMessage
	Optional []string

	Description string // "": the program and its arguments
	Effect      string // read, write or destroy; "": write
	Dir         string // the working folder, relative to the root; {n} is known; "": the root
	Env         map[string]string

	FailsFrom int      // the lowest exit status that is a failure; 0: 1
	Errors    []string // regular expressions (RE2) of the lines that the result shows first; nil: lines that look like errors

	MaxOutputBytes int64         // the bytes that are kept of stdout, and of stderr; 0: 8 MiB
	MaxMemoryBytes int64         // the data of each process, on Linux; 0: 1 GiB
	MaxCPUTime     time.Duration // the processor time of each process, on Linux, in whole seconds; 0: 5 minutes
}

// The defaults of a Command.
const (
	defaultOutputBytes = 8 << 20
	defaultMemoryBytes = 1 << 30
	defaultCPUTime     = 5 * time.Minute
)

// Source offers the commands. It implements steps.Source.
type Source struct {
	root     *os.Root
	rootPath string
	commands []*command
	closed   atomic.Bool
}

// New opens the root and compiles the commands. Its error joins all faults (bad_request), with At `/NAME/FIELD…`, or without a name about
// the root; Unwrap() []error returns them. The caller closes the source.
func New(o *Options) (*Source, error) {
	if o == nil {
		o = &Options{}
	}
	s := &Source{}
	var err error
	if s.rootPath, err = filepath.Abs(o.Root); err == nil {
		s.root, err = os.OpenRoot(s.rootPath)
	}
	if err != nil {
		f := fault.New(fault.BadRequest, "the root of the commands, %q, is not a folder that can be read", fault.Short(s.rootPath))
		f.Err = err
		return nil, f
	}
	var faults []error
	taken := map[string]bool{}
	for i := range o.Commands {
		one := &o.Commands[i]
		compilers, wrong := one.compilers()
		for _, c := range compilers {
			s.commands = append(s.commands, c.compile(s, taken))
			wrong = append(wrong, c.faults...)
		}
		for _, f := range wrong {
			faults = append(faults, f.Under(fault.Key("", one.Name)))
		}
		if o.Warn == nil || len(wrong) > 0 {
			continue
		}
		if missing := one.missingProgram(); missing != nil {
			o.Warn(missing.Under(fault.Key("", one.Name)))
		}
	}
	if len(faults) > 0 {
		s.root.Close()
		return nil, errors.Join(faults...)
	}
	return s, nil
}

// compilers returns what compiles the functions of a command without faults: one, or those of its preset.
func (c *Command) compilers() (list []*compiler, faults []*fault.Error) {
	if c.Preset == "" {
		return []*compiler{{Command: *c}}, nil
	}
	if presets[c.Preset] == nil {
		names := slices.Sorted(maps.Keys(presets))
		f := fault.New(fault.BadRequest, "unknown preset %q: use %s", fault.Short(c.Preset), strings.Join(names, ", ")).Under("/preset")
		f.Available, f.Nearest = names, fault.Nearest(c.Preset, names, 1)
		return nil, []*fault.Error{f}
	}
	for field, given := range map[string]bool{"/run": c.Run != nil, "/args": c.Args != nil, "/optional": c.Optional != nil,
		"/description": c.Description != "", "/effect": c.Effect != "", "/failsFrom": c.FailsFrom != 0, "/errors": c.Errors != nil} {
		if given {
			faults = append(faults, fault.New(fault.BadRequest,
				"the preset %s has its own: leave it out, or write the command without the preset", c.Preset).Under(field))
		}
	}
	for _, one := range presets[c.Preset] {
		list = append(list, one.compiler(c))
	}
	return list, faults
}

// missingProgram returns the fault of a command whose program is missing; nil: it is there.
func (c *Command) missingProgram() *fault.Error {
	field, program := "/preset", c.Preset
	if program == "" {
		field, program = "/run/0", c.Run[0]
	}
	_, missing := findProgram(program)
	if missing == nil {
		return nil
	}
	missing.Code, missing.At = fault.BadRequest, field
	return missing
}

// isPath reports whether a program is named by its path.
func isPath(program string) bool { return strings.ContainsAny(program, `/`+string(filepath.Separator)) }

// Close closes the root; later calls fail with unavailable.
func (s *Source) Close() error {
	s.closed.Store(true)
	return s.root.Close()
}

// Functions returns the functions of all commands.
func (s *Source) Functions() []steps.Function {
	functions := make([]steps.Function, len(s.commands))
	for i, c := range s.commands {
		functions[i] = steps.Function{Spec: c.spec, Call: c.call}
	}
	return functions
}

// call runs the program.
func (c *command) call(ctx context.Context, args []byte) ([]byte, error) {
	if c.source.closed.Load() {
		return nil, &fault.Error{Code: fault.Unavailable, Outcome: fault.NotSent, Message: "the commands are closed"}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, f := c.prepare(args)
	if f != nil {
		return nil, fault.MarkUnsent(f)
	}
	defer p.folder.Close()
	ended, f := p.run(ctx)
	if f != nil {
		return nil, f
	}
	return c.answer(ctx, ended)
}

// environ returns the environment of a program: the variables of its command, and no others.
func environ(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}
