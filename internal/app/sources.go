package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/cache"
	"github.com/onecall-mcp/onecall/steps/source/exprs"
	"github.com/onecall-mcp/onecall/steps/source/files"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
	"github.com/onecall-mcp/onecall/steps/source/openapi"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// opener opens the sources that a configuration names, and adds them to the app's catalogue.
type opener struct {
	*App
	config  *config.File
	before  *App // that the app replaces; nil: none
	client  *httpsource.Client
	servers []plannedServer
	faults  []*fault.Error
}

// openSources opens the sources but for MCP servers: programs are started only if nothing is wrong.
func (a *App) openSources(cfg *config.File, faults []*fault.Error, before *App) (*opener, error) {
	o := &opener{App: a, config: cfg, before: before, faults: faults}
	p := a.process
	settings, more := functionSettings(cfg)
	a.settings, o.faults = settings, append(o.faults, more...)
	a.ladder, more = p.newLadder(cfg)
	o.faults = append(o.faults, more...)
	a.scrubber = secret.New(cfg.Secrets)
	var scrubber steps.Scrubber // nil, not a nil of its type, if there are no secrets
	if a.scrubber != nil {
		scrubber = a.scrubber
	}
	o.openShapes()
	a.cache = cache.New(nil)
	a.process.caches.add(a.cache)
	a.closers = append(a.closers, closer(func() error { a.process.caches.remove(a.cache); return nil }))
	a.servers, a.sources = map[string]*mcpsource.Source{}, map[string]*sharedSource{}
	var err error
	a.Catalog, err = steps.NewCatalog(&steps.CatalogOptions{
		Registry: steps.RegistryOptions{MaxResultBytes: int64(config.Or(cfg.Limits.MaxResultBytes, 0)), Warn: a.warn},
		Settings: settings,
		Scrubber: scrubber,
		Wrap:     a.wrap,
		Broken:   a.unlink,
	})
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, a.Catalog)
	o.client = a.process.client
	o.embedded()
	if !p.NoSources {
		o.services(p.Replay == "" && len(o.faults) == 0)
	}
	if !p.NoSources && p.Replay == "" {
		o.planServers()
	}
	if !p.NoSources {
		o.openChains()
	}
	return o, nil
}

// closer is what is done when the app is closed.
type closer func() error

// Close implements io.Closer.
func (c closer) Close() error { return c() }

// add adds a source, or what is wrong with it, which concerns a place in the configuration.
func (o *opener) add(name, pointer string, source steps.Source, err error) {
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
		f := steps.ScrubFault(o.scrubber, o.config.Under(pointer, err))
		if f.Source != "" && !bytes.Contains(o.config.Text, []byte(f.Source)) {
			f.Source, f.Offset = "", 0 // its variables are filled in: it is never shown
		}
		o.faults = append(o.faults, f)
	}
}

// embedded opens the sources that need no configuration.
func (o *opener) embedded() {
	var names []string
	if o.offersFiles() {
		fileSource, err := files.New(&files.Options{Root: config.Or(o.config.FS.Root, "")})
		o.add("fs", "/fs/root", fileSource, err)
		if err == nil {
			names = append(names, namesOf(fileSource)...)
		}
	}
	httpSource, err := httpsource.New(&httpsource.Options{Allow: o.config.HTTP.Allow, Endpoints: o.endpoints(), Client: o.client})
	o.add("http", "/http", httpSource, err)
	if err == nil {
		names = append(names, namesOf(httpSource)...)
	}
	expressions := exprs.New()
	o.faults = append(o.faults, sameNames(o.config, append(names, namesOf(expressions)...))...)
	o.add("expr", "", part{expressions, "expr."}, nil)
	o.add("text", "", part{expressions, "text."}, nil)
}

// offersFiles reports whether there are functions that read files. Callers who are not this machine's user get none of the
// folder that onecall happens to be started in, where its own configuration and secrets may be.
// Nor does anybody get the whole disk because a client from a desktop starts its servers in the root folder.
func (o *opener) offersFiles() bool {
	if !o.process.serve || o.config.FS.Root != nil {
		return true
	}
	why := ""
	here, err := os.Getwd()
	switch {
	case o.process.anySurface && o.config.Access.ByToken():
		why = "fs.* is left out: callers with tokens read files only where fs.root names the folder"
	case err != nil || filepath.Dir(here) == here:
		why = "fs.* is left out, as onecall was started in the root folder: fs.root names another"
	default:
		return true
	}
	if log := o.process.log; log != nil && o.process.firstWarning(o.generation, why) {
		log.Info(why)
	}
	return false
}

