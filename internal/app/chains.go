package app

import (
	"cmp"
	"context"
	"errors"
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

const chainsFolder = "chains"

// ChainsFolder returns the folder of saved chains: chains beside the configuration file, or in the working directory if there is no file.
func ChainsFolder(configPath string) string {
	return filepath.Join(filepath.Dir(configPath), chainsFolder)
}

// savedChains is the source of the saved chains in a folder.
type savedChains struct {
	functions []steps.Function
	files     map[string]string // the files of the valid chains, by function name before it is renamed

	mu       sync.Mutex
	invalid  map[string]*fault.Error // by file: why it is invalid
	unlinked map[string]*fault.Error // by function name, as in files: why the registry left it out
	personal map[string]*fault.Error // likewise, those that only callers with a credential of their own have
}

// openChains reads the folder of saved chains and adds them to the catalog as a source, if there are any.
func (o *sourceOpener) openChains() {
	folder := ChainsFolder(o.config.Path)
	list, err := chainfile.List(folder)
	if err != nil {
		o.warn(fault.New(fault.BadRequest, "the saved chains in %s cannot be read: %v", folder, err))
	}
	if len(list) == 0 {
		return
	}
	s := &savedChains{files: map[string]string{}, invalid: map[string]*fault.Error{}}
	for _, file := range list {
		var f *fault.Error
		fn, faults := o.ReadChain(file)
		if more := len(faults) - 1; more >= 0 {
			if f = faults[0].Under(""); more > 0 {
				f.Message += fmt.Sprintf(" (and %d more: onecall check %s shows all)", more, file.Path)
			}
		}
		name := steps.ChainSource + "." + file.Name
		if first, taken := s.files[name]; taken && f == nil {
			f = fault.New(fault.BadRequest, "%s already holds a chain with this name: rename one of the two", filepath.Base(first))
		}
		if f != nil {
			s.invalid[file.Path] = f
			o.warn(withFile(file.Path, f))
			continue
		}
		s.files[name] = file.Path
		s.functions = append(s.functions, *fn)
	}
	o.verifyPlans(s)
	o.chains = s
	o.add(steps.ChainSource, "", s, nil)
}

// ReadChain reads a saved chain and returns it as a function. With faults, the function must not be used.
func (a *App) ReadChain(file chainfile.SavedFile) (*steps.Function, []*fault.Error) {
	if f := chainfile.CheckName(file.Name); f != nil {
		return nil, []*fault.Error{f}
	}
	return readChain(a.config, file)
}

// ParseChain is ReadChain for a chain of this name that was read, as JSON.
func (a *App) ParseChain(name string, text []byte) (*steps.Function, []*fault.Error) {
	if f := chainfile.CheckName(name); f != nil {
		return nil, []*fault.Error{f}
	}
	return parseChain(a.config, name, &chainfile.Text{JSON: text})
}

// ChainReader returns a function that reads saved chains as ReadChain does, by a configuration that nothing was opened for.
func ChainReader(c *config.File) func(chainfile.SavedFile) (*steps.Function, []*fault.Error) {
	return func(file chainfile.SavedFile) (*steps.Function, []*fault.Error) { return readChain(c, file) }
}

func readChain(c *config.File, file chainfile.SavedFile) (*steps.Function, []*fault.Error) {
	text, faults := chainfile.ReadSaved(file.Path, maxChain(c))
	if len(faults) > 0 {
		return nil, faults
	}
	return parseChain(c, file.Name, text)
}

// maxChain bounds a saved chain, in bytes.
func maxChain(c *config.File) int64 {
	return int64(config.Or(c.Limits.MaxRequestBytes, chain.DefaultMaxRequestBytes))
}

func parseChain(c *config.File, name string, text *chainfile.Text) (*steps.Function, []*fault.Error) {
	options := &chain.Options{Hoist: c.Hoist, MaxSteps: config.Or(c.Limits.MaxSteps, 0), MaxConcurrency: config.Or(c.Limits.MaxConcurrency, 0),
		MaxRequestBytes: maxChain(c)}
	if config.Or(c.Journal.Store, "") != "off" { // that $state can be read; what it has is read when the chain runs
		options.ReadState = func(context.Context, string, []string) ([]byte, error) { return []byte("{}"), nil }
	}
	fn, faults := chain.Saved(name, text.JSON, options)
	text.Locate(faults)
	return fn, faults
}

// withFile returns a copy of a fault with its file and line in the message.
func withFile(path string, f *fault.Error) *fault.Error {
	located := f.Under("")
	located.At, located.Line, located.Column = "", 0, 0
	located.Message = path + ": " + located.Message
	if f.Line > 0 && !strings.HasPrefix(f.Message, "line ") {
		located.Message = fmt.Sprintf("%s, line %d, column %d: %s", path, f.Line, f.Column, f.Message)
	}
	return located
}

// Functions implements steps.Source.
func (s *savedChains) Functions() []steps.Function { return s.functions }

// Close implements steps.Source.
func (s *savedChains) Close() error { return nil }

// Watch implements steps.Live. It does nothing: a change of the folder reloads the configuration.
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

// broken returns, sorted by path, the names of the files whose chains cannot be used, and the fault of each: the file is invalid, or the
// registry left its chain out. s may be nil.
func (s *savedChains) broken() (files []string, list []*fault.Error) {
	if s == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	byFile := map[string]*fault.Error{}
	for path, f := range s.invalid {
		byFile[path] = withFile(path, f)
	}
	for name, f := range s.unlinked {
		byFile[s.files[name]] = withFile(cmp.Or(s.files[name], name), f)
	}
	for _, path := range slices.Sorted(maps.Keys(byFile)) {
		files, list = append(files, filepath.Base(path)), append(list, byFile[path])
	}
	return files, list
}

// setBrokenChains records the chains that the registry left out.
func (a *App) setBrokenChains(why map[string]*fault.Error) {
	if a.chains == nil {
		return
	}
	a.chains.mu.Lock()
	defer a.chains.mu.Unlock()
	a.chains.unlinked, a.chains.personal = map[string]*fault.Error{}, map[string]*fault.Error{}
	for name, f := range why {
		list := a.chains.unlinked
		if errors.Is(f, steps.ErrCredential) {
			list = a.chains.personal
		}
		list[a.settings.Original(name)] = f
	}
}

// BrokenChains returns the faults of the saved chains that cannot be used.
func (a *App) BrokenChains() []*fault.Error {
	_, list := a.chains.broken()
	return list
}

// AwayChains returns the valid chains that cannot be linked here, with the reason: an unavailable source has a function that they call, or
// only callers with a credential of their own have it.
func (a *App) AwayChains() []*fault.Error {
	away, _ := a.notLinked()
	return away
}

// notLinked returns the faults of valid chains that cannot be linked: those of AwayChains, and those with another reason.
func (a *App) notLinked() (away, wrong []*fault.Error) {
	if a.chains == nil {
		return nil, nil
	}
	a.Catalog.Registry() // brings them up to date
	a.chains.mu.Lock()
	unlinked := maps.Clone(a.chains.unlinked)
	maps.Copy(unlinked, a.chains.personal)
	a.chains.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(unlinked)) {
		why, list := unlinked[name], &wrong
		if errors.Is(why, steps.ErrCredential) {
			if a.Functions().Registry().Has(name) { // by a login
				continue
			}
			list = &away
		} else if missing := new(steps.MissingFunctionError); errors.As(why, &missing) {
			if down := steps.Unavailable(a.Catalog, missing.Name); down != nil {
				why, list = down, &away
			}
		}
		*list = append(*list, withFile(cmp.Or(a.chains.files[name], name), why))
	}
	return away, wrong
}

