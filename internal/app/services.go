package app

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/openapi"
)

// openServices opens the services of the OpenAPI documents in files and, if remote is set, of those at a URL. At a reload, a document is
// opened again only if its settings or the content of its files have changed.
func (o *sourceOpener) openServices(remote bool) {
	for i := range o.config.OpenAPI {
		entry := &o.config.OpenAPI[i]
		pointer := fault.Key("/openapi", entry.Name)
		if failed := o.failedForUnsetVariable(pointer); failed != nil {
			o.add(entry.Source(), pointer, failed, nil)
			continue
		}
		isRemote := strings.Contains(config.Or(entry.Config.Spec, ""), "://")
		if isRemote && !remote || o.hasFault(pointer) {
			continue
		}
		key := "document " + entry.Source() + " " + fingerprint(&entry.Config)
		var read fileState
		source, err := o.acquireSource(entry.Source(), key, func() (steps.Live, error) {
			read = nil
			return o.openService(entry.Source(), pointer, &entry.Config, isRemote, &read)
		})
		switch {
		case err == nil:
			opened := source.Live.(*service) //nolint:forcetypeassert // its key is only for services
			read = opened.read
			if isRemote {
				o.App.services = append(o.App.services, opened.Source)
			}
			o.add(entry.Source(), pointer, source, nil)
		case isDocumentError(err):
			o.addUnusable(entry, err)
		default:
			o.add(entry.Source(), pointer, nil, err)
		}
		o.files = append(o.files, read...)
	}
}

// service is an OpenAPI source along with the HTTP client that it owns.
type service struct {
	*openapi.Source
	client io.Closer
	read   fileState // the files of the document before they were read; only when serving
}

// outdated implements outdatedSource.
func (s *service) outdated() bool { return !s.read.sameContent(s.read.reread()) }

// Close implements steps.Source.
func (s *service) Close() error { return errors.Join(s.Source.Close(), s.client.Close()) }

// openService opens an OpenAPI document. Its service may be on any public host, or on a private host that the configuration names.
// When serving, it adds the state of the document's files to read, after an error too.
func (o *sourceOpener) openService(name, pointer string, c *config.OpenAPI, isRemote bool, read *fileState) (*service, error) {
	spec := config.Or(c.Spec, "")
	var hosts []string
	if isRemote {
		hosts = append(hosts, spec)
	}
	if c.BaseURL != nil {
		hosts = append(hosts, *c.BaseURL)
	}
	for _, credential := range c.Auth {
		if url := credential.Config.TokenURL; url != nil {
			hosts = append(hosts, *url)
		}
	}
	rules, err := egress.AnyPublic().WithURLs(hosts...)
	if err != nil {
		return nil, err
	}
	var reading func(path string)
	if o.process.serve {
		reading = func(path string) { read.add("", path) }
	}
	client := o.client.With(rules)
	source, err := openapi.New(&openapi.Options{
		Name: name, Spec: spec, BaseURL: config.Or(c.BaseURL, ""), Headers: c.Headers, Auth: credentials(c.Auth), Carries: c.Own.Carries(),
		Credential: o.gatewayCredential(name, pointer, c.Own),
		Include:    c.Include, Exclude: c.Exclude, Concurrency: config.Or(c.Concurrency, 0), Client: client, Warn: o.process.warnDocument,
		WarnOfAll: o.process.Verbose, Reading: reading,
	})
	if err != nil {
		client.Close()
		return nil, err
	}
	return &service{source, client, *read}, nil
}

// isDocumentError reports whether an error of openService is about the document itself, not about another setting of its entry.
func isDocumentError(err error) bool {
	f, ok := fault.As(err)
	return ok && (f.At == "" || f.At == "/spec")
}

// addUnusable adds a failed source for a service with an unusable document, so that everything else works. At a reload it adds a fault
// instead, unless the document was unusable before the reload, too.
func (o *sourceOpener) addUnusable(entry *config.TableEntry[config.OpenAPI], err error) {
	pointer := fault.Key("/openapi", entry.Name)
	f, _ := fault.As(err)
	text, document := locatedMessage(f), "the OpenAPI document "+config.Or(entry.Config.Spec, "")
	if !strings.HasPrefix(text, document) {
		text = document + ": " + text
	}
	f = fault.New(f.Code, "%s", text)
	if o.before != nil && !o.before.unusableDocuments[entry.Source()] {
		o.add(entry.Source(), pointer, nil, f)
		return
	}
	o.unusableDocuments[entry.Source()] = true
	if !o.process.List && o.before == nil { // List shows the state of each source
		o.process.warnRedacted(f)
	}
	o.add(entry.Source(), pointer, absentSource{steps.Status{State: steps.StateFailed, Error: steps.ScrubFault(o.scrubber, f)}}, nil)
}

// hasFault reports whether the entry at pointer already has a fault.
func (o *sourceOpener) hasFault(pointer string) bool {
	return slices.ContainsFunc(o.faults, func(f *fault.Error) bool { return f.At == pointer || strings.HasPrefix(f.At, pointer+"/") })
}

func credentials(list config.Table[config.Credential]) map[string]openapi.Credential {
	credentials := map[string]openapi.Credential{}
	for _, entry := range list {
		c := entry.Config
		credentials[entry.Name] = openapi.Credential{
			Value: config.Or(c.Value, ""), Username: config.Or(c.Username, ""), Password: config.Or(c.Password, ""),
			ClientID: config.Or(c.ClientID, ""), ClientSecret: config.Or(c.ClientSecret, ""), TokenURL: config.Or(c.TokenURL, ""), Scopes: c.Scopes,
		}
	}
	return credentials
}
