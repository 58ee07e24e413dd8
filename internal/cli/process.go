package cli

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/cache"
	"github.com/onecall-mcp/onecall/steps/shape"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
)

// process owns what outlives a configuration. An app is made of one configuration; a reload opens another app in the same
// process, and closes the old one when its calls have ended.
type process struct {
	*cli
	use       use
	admission *admit.Limiter // of all callers
	session   *steps.Session // of the only client; nil: clients have sessions of their own
	pool      pool
	caches    caches

	// Opened by the first app that needs them, and closed with the process.
	recording *recording
	shapes    *shape.Store

	client *httpsource.Client // whose known answers outlive a configuration

	mu     sync.Mutex
	warned map[string]int // the generation of the app that gave a warning last
}

func newProcess(c *cli, u use) *process {
	p := &process{cli: c, use: u, admission: admit.Default(), warned: map[string]int{},
		client: httpsource.NewClient(&httpsource.ClientOptions{UserAgent: agent()})}
	if !u.serve || !u.anySurface {
		p.session = &steps.Session{}
	}
	return p
}

// close ends what the process owns. Every app is closed before.
func (p *process) close() error {
	var errs []error
	if p.shapes != nil {
		errs = append(errs, p.shapes.Close())
	}
	if p.recording != nil {
		errs = append(errs, p.recording.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return failure{err}
	}
	return nil
}

// firstWarning reports whether a warning of an app is new: neither it nor the app that it replaces has given it.
func (p *process) firstWarning(generation int, text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, given := p.warned[text]
	p.warned[text] = generation
	return !given || last < generation-1
}

// caches are the call caches of all apps: a write through one may change what another holds.
type caches struct {
	mu  sync.Mutex
	all []*cache.Cache
}

func (c *caches) add(one *cache.Cache) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, one)
}

func (c *caches) remove(one *cache.Cache) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = slices.DeleteFunc(c.all, func(other *cache.Cache) bool { return other == one })
}

// flush drops what all caches but one hold of a source.
func (c *caches) flush(except *cache.Cache, source string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.all {
		if one != except {
			one.Flush(source)
		}
	}
}

// wrap puts a cache in front of functions, whose writes empty the other caches too.
func (c *caches) wrap(own *cache.Cache, r *steps.Registry) *steps.Registry {
	return own.Wrap(r.Wrap(func(spec *steps.Spec, next steps.Call) steps.Call {
		if spec.Effect == steps.Read {
			return next
		}
		source := spec.Source()
		return func(ctx context.Context, args []byte) ([]byte, error) {
			c.flush(own, source)
			defer c.flush(own, source) // also of what was read meanwhile
			return next(ctx, args)
		}
	}))
}

// redactor removes secrets from what is logged and warned of: those of every configuration that was read, as a secret that
// was replaced may still be one. The zero value knows none.
type redactor struct {
	scrubber atomic.Pointer[secret.Scrubber]

	mu      sync.Mutex
	secrets []string
}

// Text is a text without the secrets.
func (r *redactor) Text(text string) string { return r.scrubber.Load().Text(text) }

// Fault is a fault without the secrets.
func (r *redactor) Fault(f *fault.Error) *fault.Error { return steps.ScrubFault(r.scrubber.Load(), f) }

// learn adds secrets.
func (r *redactor) learn(secrets []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = append(r.secrets, secrets...)
	slices.Sort(r.secrets)
	r.secrets = slices.Compact(r.secrets)
	r.scrubber.Store(secret.New(r.secrets))
}
