package app

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/steps"
)

// chainsFolder is the name of the folder of saved chains.
const chainsFolder = "chains"

// ChainsFolder is where the saved chains of a configuration are: the folder chains beside it, or in the working directory if there
// is none.
func ChainsFolder(configPath string) string {
	return filepath.Join(filepath.Dir(configPath), chainsFolder)
}

// savedChains is the source of the saved chains in a folder.
type savedChains struct {
	functions []steps.Function
	files     map[string]string // of the chains that were read, by the names of their functions

	mu       sync.Mutex
	unread   map[string]*fault.Error // by file: what is wrong with it
	unlinked map[string]*fault.Error // by function: why the registry has to leave it out
}

// openChains reads the folder of saved chains, and adds them to the catalogue, if there are any.
func (o *opener) openChains() {
	folder := ChainsFolder(o.config.Path)
	list, err := chainfile.List(folder)
	if err != nil {
		o.warn(fault.New(fault.BadRequest, "the saved chains in %s cannot be read: %v", folder, err))
	}
	if len(list) == 0 {
		return
	}
	s := &savedChains{files: map[string]string{}, unread: map[string]*fault.Error{}}
	for _, file := range list {
		var f *fault.Error
		fn, faults := o.ReadChain(file)
		if more := len(faults) - 1; more >= 0 {
			if f = faults[0].Under(""); more > 0 {
				f.Message += fmt.Sprintf(" (and %d more: onecall check %s tells all)", more, file.Path)
			}
		}
		name := steps.ChainSource + "." + file.Name
		if first, taken := s.files[name]; taken && f == nil {
			f = fault.New(fault.BadRequest, "%s holds a chain of this name: rename one of the two", filepath.Base(first))
		}
		if f != nil {
			s.unread[file.Path] = f
			o.warn(placedIn(file.Path, f))
			continue
		}
		s.files[name] = file.Path
		s.functions = append(s.functions, *fn)
	}
	o.chains = s
	o.add(steps.ChainSource, "", s, nil)
}

// ReadChain makes the function that the file of a saved chain is.
func (a *App) ReadChain(file chainfile.Saved) (*steps.Function, []*fault.Error) {
	if f := chainfile.CheckName(file.Name); f != nil {
		return nil, []*fault.Error{f}
	}
	c := a.config
	limit := int64(config.Or(c.Limits.MaxRequestBytes, chain.DefaultMaxRequestBytes))
	text, faults := chainfile.ReadSaved(file.Path, limit)
	var fn *steps.Function
	if len(faults) == 0 {
		fn, faults = chain.Saved(file.Name, text.JSON, &chain.Options{Hoist: c.Hoist, MaxSteps: config.Or(c.Limits.MaxSteps, 0),
			MaxConcurrency: config.Or(c.Limits.MaxConcurrency, 0), MaxRequestBytes: limit})
		text.Locate(faults)
	}
	return fn, faults
}

// placedIn is a fault of a file, with its line.
func placedIn(path string, f *fault.Error) *fault.Error {
	own := f.Under("")
	own.At, own.Line, own.Column = "", 0, 0
	own.Message = path + ": " + own.Message
	if f.Line > 0 && !strings.HasPrefix(f.Message, "line ") {
		own.Message = fmt.Sprintf("%s, line %d, column %d: %s", path, f.Line, f.Column, f.Message)
	}
	return own
}

// Functions implements steps.Source.
func (s *savedChains) Functions() []steps.Function { return s.functions }

// Close implements steps.Source.
func (s *savedChains) Close() error { return nil }

// Watch implements steps.Live: a change of the folder makes another source.
func (s *savedChains) Watch(func()) {}

// Status implements steps.Live.
func (s *savedChains) Status() steps.Status {
	status := steps.Status{State: steps.StateReady}
	files, broken := s.broken()
	if len(broken) == 0 {
		return status
	}
	status.Error = broken[0].Under("")
	if len(broken) > 1 {
		status.Error.Message = fmt.Sprintf("%s are broken; %s", strings.Join(files, ", "), status.Error.Message)
	}
	return status
}

// broken are the files that cannot be used, and why.
func (s *savedChains) broken() (files []string, list []*fault.Error) {
	if s == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	byFile := map[string]*fault.Error{}
	for path, f := range s.unread {
		byFile[path] = placedIn(path, f)
	}
	for name, f := range s.unlinked {
		byFile[s.files[name]] = placedIn(cmp.Or(s.files[name], name), f)
	}
	for _, path := range slices.Sorted(maps.Keys(byFile)) {
		files, list = append(files, filepath.Base(path)), append(list, byFile[path])
	}
	return files, list
}

// unlink takes note of the chains that the registry has to leave out.
func (a *App) unlink(why map[string]*fault.Error) {
	if a.chains == nil {
		return
	}
	a.chains.mu.Lock()
	defer a.chains.mu.Unlock()
	a.chains.unlinked = why
}

// BrokenChains tells of the saved chains that cannot be used, and why.
func (a *App) BrokenChains() []*fault.Error {
	_, list := a.chains.broken()
	return list
}

// OddChains tells of the saved chains that were read, and that cannot be used or whose short names mean other functions.
func (a *App) OddChains() (list []*fault.Error) {
	if a.chains == nil {
		return nil
	}
	registry := a.Catalog.Registry()
	a.chains.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(a.chains.unlinked)) {
		list = append(list, placedIn(cmp.Or(a.chains.files[name], name), a.chains.unlinked[name]))
	}
	a.chains.mu.Unlock()
	for _, fn := range a.chains.functions {
		short := strings.TrimPrefix(fn.Name, steps.ChainSource+".")
		if entry, err := registry.Resolve(short); err == nil && entry.Spec().Saved == nil {
			f := fault.New(fault.BadRequest, "%s is the name of %s too, which %s alone means: write %s for the chain", short, entry.Spec().Name, short, fn.Name)
			list = append(list, placedIn(a.chains.files[fn.Name], f))
		}
	}
	return list
}

// ChainFile is the file of a saved chain, by the name of its function; "": there is no such chain.
func (a *App) ChainFile(function string) string {
	if a.chains == nil {
		return ""
	}
	return a.chains.files[function]
}

// watchChains has a change of the saved chains noticed as one of the configuration is.
func (a *App) watchChains() {
	folder := ChainsFolder(a.config.Path)
	a.files.add(chainsAt, folder)
	list, _ := chainfile.List(folder)
	for _, file := range list {
		a.files.add(chainsAt, file.Path)
	}
}

// chainsAt stands for the saved chains where the places of a configuration are told.
const chainsAt = "/" + chainsFolder
