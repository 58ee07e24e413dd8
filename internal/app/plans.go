package app

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/signing"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
)

// SignatureFile returns the path of the signature of a saved chain in a file.
func SignatureFile(path string) string {
	return filepath.Join(filepath.Dir(path), chainfile.NameOf(path)+chainfile.SignatureSuffix)
}

// PlanKeys reads the keys of those who may sign plans. The faults are relative to /access.
func PlanKeys(c *config.Access) (keys []*signing.Key, faults []*fault.Error) {
	for i, text := range c.Plans {
		key, f := signing.ParseKey(text)
		if f != nil {
			faults = append(faults, f.Under(fault.Index("/plans", i)))
			continue
		}
		keys = append(keys, key)
	}
	return keys, faults
}

// verifyPlans marks the saved chains that an accepted key has signed. A signature that counts for nothing is told.
func (o *sourceOpener) verifyPlans(s *savedChains) {
	keys, faults := PlanKeys(&o.config.Access)
	for _, f := range faults {
		o.faults = append(o.faults, o.config.FaultAt("/access", f))
	}
	if len(keys) == 0 || o.process.Unverified {
		return
	}
	for i := range s.functions {
		fn := &s.functions[i]
		path := SignatureFile(s.files[fn.Name])
		key, f := VerifyPlan(fn.Name, path, s.chain, keys)
		if f == nil && key != nil {
			f = o.checkNames(fn.Name, s, map[string]bool{})
		}
		switch {
		case f != nil:
			o.warn(withFile(path, f))
		case key != nil:
			fn.Saved.Signed = key.ID
		}
	}
}

// chain returns a saved chain by the name of its function before it is renamed; nil: there is none.
func (s *savedChains) chain(name string) *steps.SavedChain {
	for i := range s.functions {
		if s.functions[i].Name == name {
			return s.functions[i].Saved
		}
	}
	return nil
}

// checkNames refuses a signature if the configuration gives the name of the chain, or of one that it calls, to another function.
func (o *sourceOpener) checkNames(name string, s *savedChains, checked map[string]bool) *fault.Error {
	if original := o.settings.Original(name); original != name {
		return fault.New(fault.Denied, "the configuration gives the name %s to %s, so the signature does not say what is called", name, original)
	}
	checked[name] = true
	for _, called := range slices.Concat(s.chain(name).Names, s.chain(name).Undoes) {
		if s.chain(called) == nil || checked[called] {
			continue
		}
		if f := o.checkNames(called, s, checked); f != nil {
			return f
		}
	}
	return nil
}

// VerifyPlan returns the key that has signed a saved chain, by the signature in a file; nil without a fault: there is no such file.
func VerifyPlan(name, path string, saved func(name string) *steps.SavedChain, keys []*signing.Key) (*signing.Key, *fault.Error) {
	text, err := textfile.ReadFound(path, signing.MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fault.New(fault.BadRequest, "cannot be read: %v", textfile.Cause(err))
	}
	form, f := chain.SignedForm(name, saved)
	if f != nil {
		return nil, f
	}
	return signing.Verify(text, form, keys)
}

// ChainsBeside returns a function that gives the saved chains in the folder of a file, by the names of their functions; nil: there is no
// such chain, or it is broken.
func (a *App) ChainsBeside(path string) func(name string) *steps.SavedChain {
	return ChainsIn(filepath.Dir(path), a.ReadChain)
}

// ChainsIn is ChainsBeside for a folder, whose files read reads.
func ChainsIn(folder string, read func(chainfile.SavedFile) (*steps.Function, []*fault.Error)) func(name string) *steps.SavedChain {
	known := map[string]*steps.SavedChain{}
	return func(name string) *steps.SavedChain {
		short, isChain := strings.CutPrefix(name, steps.ChainSource+".")
		if !isChain {
			return nil
		}
		saved, isKnown := known[name]
		if path := chainfile.InFolder(folder, short); !isKnown && path != "" {
			if fn, faults := read(chainfile.SavedFile{Name: short, Path: path}); len(faults) == 0 {
				saved = fn.Saved
			}
		}
		known[name] = saved
		return saved
	}
}
