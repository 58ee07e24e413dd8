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
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/cache"
	"github.com/onecall-mcp/onecall/steps/shape"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
)

// Options describe the command that opens an app.
type Options struct {
	Reporter Reporter
	Redactor *Redactor // applied to all logs
	Config   string    // path of the configuration; "": the default one
	Version  string    // onecall's version
	Verbose  bool      // show what servers log

	Record, Replay string // the file that calls are recorded to, or that answers them; at most one is set
	Calls          bool   // the command calls functions: opening waits for those of an enforced ladder, and fails if the ladder is broken
	NoSources      bool   // the command calls no functions, so no source is started
	List           bool   // the command itself shows the functions and the faults of their sources
	Unrecorded     bool   // runs are kept in memory, and not in the journal
	Unlocked       bool   // functions are served whatever their lock says: the command compares them itself
	Unverified     bool   // signatures of saved chains are not looked at: the command is about to write them
	Surface        string // overrides the configured surface; "": the configuration decides

	Monitor *Monitor // monitors a command that runs until it is interrupted; nil: the command has no monitor

	// Observe is called after each call, as with steps.Registry.Observe; nil: no observer.
	Observe func(ctx context.Context, spec *steps.Spec, args, result []byte, err error)
}

// Reporter shows messages to a person.
type Reporter interface {
	Notice(format string, args ...any) // one or more lines
	Warn(f *fault.Error)               // a problem that stops nothing
	Faults(wrong *config.Error)        // what is wrong with a configuration
}

// serverTraits describes the server that an app belongs to. The zero value means a command that serves no clients.
type serverTraits struct {
	serve      bool // functions are served to clients
	examine    bool // nothing is served; access.tokens and access.jwt are checked as for a server
	overHTTP   bool // the server listens on HTTP; each client may choose its surface
	console    bool // the console is served, to those who have tokens
	remote     bool // other machines can reach the server
	workers    bool // the program has an engine that hands runs to workers
	engineFlag bool // a flag names the engine, so the configuration need not
	stateless  bool // clients over HTTP have no sessions
	log        *slog.Logger
	telemetry  *telemetry.Telemetry
}

// process owns what outlives a configuration. An app belongs to one configuration. A reload opens another app in the same process and
// closes the old one when its calls have ended.
type process struct {
	*Options
	serverTraits
	admission *admit.Limiter // shared by all callers
	session   *steps.Session // the session of the only client; nil: each client has its own
	pool      pool
	caches    caches

	// Opened by the first app that needs them, and closed with the process.
	recording *recording
	shapes    *shape.Store

	stopMonitor func() // stops the monitor of a command; nil: there is no monitor

	client *httpsource.Client // shared, so that its HTTP cache outlives a configuration

	lastLines sync.Map // the last line of each source on stderr, by name; only for commands without Verbose: a person may wait for it

	mu     sync.Mutex
	warned map[string]int // the generation of the app that last gave a warning, by its text
}

func newProcess(o *Options, s serverTraits) *process {
	p := &process{Options: o, serverTraits: s, admission: admit.Default(), warned: map[string]int{},
		client: httpsource.NewClient(&httpsource.ClientOptions{UserAgent: "onecall/" + o.Version})}
	if !s.overHTTP {
		p.session = &steps.Session{}
	}
	return p
}

// Failure is an error that is not the user's fault, such as an answer or a recording that could not be written.
type Failure struct{ Err error }

func (f Failure) Error() string { return f.Err.Error() }

// Unwrap returns the wrapped error.
func (f Failure) Unwrap() error { return f.Err }

// close closes what the process owns. All apps must be closed first.
func (p *process) close() error {
	var errs []error
	if p.shapes != nil {
		errs = append(errs, p.shapes.Close())
	}
	if p.recording != nil {
		errs = append(errs, p.recording.Close())
	}
	if p.stopMonitor != nil {
		p.stopMonitor()
	}
	if err := errors.Join(errs...); err != nil {
		return Failure{err}
	}
	return nil
}

// shouldWarn reports whether the app of a generation should give a warning: neither it nor the app that it replaced gave it before. It
// records the warning as given in any case.
func (p *process) shouldWarn(generation int, text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, known := p.warned[text]
	maps.DeleteFunc(p.warned, func(_ string, other int) bool { return other < generation-1 }) // forget warnings that no longer count
	p.warned[text] = generation
	return !known || last < generation-1
}

// caches are the call caches of all apps. A write through one app may invalidate what another app cached.
type caches struct {
	mu  sync.Mutex
	all []*cache.Cache
}

func (c *caches) add(added *cache.Cache) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, added)
}

func (c *caches) remove(one *cache.Cache) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = slices.DeleteFunc(c.all, func(other *cache.Cache) bool { return other == one })
}

// flush drops the answers of a source from all caches except one.
func (c *caches) flush(except *cache.Cache, source string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.all {
		if one != except {
			one.Flush(source)
		}
	}
}

// wrap puts a cache in front of functions. A call that writes also flushes the answers of its source from all other caches.
func (c *caches) wrap(local *cache.Cache, r *steps.Registry) *steps.Registry {
	return local.Wrap(r.Wrap(func(spec *steps.Spec, next steps.Call) steps.Call {
		if spec.Effect == steps.Read {
			return next
		}
		source := spec.Source()
		return func(ctx context.Context, args []byte) ([]byte, error) {
			c.flush(local, source)
			defer c.flush(local, source) // again, for answers that were cached during the call
			return next(ctx, args)
		}
	}))
}
