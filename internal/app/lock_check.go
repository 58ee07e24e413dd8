package app

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/lock"
	"github.com/onecall-mcp/onecall/steps"
)

// ChainVerdict says whether changes since the lock break a saved chain.
type ChainVerdict struct {
	Name     string // of its function
	File     string
	Breaks   []lock.Break
	Harmless []lock.Change  // of functions that it uses
	Faults   []*fault.Error // why it does not compile with the functions as they are now
	Unlocked []string       // functions that it uses and the lock does not name
	Down     []string       // sources that are not available, so that nothing can be said of their functions
}

// OK reports whether the chain works as before, as far as that can be told.
func (v *ChainVerdict) OK() bool { return len(v.Breaks) == 0 && len(v.Faults) == 0 && len(v.Down) == 0 }

// lockChecker compares saved chains with a lock.
type lockChecker struct {
	*App
	lock    *lock.File
	now     *Lockable
	changes map[string][]lock.Change
	locked  *steps.Registry // the functions of the lock that chains call, those that it does not name, and the chains themselves
}

// CheckLock says of each saved chain whether it works with the functions as they are now, if it worked with those of a lock.
func (a *App) CheckLock(ctx context.Context, l *lock.File) (list []ChainVerdict, err error) {
	c := &lockChecker{App: a, lock: l, now: a.Lockable(ctx), changes: map[string][]lock.Change{}}
	if a.chains == nil {
		return nil, nil
	}
	if err = c.build(); err != nil {
		return nil, err
	}
	for _, path := range a.chains.invalidFiles() {
		list = append(list, ChainVerdict{Name: steps.ChainSource + "." + chainfile.NameOf(path), File: path,
			Faults: []*fault.Error{a.chains.invalid[path]}})
	}
	for i := range a.chains.functions {
		fn := &a.chains.functions[i]
		verdict := ChainVerdict{Name: fn.Name, File: a.chains.files[fn.Name]}
		c.check(ctx, fn, &verdict)
		list = append(list, verdict)
	}
	slices.SortFunc(list, func(a, b ChainVerdict) int { return strings.Compare(filepath.Base(a.File), filepath.Base(b.File)) })
	return list, nil
}

// invalidFiles returns the files that hold no valid chain.
func (s *savedChains) invalidFiles() (paths []string) {
	for path := range s.invalid {
		paths = append(paths, path)
	}
	return paths
}

// build makes the registry of locked functions.
func (c *lockChecker) build() error {
	names, err := c.names()
	if err != nil {
		return err
	}
	today := c.Catalog.Registry()
	added := map[string]bool{}
	var functions []steps.Function
	var add func(name string)
	add = func(written string) {
		entry, err := names.Resolve(written)
		if err != nil || added[entry.Spec().Name] {
			return
		}
		name := entry.Spec().Name
		added[name] = true
		if saved := c.chains.chain(name); saved != nil {
			for _, called := range slices.Concat(saved.Names, saved.Undoes) {
				add(called)
			}
		}
		fn, known := c.lockedFunction(name)
		if !known {
			entry, err := today.Resolve(name)
			if err != nil {
				return
			}
			fn = steps.Function{Spec: *entry.Spec(), Call: notCalled}
		}
		functions = append(functions, fn)
		if fn.Undo != nil {
			add(fn.Undo.Function)
		}
	}
	for i := range c.chains.functions {
		add(c.chains.functions[i].Name)
	}
	registry, err := steps.NewRegistry(functions, nil)
	if err == nil {
		c.locked = registry.LinkChains(nil)
	}
	return err
}

// names returns a registry that resolves the names in chains: of the functions of the lock, and of those that are there now.
func (c *lockChecker) names() (*steps.Registry, error) {
	known := map[string]bool{}
	var functions []steps.Function
	add := func(name string) {
		if !known[name] {
			known[name] = true
			functions = append(functions, steps.Function{Spec: steps.Spec{Name: name}, Call: notCalled})
		}
	}
	for i := range c.lock.Functions {
		add(c.lock.Functions[i].Name)
	}
	for name := range c.now.Functions {
		add(name)
	}
	for i := range c.chains.functions {
		add(c.chains.functions[i].Name)
	}
	return steps.NewRegistry(functions, nil)
}

// lockedFunction returns a function as the lock and the settings describe it, or a saved chain; false: neither knows it.
func (c *lockChecker) lockedFunction(name string) (steps.Function, bool) {
	for i := range c.chains.functions {
		if fn := &c.chains.functions[i]; fn.Name == name {
			return *fn, true
		}
	}
	f := c.lock.Find(name)
	if f == nil {
		return steps.Function{}, false
	}
	fn, _ := c.settings.Apply(steps.Function{Call: notCalled, Spec: steps.Spec{Name: c.settings.Original(name), Effect: f.Effect,
		EffectDeclared: true, Input: f.Input, Output: f.Output}})
	fn.Name, fn.Effect = name, f.Effect
	return fn, true
}

func notCalled(context.Context, []byte) ([]byte, error) {
	return nil, fault.New(fault.Internal, "a check calls nothing")
}

// check fills in the verdict of one chain.
func (c *lockChecker) check(ctx context.Context, fn *steps.Function, v *ChainVerdict) {
	check := func(functions steps.Provider) *chain.Answer {
		lite := false
		return c.Engine.Run(ctx, fn.Saved.Text, &chain.Caller{Functions: functions, Override: chain.Override{Check: true, Lite: &lite}})
	}
	before, now := check(c.locked), check(c.Catalog)
	for _, name := range slices.Concat(fn.Saved.Names, fn.Saved.Undoes) {
		c.noteUnknown(name, v)
	}
	if before.Checked != nil {
		for i := range before.Checked.Uses {
			c.compare(&before.Checked.Uses[i], v)
		}
	}
	if len(v.Down) == 0 {
		v.Faults = now.Faults
	}
	if !now.OK && len(v.Faults) == 0 && len(v.Down) == 0 {
		v.Faults = []*fault.Error{now.Error}
	}
}

// noteUnknown notes the source of a function that is not there for this command, and may be there all the same: the source is down, or its
// callers bring what it needs.
func (c *lockChecker) noteUnknown(name string, v *ChainVerdict) {
	if _, err := c.Catalog.Registry().Resolve(name); err == nil {
		return
	}
	source := c.sourceOf(name)
	if (c.now.IsDown(name) || c.personal[source] || c.now.Functions[name] != nil) && !slices.Contains(v.Down, source) {
		v.Down = append(v.Down, source)
	}
}

// compare adds what changes of one function mean for a chain.
func (c *lockChecker) compare(use *chain.FunctionUse, v *ChainVerdict) {
	name := use.Function
	locked, now := c.lock.Find(name), c.now.Functions[name]
	switch {
	case now == nil && c.now.IsDown(name):
		c.noteUnknown(name, v)
		return
	case locked == nil:
		v.Unlocked = append(v.Unlocked, name)
		return
	}
	if _, known := c.changes[name]; !known {
		c.changes[name] = lock.Changes(locked, now)
	}
	breaks := lock.Breaks(c.changes[name], use)
	v.Breaks = append(v.Breaks, breaks...)
	for i := range c.changes[name] {
		change := &c.changes[name][i]
		if !slices.ContainsFunc(breaks, func(b lock.Break) bool { return b.Change == change }) {
			v.Harmless = append(v.Harmless, *change)
		}
	}
}
