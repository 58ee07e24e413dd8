package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/cache"
	"github.com/onecall-mcp/onecall/steps/source/exprs"
	"github.com/onecall-mcp/onecall/steps/source/files"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
	"github.com/onecall-mcp/onecall/steps/source/replay"
	"github.com/onecall-mcp/onecall/steps/source/results"
)

// sourceOpener opens the configured sources and adds them to the app's catalog.
type sourceOpener struct {
	*App
	config  *config.File
	before  *App // the app that this one replaces; nil: none
	client  *httpsource.Client
	servers []plannedServer
	faults  []*fault.Error
}

// openSources opens all sources except MCP servers, which startServers starts later if the configuration has no faults. The returned opener
// has all faults so far: those passed in and its own.
func (a *App) openSources(cfg *config.File, faults []*fault.Error, before *App) (*sourceOpener, error) {
	o := &sourceOpener{App: a, config: cfg, before: before, faults: faults}
	p := a.process
	settings, moreFaults := functionSettings(cfg)
	a.settings, o.faults = settings, append(o.faults, moreFaults...)
	a.ladder, moreFaults = p.newLadder(cfg)
	o.faults = append(o.faults, moreFaults...)
	a.scrubber = secret.New(cfg.Secrets)
	var scrubber steps.Scrubber // stays a nil interface if there are no secrets
	if a.scrubber != nil {
		scrubber = a.scrubber
	}
	o.openShapes()
	a.cache = cache.New(nil)
	a.process.caches.add(a.cache)
	a.closers = append(a.closers, closer(func() error { a.process.caches.remove(a.cache); return nil }))
	a.servers, a.sources, a.personal = map[string]*mcpsource.Source{}, map[string]*sharedSource{}, map[string]bool{}
	var err error
	a.Catalog, err = steps.NewCatalog(&steps.CatalogOptions{
		Registry: steps.RegistryOptions{
			MaxResultBytes: int64(config.Or(cfg.Limits.MaxResultBytes, 0)),
			MaxDescription: int(config.Or(cfg.Limits.MaxDescription, 0)), Warn: a.warn,
		},
		Settings:     settings,
		Scrubber:     scrubber,
		Wrap:         a.wrap,
		Credentials:  o.openCredentials(),
		Unbound:      !p.serve,
		Closed:       func(name string) (*steps.Spec, string) { return closedFunction(cfg, name) },
		BrokenChains: a.setBrokenChains,
		Admit:        o.openToolLock(),
	})
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, a.Catalog)
	if a.credentials != nil {
		a.credentials.Changed = a.Catalog.CredentialsChanged
	}
	o.client = a.process.client
	o.openEmbedded()
	if !p.NoSources {
		o.openServices(p.Replay == "" && len(o.faults) == 0)
	}
	if !p.NoSources && p.Replay == "" {
		o.planServers()
	}
	if !p.NoSources {
		o.openChains()
	}
	return o, nil
}

// closer is a function that implements io.Closer.
type closer func() error

func (c closer) Close() error { return c() }

// add adds a source to the catalog, unless err, the error of opening it, is not nil. It adds that error, or the catalog's, to o.faults, as
// faults of the setting at pointer.
func (o *sourceOpener) add(name, pointer string, source steps.Source, err error) {
	if err == nil {
		err = o.Catalog.Add(name, source)
	}
	if err == nil {
		return
	}
	list := []error{err}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		list = joined.Unwrap()
	}
	for _, err := range list {
		o.faults = append(o.faults, steps.ScrubFault(o.scrubber, o.config.FaultAt(pointer, err)))
	}
}

// openEmbedded opens the sources that are part of onecall: fs, http, sh, state, expr, text and result.
func (o *sourceOpener) openEmbedded() {
	var names []string
	if o.offersFiles() {
		fileSource, err := files.New(o.fileOptions())
		o.add("fs", "/fs", fileSource, err)
		if err == nil {
			names = append(names, namesOf(fileSource)...)
		}
	}
	httpSource, err := httpsource.New(&httpsource.Options{Allow: o.config.HTTP.Allow, Endpoints: o.endpoints(), Client: o.client,
		MaxBodyBytes: int64(config.Or(o.config.Limits.MaxResultBytes, steps.DefaultMaxResultBytes))})
	o.add("http", "/http", httpSource, err)
	if err == nil {
		names = append(names, namesOf(httpSource)...)
	}
	expressions := exprs.New()
	names = append(append(names, o.openCommands()...), o.openState()...)
	kept := results.New()
	names = append(names, namesOf(kept)...)
	o.faults = append(o.faults, renameConflicts(o.config, append(names, namesOf(expressions)...))...)
	o.add("expr", "", sourceSubset{expressions, "expr."}, nil)
	o.add("text", "", sourceSubset{expressions, "text."}, nil)
	o.add("result", "", kept, nil)
}

// fileOptions are the options of the file functions. They do not change the configuration, its saved chains and its lock, which
// say what is allowed.
func (o *sourceOpener) fileOptions() *files.Options {
	options := &files.Options{Root: config.Or(o.config.FS.Root, ""), Write: o.config.FS.Write,
		MaxKeptBytes: int64(config.Or(o.config.Limits.MaxResultBytes, 0))}
	if path := o.config.Path; path != "" {
		options.Guard = []string{path, ChainsFolder(path), LockFile(path)}
	}
	return options
}

// offersFiles reports whether to offer functions that read files, and logs why not.
func (o *sourceOpener) offersFiles() bool {
	reason := o.lacksRoot()
	if reason == "" {
		return true
	}
	reason = "fs.* is left out because " + reason
	if log := o.process.log; log != nil && o.process.shouldWarn(o.generation, reason) {
		log.Info(reason)
	}
	return false
}