func namesOf(source steps.Source) []string {
	var names []string
	for _, fn := range source.Functions() {
		names = append(names, fn.Name)
	}
	return names
}

func (o *opener) endpoints() []httpsource.Endpoint {
	var list []httpsource.Endpoint
	for _, named := range o.config.HTTP.Endpoints {
		c := named.Config
		list = append(list, httpsource.Endpoint{
			Name: named.Name, Method: config.Or(c.Method, ""), URL: config.Or(c.URL, ""), Headers: c.Headers, Query: c.Query, Body: c.Body,
			Input: c.Input, Output: c.Output, Description: config.Or(c.Description, ""), Effect: config.Or(c.Effect, ""),
			Idempotent: config.Or(c.Idempotent, false), Result: config.Or(c.Result, ""), TimeoutMs: config.Or(c.TimeoutMs, 0),
		})
	}
	return list
}

// part is those functions of a source whose names begin with a prefix.
type part struct {
	*exprs.Source
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

// services opens the OpenAPI documents; remote says whether to load those at a URL too. A document in files is another one when
// they have changed.
func (o *opener) services(remote bool) {
	for i := range o.config.OpenAPI {
		entry := &o.config.OpenAPI[i]
		pointer := fault.Key("/openapi", entry.Name)
		if down := o.unset(pointer); down != nil {
			o.add(entry.Source(), pointer, down, nil)
			continue
		}
		isRemote := strings.Contains(config.Or(entry.Config.Spec, ""), "://")
		if isRemote && !remote || o.faulty(pointer) {
			continue
		}
		key := "document " + entry.Source() + " " + fingerprint(&entry.Config, o.files.content(pointer+"/spec"))
		source, err := o.acquireSource(entry.Source(), key, func() (steps.Live, error) { return o.service(entry.Source(), &entry.Config, isRemote) })
		switch {
		case err == nil:
			if isRemote {
				o.App.services = append(o.App.services, source.Live.(*service).Source) //nolint:forcetypeassert // its key is a document's
			}
			o.add(entry.Source(), pointer, source, nil)
		case isDocument(err):
			o.unusable(entry, err)
		default:
			o.add(entry.Source(), pointer, nil, err)
		}
	}
}

// service is an OpenAPI service with the client that is its own.
type service struct {
	*openapi.Source
	client io.Closer
}

// Close implements steps.Source.
func (s *service) Close() error { return errors.Join(s.Source.Close(), s.client.Close()) }

// service opens the document of a service, which may be on any public host that its document names; hosts that the
// configuration names may be private.
func (o *opener) service(name string, c *config.OpenAPI, isRemote bool) (*service, error) {
	spec := config.Or(c.Spec, "")
	var named []string
	if isRemote {
		named = append(named, spec)
	}
	if c.BaseURL != nil {
		named = append(named, *c.BaseURL)
	}
	for _, credential := range c.Auth {
		if url := credential.Config.TokenURL; url != nil {
			named = append(named, *url)
		}
	}
	rules, err := egress.Open().Naming(named...)
	if err != nil {
		return nil, err
	}
	client := o.client.With(rules)
	source, err := openapi.New(&openapi.Options{
		Name: name, Spec: spec, BaseURL: config.Or(c.BaseURL, ""), Headers: c.Headers, Auth: credentials(c.Auth),
		Include: c.Include, Exclude: c.Exclude, Concurrency: config.Or(c.Concurrency, 0), Client: client, Warn: o.process.noteDocument,
	})
	if err != nil {
		client.Close()
		return nil, err
	}
	return &service{source, client}, nil
}

// isDocument reports whether it is the document itself that cannot be used.
func isDocument(err error) bool {
	f, ok := fault.As(err)
	return ok && (f.At == "" || f.At == "/spec")
}

// unusable takes note of a document that cannot be used: that holds up nobody who does not need it. A configuration that takes
// the place of another is held up: what is served now is better.
func (o *opener) unusable(entry *config.Named[config.OpenAPI], err error) {
	pointer := fault.Key("/openapi", entry.Name)
	f, _ := fault.As(err)
	text, document := located(f), "the OpenAPI document "+config.Or(entry.Config.Spec, "")
	if !strings.HasPrefix(text, document) {
		text = document + ": " + text
	}
	f = fault.New(f.Code, "%s", text)
	if o.before != nil && !o.before.unusableDocuments[entry.Source()] {
		o.add(entry.Source(), pointer, nil, f)
		return
	}
	o.unusableDocuments[entry.Source()] = true
	if !o.process.List && o.before == nil { // who lists the functions sees it there
		o.process.warnRedacted(f)
	}
	o.add(entry.Source(), pointer, absent{steps.Status{State: steps.StateFailed, Error: steps.ScrubFault(o.scrubber, f)}}, nil)
}

// faulty reports whether something is wrong with an entry already.
func (o *opener) faulty(pointer string) bool {
	return slices.ContainsFunc(o.faults, func(f *fault.Error) bool { return f.At == pointer || strings.HasPrefix(f.At, pointer+"/") })
}

func credentials(list config.Table[config.Credential]) map[string]openapi.Credential {
	credentials := map[string]openapi.Credential{}
	for _, named := range list {
		c := named.Config
		credentials[named.Name] = openapi.Credential{
			Value: config.Or(c.Value, ""), Username: config.Or(c.Username, ""), Password: config.Or(c.Password, ""),
			ClientID: config.Or(c.ClientID, ""), ClientSecret: config.Or(c.ClientSecret, ""), TokenURL: config.Or(c.TokenURL, ""), Scopes: c.Scopes,
		}
	}
	return credentials
}

// unset is the source of an entry that a variable of the environment is missing for; nil: none is.
func (o *opener) unset(pointer string) steps.Source {
	f := o.config.Unset[pointer]
	if f == nil {
		return nil
	}
	f = o.config.Under("", f) // with its line
	return absent{steps.Status{State: steps.StateFailed, Error: fault.New(f.Code, "%s:%d: %s", o.config.Path, f.Line, f.Message)}}
}

// absent is a source that offers nothing, now or later.
type absent struct{ status steps.Status }

func (absent) Functions() []steps.Function { return nil }
func (absent) Close() error                { return nil }
func (absent) Watch(func())                {}
func (a absent) Status() steps.Status      { return a.status }

// located is a fault's message with its place in its file.
func located(f *fault.Error) string {
	if f.Line == 0 {
		return f.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, f.Message)
}

// warnRedacted shows a warning without secrets.
func (p *process) warnRedacted(f *fault.Error) { p.Reporter.Warn(p.Redactor.redacted(f)) }

// noteDocument shows what a document lacks: who lists the functions wants to know it, who calls one does not. That it can no
// longer be fetched concerns both.
func (p *process) noteDocument(f *fault.Error) {
	if p.List || p.Verbose || f.Code != fault.BadRequest {
		p.warnRedacted(f)
	}
}

// wrap makes of the functions those that chains call: answered from the call cache, recorded, or answered from a
// recording, and all that kept to the ladder.
func (a *App) wrap(r *steps.Registry) (*steps.Registry, error) {
	if a.process.telemetry != nil {
		r = a.process.telemetry.Wrap(r)
	}
	r = a.learn(r)
	if a.cassette != nil {
		a.cassette.Unknown, a.cassette.Secrets = a.recorded, a.config.Secrets
		replayed, err := a.cassette.Registry(r)
		if err != nil {
			return nil, err
		}
		r = a.ladder.Wrap(replayed)
	} else {
		r = a.ladder.Wrap(a.process.caches.wrap(a.cache, r))
	}
	if a.process.recording != nil {
		r = r.Observe(a.recorder().Observe)
	}
	if a.process.Observe != nil {
		r = r.Observe(a.process.Observe)
	}
	return r, nil
}

// recorder records what the configuration's functions are called with and answer, without its secrets.
func (a *App) recorder() *replay.Recorder {
	return a.process.recording.recorder.Hiding(a.config.Secrets)
}

// planned records the functions of a plan, so that a replay needs no source; nil where nothing is recorded.
func (a *App) planned() func([]*steps.Entry) {
	if a.process.recording == nil {
		return nil
	}
	return a.recorder().Functions
}
