// Package openapi makes functions of the operations of an OpenAPI document (3.0, 3.1, and Swagger 2.0). Each has a name,
// one flat schema for its parameters and its body, and a call that puts the arguments where the document says. An argument
// is data: it cannot change the host, the scheme, or the segments of the path.
package openapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/steps"
)

// Doer sends requests; an *http.Client is one. It is responsible for retries, redirects, rate limits and the rules of which hosts may be
// called. It decides by the method whether a request may be sent again; requests with a body have GetBody for that.
type Doer interface {
	Do(request *http.Request) (*http.Response, error)
}

// Options configure New.
type Options struct {
	Name string // the source's name, the first part of function names: letters, digits, "_" and "-"
	Spec string // path of a file, or an http(s) URL

	// BaseURL is the service's URL. "": each operation uses the first of its servers whose URL is absolute (http or https), or becomes
	// absolute relative to the URL in Spec. Credentials (Auth, and Headers unless known to be harmless) go only to the
	// origin of BaseURL, or if that is empty, of Spec; a client's secret goes to its token URL (see Credential). They never go to a host
	// that only the document names.
	BaseURL string

	// Headers are added to every call and override arguments. Their values are secrets and never shown.
	Headers map[string]string
	// Auth holds credentials by the names of the document's security schemes; the key "default" or "" means the only
	// scheme.
	Auth map[string]Credential

	// Carries are the names of further headers with credentials, which each call takes from Credential or, if that is nil, from its caller's
	// own (steps.CredentialOf). Either has the name of the source. The headers override arguments and go where Headers go.
	Carries    []string
	Credential *steps.Credential

	Include, Exclude []string // patterns of resource.action; Include nil: all operations, Exclude nil: none

	// Concurrency bounds the calls in flight. Further calls wait, and callers share the slots (admit.Server). 0: unlimited.
	Concurrency int

	// Reading is called before each local file is read: the document, and the files in and below its folder to which it refers, whether they
	// exist or not. path is Spec, or below its folder. May be nil. New calls it.
	Reading func(path string)

	Client       Doer          // required
	StartTimeout time.Duration // the time limit of one attempt to load a document from a URL; 0: 30 s
	MaxBodyBytes int64         // the maximum bytes of one response, decompressed; 0: 64 MiB; -1: unlimited

	// Warn receives at most two faults each time the document is loaded, both bad_request: one about operations that were left out,
	// and one about schemas that were changed. It receives a fault with another code if a document at a URL cannot be loaded again.
	// May be nil. One goroutine calls it at a time: New's for a file, else one of the source's.
	Warn func(*fault.Error)
	// WarnOfAll makes warnings name all operations concerned, not only the first.
	WarnOfAll bool
}

const (
	defaultStartTimeout = 30 * time.Second
	defaultMaxBodyBytes = steps.DefaultMaxResultBytes
	maxSpecBytes        = 128 << 20
)

// Source offers the operations of one document. It implements steps.Live.
type Source struct {
	options Options
	spec    *url.URL // nil: the document is a file
	base    *url.URL // the base URL from the options; nil: each operation has that of the document
	private bool     // Options.Headers may contain a credential
	secrets *secrets
	slots   *admit.Server   // bounds the calls in flight
	ended   context.Context // done after Close
	end     context.CancelFunc
	refresh chan struct{} // requests an immediate reload

	mu      sync.Mutex
	current buildResult
	status  steps.Status
	watch   watcher
}

// buildResult is the result of reading a document.
type buildResult struct {
	functions        []steps.Function
	version          string
	skipped, changed []string
}

var sourceName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// New creates the source. A file is loaded before New returns. A document at a URL is loaded in the background, with back-off on
// failure, and again every five minutes and at Refresh: a changed document replaces the functions, and after a failed reload they
// stay. Status reports the state. New fails with bad_request for unusable options, documents and credentials (At is the option if
// one is at fault), and with unavailable for a file that cannot be read. The caller closes the source.
func New(o *Options) (*Source, error) {
	s, err := prepare(o)
	if err != nil {
		return nil, err
	}
	if s.spec != nil {
		s.status.State = steps.StateStarting
		s.fetchInBackground()
		return s, nil
	}
	s.options.Reading(s.options.Spec)
	text, err := readSpec(s.options.Spec)
	if err == nil {
		s.current, err = s.build(text)
	}
	if err != nil {
		s.end()
		return nil, err
	}
	s.status = steps.Status{State: steps.StateReady, Version: s.current.version}
	return s, nil
}