func (s *subject) suspectChains() []*fault.Error { return s.SuspectChains() }

// SuspectChains returns the faults of valid chains that cannot be linked, except those of AwayChains, and of chains whose short name means
// another function.
func (a *App) SuspectChains() []*fault.Error {
	if a.chains == nil {
		return nil
	}
	_, list := a.notLinked()
	registry, _ := a.Catalog.Whole()
	for _, fn := range a.chains.functions {
		short := strings.TrimPrefix(fn.Name, steps.ChainSource+".")
		if entry, err := registry.Resolve(short); err == nil && entry.Spec().Saved == nil {
			f := fault.New(fault.BadRequest, "%s alone means the function %s: write %s for the chain", short, entry.Spec().Name,
				fn.Name)
			list = append(list, withFile(a.chains.files[fn.Name], f))
		}
	}
	return list
}

// ChainFile returns the file of a saved chain by its function's name; "": there is none.
func (a *App) ChainFile(function string) string {
	if a.chains == nil {
		return ""
	}
	return a.chains.files[a.settings.Original(function)]
}

// watchChains adds the saved chains to the watched files, so that a change of them reloads the configuration.
func (a *App) watchChains() {
	folder := ChainsFolder(a.config.Path)
	a.files.add(chainsPointer, folder)
	list, _ := chainfile.List(folder)
	for _, file := range list {
		a.files.add(chainsPointer, file.Path, SignatureFile(file.Path))
	}
}

// chainsPointer is the JSON Pointer that stands for the saved chains among the configuration's files.
const chainsPointer = "/" + chainsFolder
