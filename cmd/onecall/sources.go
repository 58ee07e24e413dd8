package main

import (
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/exprs"
	"github.com/onecall-mcp/onecall/steps/files"
	"github.com/onecall-mcp/onecall/steps/httpcall"
)

// sources opens the sources that the configuration names and gathers them in the catalogue. Those that start programs or
// connections are opened only where the configuration is sound so far.
func (a *app) sources(c *cli, config *configFile, sound bool) ([]*fault.Error, error) {
	var faults []*fault.Error
	var err error
	a.catalog, err = steps.NewCatalog(&steps.CatalogOptions{
		Registry: steps.RegistryOptions{MaxResultBytes: int64(valueOr(config.Limits.MaxResultBytes, 0)), Warn: c.warn},
		Settings: a.settings,
		Wrap:     a.wrap,
	})
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, a.catalog)
	add := func(name, pointer string, source steps.Source, err error) {
		if err == nil {
			err = a.catalog.Add(name, source)
		}
		if err != nil {
			faults = append(faults, config.under(pointer, err))
		}
	}
	fileSource, err := files.New(&files.Options{Root: valueOr(config.FS.Root, "")})
	add("fs", "/fs/root", fileSource, err)
	httpSource, err := httpcall.New(&httpcall.Options{Allow: config.HTTP.Allow, UserAgent: "onecall/" + version()})
	add("http", "/http", httpSource, err)
	expressions := exprs.New()
	add("expr", "", part{expressions, "expr."}, nil)
	add("text", "", part{expressions, "text."}, nil)
	_ = sound
	return faults, nil
}

// part is those functions of a source whose names begin with a prefix.
type part struct {
	steps.Source
	prefix string
}

// Functions implements steps.Source.
func (p part) Functions() []steps.Function {
	var list []steps.Function
	for _, fn := range p.Source.Functions() {
		if strings.HasPrefix(fn.Name, p.prefix) {
			list = append(list, fn)
		}
	}
	return list
}

// wrap makes of the functions those that chains call: recorded, or answered from a recording.
func (a *app) wrap(r *steps.Registry) (*steps.Registry, error) {
	switch {
	case a.recording != nil:
		return r.Observe(a.recording.recorder.Observe), nil
	case a.cassette != nil:
		return a.cassette.Registry(r)
	}
	return r, nil
}

// unusedSettings tells of settings that fit no function, once all sources have started.
func (a *app) unusedSettings() []*fault.Error {
	var names []string
	for _, info := range a.catalog.Sources() {
		if info.State == steps.StateStarting || info.State == steps.StateRetrying {
			return nil // what it offers is not known
		}
	}
	for _, entry := range a.catalog.Registry().All() {
		names = append(names, entry.Spec().Name)
	}
	return a.settings.Unused(names)
}