// prepare creates the source without its document.
func prepare(o *Options) (*Source, error) {
	s := &Source{refresh: make(chan struct{}, 1)}
	if o != nil {
		s.options = *o
		s.options.Headers, s.options.Auth = maps.Clone(o.Headers), maps.Clone(o.Auth)
	}
	s.options.StartTimeout = cmp.Or(max(s.options.StartTimeout, 0), defaultStartTimeout)
	s.options.MaxBodyBytes = cmp.Or(s.options.MaxBodyBytes, defaultMaxBodyBytes)
	if s.options.Reading == nil {
		s.options.Reading = func(string) {}
	}
	if s.options.Warn == nil {
		s.options.Warn = func(*fault.Error) {}
	}
	if f := s.checkOptions(); f != nil {
		return nil, f
	}
	s.slots = admit.NewServer(s.options.Name, s.options.Concurrency)
	s.secrets = newSecrets(&s.options)
	s.ended, s.end = context.WithCancel(context.Background())
	return s, nil
}

func (s *Source) checkOptions() *fault.Error {
	o := &s.options
	bad := func(at, format string, args ...any) *fault.Error {
		f := fault.New(fault.BadRequest, format, args...)
		f.At = at
		return f
	}
	switch {
	case !sourceName.MatchString(o.Name):
		return bad("/name", "a source needs a name of letters, digits, _ and -")
	case o.Client == nil:
		return bad("", "%s: there is no client to call the service with", o.Name)
	case o.Concurrency < 0:
		return bad("/concurrency", "%s: concurrency must not be negative", o.Name)
	case o.Spec == "":
		return bad("/spec", "%s: name the OpenAPI document in spec, by a path or a URL", o.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		s.private = s.private || !egress.SafeHeader(name)
		if !httpguts.ValidHeaderFieldName(name) || connectionHeaders[http.CanonicalHeaderKey(name)] {
			return bad(fault.Key("/headers", name), "%s: a header with this name cannot be set", o.Name)
		}
		if !httpguts.ValidHeaderFieldValue(o.Headers[name]) {
			return bad(fault.Key("/headers", name), "%s: the value of this header holds line breaks or other control characters", o.Name)
		}
	}
	s.private = s.private || len(o.Carries) > 0
	if o.BaseURL != "" {
		var problem string
		if s.base, problem = serviceURL(o.BaseURL); problem != "" {
			return bad("/baseUrl", "%s: baseUrl %s", o.Name, problem)
		}
	}
	if scheme, _, isURL := strings.Cut(o.Spec, "://"); isURL && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")) {
		u, err := url.Parse(o.Spec)
		if err != nil || u.Host == "" {
			return bad("/spec", "%s: spec is not a whole URL: write https://host/path", o.Name)
		}
		s.spec = u
	}
	return nil
}

// serviceURL parses the URL of a service. problem says why it cannot be one, in words that follow the URL's name; "" if it
// can.
func serviceURL(text string) (u *url.URL, problem string) {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, "is not a whole http(s) URL: write https://host/path"
	case u.User != nil:
		return nil, "holds a user: give credentials in auth or headers"
	case strings.ContainsAny(text, "?#{}"):
		return nil, "holds a query, a fragment or a variable: leave it out"
	}
	return u, ""
}

// readSpec reads a document from a file.
func readSpec(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		message := fmt.Sprintf("the OpenAPI document %s cannot be read: there is no such file", path)
		if folder, absErr := filepath.Abs(filepath.Dir(path)); absErr == nil {
			message += " in the folder " + folder
		}
		return nil, &fault.Error{Code: fault.Unavailable, Err: err, At: "/spec", Message: message}
	case err != nil:
		return nil, &fault.Error{Code: fault.Unavailable, Err: err, At: "/spec",
			Message: fmt.Sprintf("the OpenAPI document %s cannot be read: look at its path", path)}
	case !info.Mode().IsRegular():
		return nil, &fault.Error{Code: fault.BadRequest, At: "/spec", Message: fmt.Sprintf("the OpenAPI document %s is not a file", path)}
	case info.Size() > maxSpecBytes:
		return nil, fileTooLarge(path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, &fault.Error{Code: fault.Unavailable, Err: err, At: "/spec",
			Message: fmt.Sprintf("the OpenAPI document %s cannot be read", path)}
	}
	return text, nil
}

