package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/cache"
	"github.com/onecall-mcp/onecall/steps/shape"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
)

// Options say what a command does.
type Options struct {
	Reporter Reporter
	Redactor *Redactor // of all that is logged
	Config   string    // the path of the configuration; "": the one that is found
	Version  string    // of onecall
	Verbose  bool      // what servers log is reported

	Record, Replay string // files that calls are recorded to, or answered from; at most one of the two
	Calls          bool   // it calls functions: a ladder that is enforced must be whole
	NoSources      bool   // it calls none, and no source needs to start
	List           bool   // it shows the functions, and what their sources lack
	Surface        string // in the place of the configuration's; "": that one

	// Observe is told of each call that was made, as steps.Registry.Observe says; nil: nobody is.
	Observe func(ctx context.Context, spec *steps.Spec, args, result []byte, err error)
}

// Reporter shows a person what happens.
type Reporter interface {
	Note(format string, args ...any)                        // a line, or several
	Warn(f *fault.Error)                                    // what is odd but stops nothing
	Faults(file string, text []byte, faults []*fault.Error) // what is wrong with a configuration
}

// serving is what the apps of a server know of it. The zero value is for a command that does not serve.
type serving struct {
	serve      bool // it serves the functions to clients
	anySurface bool // over HTTP: each client may choose its surface
	remote     bool // other machines reach it
	log        *slog.Logger
	telemetry  *telemetry.Telemetry
}

// process owns what outlives a configuration. An app is made of one configuration; a reload opens another app in the same
// process, and closes the old one when its calls have ended.
type process struct {
	*Options
	serving
	admission *admit.Limiter // of all callers
	session   *steps.Session // of the only client; nil: clients have sessions of their own
	pool      pool
	caches    caches

	// Opened by the first app that needs them, and closed with the process.
	recording *recording
	shapes    *shape.Store

	client *httpsource.Client // whose known answers outlive a configuration

	said sync.Map // by source: the last line on its stderr; of commands only, where somebody may wait for it

	mu     sync.Mutex
	warned map[string]int // the generation of the app that gave a warning last
}

func newProcess(o *Options, s serving) *process {
	p := &process{Options: o, serving: s, admission: admit.Default(), warned: map[string]int{},
		client: httpsource.NewClient(&httpsource.ClientOptions{UserAgent: "onecall/" + o.Version})}
	if !s.anySurface {
		p.session = &steps.Session{}
	}
	return p
}

// Failure is an error that is not the user's, such as an answer or a recording that could not be written.
type Failure struct{ Err error }

func (f Failure) Error() string { return f.Err.Error() }

// Unwrap returns the error inside.
func (f Failure) Unwrap() error { return f.Err }

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
		return Failure{err}
	}
	return nil
}

// firstWarning reports whether a warning of an app is new: neither it nor the app that it replaces has given it.
func (p *process) firstWarning(generation int, text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, given := p.warned[text]
	maps.DeleteFunc(p.warned, func(_ string, given int) bool { return given < generation-1 }) // they count no more
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
