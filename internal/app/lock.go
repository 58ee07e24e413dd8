package app

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/lock"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
)

// LockFile returns the path of the lock of a configuration: beside it, or in the working directory if there is none.
func LockFile(configPath string) string {
	return filepath.Join(filepath.Dir(configPath), lock.FileName)
}

// ReadLock reads the lock at a path; nil without a fault: there is none.
func ReadLock(path string) (*lock.File, *fault.Error) {
	text, err := textfile.ReadFound(path, lock.MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fault.New(fault.BadRequest, "%s cannot be read: %v", path, textfile.Cause(err))
	case len(text) > lock.MaxBytes:
		return nil, fault.New(fault.BadRequest, "%s has more than %d bytes: no lock is as large", path, lock.MaxBytes)
	}
	l, f := lock.Parse(path, text)
	if f != nil {
		return nil, withFile(path, f)
	}
	return l, nil
}

// Lockable is what a lock can say of a configuration now.
type Lockable struct {
	Specs     map[string]*steps.Spec    // of Functions; not to be changed
	Functions map[string]*lock.Function // by name, without saved chains, which are made of other functions
	Named     map[string]bool           // those that saved chains and rules of approval name
	Down      []string                  // the sources whose functions are not known now
	Personal  []string                  // the sources whose lists each caller has for itself: no lock knows them

	app *App
}

// Lockable waits for all sources and returns what a lock can say of them.
func (a *App) Lockable(ctx context.Context) *Lockable {
	registry := steps.Await(ctx, a.Catalog, nil)
	l := &Lockable{Functions: map[string]*lock.Function{}, Specs: map[string]*steps.Spec{}, Named: map[string]bool{}, app: a}
	for _, spec := range a.Catalog.Offered() {
		if spec.Saved == nil {
			f := lock.Of(spec)
			l.Functions[spec.Name], l.Specs[spec.Name] = &f, spec
		}
		if spec.Approve != "" {
			l.Named[spec.Name] = true
		}
	}
	if a.chains != nil {
		for i := range a.chains.functions {
			for _, name := range l.calledBy(registry, &a.chains.functions[i]) {
				l.Named[name] = true
			}
		}
	}
	for name := range l.Named {
		if entry, err := registry.Resolve(name); err == nil && entry.Spec().Undo != nil {
			if undo, err := registry.Resolve(entry.Spec().Undo.Function); err == nil {
				l.Named[undo.Spec().Name] = true
			}
		}
	}
	for _, info := range a.Catalog.Sources() {
		switch {
		case a.personal[info.Name]:
			l.Personal = append(l.Personal, info.Name)
		case unknownFunctions(&info):
			l.Down = append(l.Down, info.Name)
		}
	}
	return l
}

// unknownFunctions reports whether the functions of a source are not known now.
func unknownFunctions(info *steps.SourceInfo) bool {
	switch info.State {
	case steps.StateReady, steps.StateIdle, steps.StateDisabled, steps.StateLocked:
		return false
	}
	return len(info.Functions) == 0
}

// calledBy returns the functions that a saved chain calls, as far as they are there.
func (l *Lockable) calledBy(registry *steps.Registry, fn *steps.Function) (names []string) {
	for _, name := range slices.Concat(fn.Saved.Names, fn.Saved.Undoes) {
		if entry, err := registry.Resolve(name); err == nil && entry.Spec().Saved == nil {
			names = append(names, entry.Spec().Name)
		}
	}
	return names
}

// Locks reports whether a lock that names all functions, or only the named ones, names this one.
func (l *Lockable) Locks(name string, all bool) bool {
	return l.Functions[name] != nil && (all || l.Named[name])
}

// IsDown reports whether a function may be one of a source whose functions are not known now.
func (l *Lockable) IsDown(function string) bool {
	return slices.Contains(l.Down, l.app.sourceOf(function))
}

// sourceOf returns the name of the source of a function, whatever the configuration calls it.
func (a *App) sourceOf(function string) string {
	source, _, _ := strings.Cut(a.settings.Original(function), ".")
	return source
}

// LockConflict returns what is wrong with a lock for this configuration; nil: it may be its lock.
func (a *App) LockConflict(path string, l *lock.File) *fault.Error {
	sources, upstream := upstreamSources(a.config), 0
	for i := range l.Functions {
		source := a.sourceOf(l.Functions[i].Name)
		if slices.Contains(config.Embedded, source) {
			continue
		}
		if upstream++; sources[source] {
			return nil
		}
	}
	if upstream == 0 {
		return nil
	}
	return fault.New(fault.BadRequest, "%s is the lock of another configuration: %s has none of its sources, such as %s. Remove it and run "+
		"onecall lock", path, a.configName(), fault.Quote(a.firstForeign(l)))
}

// upstreamSources returns the names of the MCP servers and the OpenAPI services of a configuration.
func upstreamSources(c *config.File) map[string]bool {
	names := map[string]bool{}
	for i := range c.MCPServers {
		names[c.MCPServers[i].Source()] = true
	}
	for i := range c.OpenAPI {
		names[c.OpenAPI[i].Source()] = true
	}
	return names
}

// firstForeign returns the first source that a lock names and this configuration does not have.
func (a *App) firstForeign(l *lock.File) string {
	for i := range l.Functions {
		if source := a.sourceOf(l.Functions[i].Name); !slices.Contains(config.Embedded, source) {
			return source
		}
	}
	return ""
}

func (a *App) configName() string {
	if a.config.Path == "" {
		return "the default configuration"
	}
	return a.config.Path
}