// lacksRoot returns why the working directory cannot stand for a missing fs.root; "": it can, or fs.root is given. HTTP callers with tokens
// must not read the working directory, which may hold the configuration and secrets. A server that a desktop client started in the root
// folder must not offer the whole disk.
func (o *sourceOpener) lacksRoot() string {
	if !o.process.serve || o.config.FS.Root != nil {
		return ""
	}
	dir, err := os.Getwd()
	switch {
	case o.process.overHTTP && o.config.Access.ByToken():
		return "callers with tokens may read files only below fs.root: set fs.root"
	case err != nil || filepath.Dir(dir) == dir:
		return "onecall was started in the root folder: set fs.root"
	}
	return ""
}

func namesOf(source steps.Source) []string {
	var names []string
	for _, fn := range source.Functions() {
		names = append(names, fn.Name)
	}
	return names
}

func (o *sourceOpener) endpoints() []httpsource.Endpoint {
	var list []httpsource.Endpoint
	for _, entry := range o.config.HTTP.Endpoints {
		c := entry.Config
		list = append(list, httpsource.Endpoint{
			Name: entry.Name, Method: config.Or(c.Method, ""), URL: config.Or(c.URL, ""), Headers: c.Headers, Query: c.Query, Body: c.Body,
			Input: c.Input, Output: c.Output, Description: config.Or(c.Description, ""), Effect: config.Or(c.Effect, ""),
			Idempotent: config.Or(c.Idempotent, false), Result: config.Or(c.Result, ""), TimeoutMs: config.Or(c.TimeoutMs, 0),
			Carries:    c.Auth.Carries(),
			Credential: o.gatewayCredential("http."+entry.Name, fault.Key("/http/endpoints", entry.Name), c.Auth),
		})
	}
	return list
}

// sourceSubset is an exprs.Source restricted to the functions whose names begin with a prefix.
type sourceSubset struct {
	*exprs.Source
	prefix string
}

// Functions implements steps.Source.
func (s sourceSubset) Functions() []steps.Function {
	var list []steps.Function
	for _, fn := range s.Source.Functions() {
		if strings.HasPrefix(fn.Name, s.prefix) {
			list = append(list, fn)
		}
	}
	return list
}

// failedForUnsetVariable returns a failed source if the entry at pointer names an unset environment variable, or else nil.
func (o *sourceOpener) failedForUnsetVariable(pointer string) steps.Source {
	f := o.config.Unset[pointer]
	if f == nil {
		return nil
	}
	f = o.config.FaultAt("", f) // adds the line
	return absentSource{steps.Status{State: steps.StateFailed, Error: fault.New(f.Code, "%s:%d: %s", o.config.Path, f.Line, f.Message)}}
}

// absentSource is a source without functions, such as a failed or disabled one. Its status never changes.
type absentSource struct{ status steps.Status }

func (absentSource) Functions() []steps.Function { return nil }
func (absentSource) Close() error                { return nil }
func (absentSource) Watch(func())                {}
func (a absentSource) Status() steps.Status      { return a.status }

// locatedMessage returns a fault's message, preceded by its line and column if they are known.
func locatedMessage(f *fault.Error) string {
	if f.Line == 0 {
		return f.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, f.Message)
}

// warnRedacted shows a warning with its secrets removed.
func (p *process) warnRedacted(f *fault.Error) { p.Reporter.Warn(p.Redactor.redacted(f)) }

// warnDocument shows a warning about an OpenAPI document. Warnings about operations that were left out or are only partly checked, which
// have the code bad_request, are shown only by commands that list functions, or with Verbose.
func (p *process) warnDocument(f *fault.Error) {
	if p.List || p.Verbose || f.Code != fault.BadRequest {
		p.warnRedacted(f)
	}
}

// wrap returns the functions as chains call them: with telemetry, learning of result shapes, call cache or replay, ladder, and recording.
func (a *App) wrap(r *steps.Registry) (*steps.Registry, error) {
	if a.process.telemetry != nil {
		r = a.process.telemetry.Wrap(r)
	}
	r = a.learnShapes(r)
	if a.cassette != nil {
		a.cassette.Configure, a.cassette.Secrets = a.withSettings, a.config.Secrets
		replayed, err := a.cassette.Registry(r)
		if err != nil {
			return nil, err
		}
		r = a.ladder.Wrap(replayed)
	} else {
		r = a.ladder.Wrap(a.process.caches.wrap(a.cache, r))
	}
	if a.toolLock != nil && a.toolLock.enforce {
		r = r.Wrap(a.toolLock.guard)
	}
	if a.process.recording != nil {
		observe := a.recorder().Observe
		r = r.Observe(func(ctx context.Context, spec *steps.Spec, args, result []byte, err error) {
			if spec.Credential == "" { // else it is one caller's, and a recording is nobody's
				observe(ctx, spec, args, result, err)
			}
		})
	}
	if a.process.Observe != nil {
		r = r.Observe(a.process.Observe)
	}
	return r, nil
}

// recorder returns the recorder of this app's calls, which hides the configuration's secrets.
func (a *App) recorder() *replay.Recorder {
	return a.process.recording.recorder.WithSecrets(a.config.Secrets).WithSettings(a.recordedSettings())
}

// recordPlanned returns a function that records the functions of a plan, so that a replay needs no sources; nil if nothing is recorded.
func (a *App) recordPlanned() func([]*steps.Entry) {
	if a.process.recording == nil {
		return nil
	}
	recorder := a.recorder()
	return func(planned []*steps.Entry) {
		shared := slices.DeleteFunc(planned, func(e *steps.Entry) bool { return e.Spec().Credential != "" })
		recorder.Functions(append(shared, a.rungEntries()...))
	}
}
