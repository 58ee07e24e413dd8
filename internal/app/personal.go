package app

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/credential"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// maxPersonal bounds the open connections of a personal server; sweepEvery is how often those are closed that no caller needs.
const (
	maxPersonal = 100
	sweepEvery  = time.Minute
)

// personalServer is an MCP server that is called as each caller: a source of its own for each credential. It implements steps.Personal.
type personalServer struct {
	options     mcpsource.Options
	credentials steps.Credentials
	failed      func(why *fault.Error) // called when a source becomes unavailable; must return soon

	mu      sync.Mutex
	open    map[string]*personalSource // by the digest of the credential
	changes uint64
	watcher func()
	sweeper *time.Timer // nil: nothing is open
	closed  bool
}

// personalSource is the source of one credential.
type personalSource struct {
	*mcpsource.Source
	server  *personalServer
	changes uint64    // guarded by personalServer.mu, as the others
	lost    bool      // it is unavailable
	calls   int       // running
	used    time.Time // when the source was opened, or its last call ended
}

var _ steps.Personal = (*personalServer)(nil)

// newPersonalServer returns a server without connections. It fails as mcpsource.New does.
func (o *sourceOpener) newPersonalServer(options *mcpsource.Options) (*personalServer, error) {
	if err := mcpsource.Check(options); err != nil {
		return nil, err
	}
	log, name := o.process.log, options.Name
	failed := func(why *fault.Error) {
		if log != nil {
			log.Warn("a source is unavailable to a caller", "source", name, "error", why)
		}
	}
	return &personalServer{options: *options, credentials: o.credentials, failed: failed, open: map[string]*personalSource{}}, nil
}

// Functions implements steps.Source: without a credential there are none.
func (p *personalServer) Functions() []steps.Function { return nil }

// Status implements steps.Live. A catalog adds what a caller can do.
func (p *personalServer) Status() steps.Status { return steps.Status{State: steps.StateLocked} }

// Watch implements steps.Live.
func (p *personalServer) Watch(changed func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watcher = changed
}

// As implements steps.Personal.
func (p *personalServer) As(c *steps.Credential) steps.PersonalView {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.open[c.Digest]; known != nil {
		return known
	}
	source, err := p.connect(c)
	if err != nil {
		f, _ := fault.As(err)
		return unusableView{f}
	}
	p.open[c.Digest] = source
	if p.sweeper == nil {
		p.sweeper = time.AfterFunc(sweepEvery, p.sweep)
	}
	return source
}

// connect opens the source of a credential. The caller holds p.mu.
func (p *personalServer) connect(c *steps.Credential) (*personalSource, error) {
	if p.closed {
		return nil, fault.New(fault.Unavailable, "MCP server %q: the source is closed", p.options.Name)
	}
	if len(p.open) >= maxPersonal && !p.makeRoom() {
		return nil, fault.New(fault.Busy, "MCP server %q has %d callers, which is the limit, and all of them have calls: try again later",
			p.options.Name, maxPersonal)
	}
	options, err := p.optionsFor(c)
	if err != nil {
		return nil, err
	}
	source, err := mcpsource.New(options)
	if err != nil {
		return nil, err
	}
	p.changes++
	own := &personalSource{Source: source, server: p, changes: p.changes, used: time.Now()}
	source.Watch(own.changed)
	return own, nil
}

// optionsFor returns the options of the source of a credential.
func (p *personalServer) optionsFor(c *steps.Credential) (*mcpsource.Options, error) {
	options := p.options
	if c.Refused != nil { // its headers may change
		options.OAuth = credential.Handler(c)
		return &options, nil
	}
	headers, err := c.Headers(context.Background())
	if err != nil {
		return nil, err
	}
	options.Headers = maps.Clone(options.Headers)
	if options.Headers == nil {
		options.Headers = map[string]string{}
	}
	for name, value := range headers {
		options.Headers[name] = value
		if secret.Name(name) {
			options.Secrets = append(slices.Clip(options.Secrets), secret.UnusualComponents(value)...)
		}
	}
	return &options, nil
}

// makeRoom closes the source that was idle for the longest time; false: none is idle. The caller holds p.mu.
func (p *personalServer) makeRoom() bool {
	var idlest string
	for digest, own := range p.open {
		if own.calls == 0 && (idlest == "" || own.used.Before(p.open[idlest].used)) {
			idlest = digest
		}
	}
	if idlest == "" {
		return false
	}
	p.drop(idlest)
	return true
}

// drop closes a source without waiting for it. The caller holds p.mu.
func (p *personalServer) drop(digest string) {
	own := p.open[digest]
	delete(p.open, digest)
	go func() { _ = own.Source.Close() }()
}

// sweep closes the sources of credentials that no caller has brought for a while.
func (p *personalServer) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for digest, own := range p.open {
		if own.calls == 0 && p.credentials.Find(p.options.Name, digest) == nil {
			p.drop(digest)
		}
	}
	if p.sweeper = nil; len(p.open) > 0 && !p.closed {
		p.sweeper = time.AfterFunc(sweepEvery, p.sweep)
	}
}

// Close implements steps.Source.
func (p *personalServer) Close() error {
	p.mu.Lock()
	open := slices.Collect(maps.Values(p.open))
	p.closed = true
	clear(p.open)
	p.mu.Unlock()
	errs := make([]error, len(open))
	var closing sync.WaitGroup
	for i, own := range open {
		closing.Go(func() { errs[i] = own.Source.Close() })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// changed records a change of the source and tells the watcher.
func (s *personalSource) changed() {
	p, status := s.server, s.Source.Status()
	lost := status.State == steps.StateRetrying || status.State == steps.StateFailed
	p.mu.Lock()
	p.changes++
	s.changes = p.changes
	fails := lost && !s.lost
	s.lost = lost
	watcher := p.watcher
	p.mu.Unlock()
	if fails {
		p.failed(status.Error)
	}
	if watcher != nil {
		watcher()
	}
}

// Changes implements steps.PersonalView.
func (s *personalSource) Changes() uint64 {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	return s.changes
}

// Functions implements steps.PersonalView. Their calls keep the source open.
func (s *personalSource) Functions() []steps.Function {
	functions := s.Source.Functions()
	for i := range functions {
		call := functions[i].Call
		functions[i].Call = func(ctx context.Context, args []byte) ([]byte, error) {
			s.count(1)
			defer s.count(-1)
			return call(ctx, args)
		}
	}
	return functions
}

func (s *personalSource) count(calls int) {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.calls += calls
	s.used = time.Now()
}

// unusableView is a personal source that could not be opened for a credential.
type unusableView struct{ why *fault.Error }

func (unusableView) Functions() []steps.Function { return nil }
func (unusableView) Changes() uint64             { return 0 }
func (u unusableView) Status() steps.Status {
	return steps.Status{State: steps.StateFailed, Error: u.why}
}

// personalUse is one app's use of a personal server.
type personalUse struct {
	*sourceUse
	server *personalServer
}

// As implements steps.Personal.
func (u personalUse) As(c *steps.Credential) steps.PersonalView { return u.server.As(c) }