func fileTooLarge(spec string) *fault.Error {
	f := fault.New(fault.LimitExceeded, "the OpenAPI document %s is longer than %d bytes: leave out the paths that are not needed", spec,
		maxSpecBytes)
	f.At = "/spec"
	return f
}

// external returns a function that reads the files to which the document refers, but none outside the document's folder. It returns nil for
// a document at a URL.
func (s *Source) external() func(ref string) ([]byte, error) {
	if s.spec != nil {
		return nil
	}
	folder := filepath.Dir(s.options.Spec)
	return func(ref string) ([]byte, error) {
		root, err := os.OpenRoot(folder)
		if err != nil {
			return nil, err
		}
		defer func() { _ = root.Close() }()
		name := filepath.FromSlash(ref)
		if filepath.IsLocal(name) {
			s.options.Reading(filepath.Join(folder, name))
		}
		info, err := root.Stat(name)
		if err == nil && (!info.Mode().IsRegular() || info.Size() > maxSpecBytes) {
			return nil, fileTooLarge(ref)
		}
		return root.ReadFile(name)
	}
}

// build loads a document and makes functions of it, as assemble does.
func (s *Source) build(text []byte) (buildResult, error) {
	headers := map[string]bool{}
	for name := range s.options.Headers {
		headers[http.CanonicalHeaderKey(name)] = true
	}
	for _, name := range s.options.Carries {
		headers[http.CanonicalHeaderKey(name)] = true
	}
	doc, err := load(text, &loadOptions{include: s.options.Include, exclude: s.options.Exclude, external: s.external(),
		source: s.options.Name, headers: headers})
	if err != nil {
		return buildResult{}, err
	}
	return s.assemble(doc)
}

// assemble makes functions of a document's operations and warns about those that it left out or changed.
func (s *Source) assemble(doc *document) (buildResult, error) {
	authenticators, f := s.authenticators(doc)
	if f != nil {
		return buildResult{}, f
	}
	result := buildResult{version: strings.TrimSpace(doc.title + " " + doc.version)}
	for _, skipped := range doc.skipped {
		result.skipped = append(result.skipped, skipped.label+": "+skipped.reason)
	}
	services := serviceFinder{source: s}
	for i := range doc.operations {
		op := &doc.operations[i]
		security := securityFor(op, doc, authenticators)
		base, reason := services.find(op, len(security.authenticators) > 0 || s.private)
		if reason != "" {
			result.skipped = append(result.skipped, op.label+": "+reason)
			continue
		}
		c, reason := newCall(s, op, base, security)
		if reason != "" {
			result.skipped = append(result.skipped, op.label+": "+reason)
			continue
		}
		result.functions = append(result.functions, c.function())
	}
	if f := services.fault(); f != nil {
		return buildResult{}, f
	}
	for _, warning := range doc.warnings {
		subject := s.options.Name
		if warning.function != "" {
			subject += "." + warning.function
		}
		result.changed = append(result.changed, subject+": "+warning.what)
	}
	s.warn("operations that are left out", result.skipped)
	s.warn("functions whose arguments or results are only partly checked against the document", result.changed)
	return result, nil
}

// warn sends one warning for all operations with the same problem. It names the first of them, with WarnOfAll all; it sends none if there
// are none.
func (s *Source) warn(what string, operations []string) {
	if len(operations) == 0 {
		return
	}
	list := operations[0]
	switch more := len(operations) - 1; {
	case s.options.WarnOfAll:
		list = strings.Join(operations, "; ")
	case more > 0:
		list += fmt.Sprintf("; and %d more, which --verbose names", more)
	}
	s.options.Warn(fault.New(fault.BadRequest, "%s: %s (%d): %s", s.options.Name, what, len(operations), list))
}

// Functions returns the functions of the document that was loaded last; none if no document has been loaded yet.
func (s *Source) Functions() []steps.Function {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.current.functions)
}

// Changed returns what was changed or left out in functions or in the document, so that their arguments or results are only partly checked,
// each as "SOURCE.FUNCTION: change", or "SOURCE: change" if it is about the whole document.
func (s *Source) Changed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.current.changed)
}
