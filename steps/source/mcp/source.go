// Package mcp offers the tools of one MCP server as functions: a child process that speaks over stdio, or a server
// behind Streamable HTTP (or the HTTP+SSE transport that it replaced). A source starts by itself, in the background, and
// keeps its server going: a crash, a lost connection or a lost session ends the calls in flight with a coded error that
// says whether they may have been applied, and the server is started again with back-off.
//
// The client is the official SDK. The results of calls are taken off the wire before the SDK decodes them (see tap), so
// that their bytes reach references as the server wrote them. Sampling, elicitation and roots are not offered to servers,
// but in a Link: a session with the server that belongs to one MCP client, and that hands on all that MCP has.
//
// A child process ends with the source, together with all it has started in its process group. A process that leaves the
// group (setsid, a daemon) is not followed: it sees the ends of its pipes, and must end by itself. So must all of them if
// onecall is killed, but on Linux the child gets SIGTERM then.
package mcp

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/steps"
)

// Source is one MCP server. It implements steps.Live.
type Source struct {
	options Options
	scrub   *scrubber
	dial    dialer        // makes the transport of one session
	free    func()        // lets go of what the dialer keeps; nil: nothing
	slots   *admit.Server // of calls under way

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup // the supervisor and the notifier

	wake    chan struct{} // a call needs a session that is not there
	relist  chan struct{} // the server says that its list of tools has changed
	changes chan struct{} // Functions or Status have changed

	mu        sync.Mutex
	status    steps.Status
	tools     []tool
	functions []steps.Function
	names     string // how the names of tools are read; "": no tool was listed yet
	session   *session
	offered   *sdk.ServerCapabilities // by the last session; nil: not known
	links     map[*Link]bool
	rooms     map[*room]bool // of the links' sessions
	attempts  int            // starts that have failed so far
	failure   *fault.Error   // of the last one
	moved     chan struct{}  // closed and made anew when session, attempts or closed change
	closed    bool
	watcher   func()
	stray     *fault.Error // of what the server has printed on stdout that is no message, before it was ready; nil: nothing
}

var _ steps.Live = (*Source)(nil)

// dialer makes the transport of one session and what belongs to it: the tap that results come through, and the child
// process, nil where there is none.
type dialer func(t *tap) (sdk.Transport, *process, *fault.Error)

// New makes the source and starts its server in the background; a lazy one whose tool list is cached starts it at the
// first call. bad_request for options that do not fit together. The caller closes it.
func New(o *Options) (*Source, error) {
	options, f := o.checked()
	if f != nil {
		return nil, f
	}
	s := newSource(options)
	s.dial = s.dialStdio
	if options.URL != "" {
		s.dial = s.httpDialer()
	}
	s.open()
	return s, nil
}

func newSource(options Options) *Source {
	s := &Source{
		options: options,
		slots:   admit.NewServer(options.Name, options.Concurrency),
		scrub:   newScrubber(&options),
		wake:    make(chan struct{}, 1),
		relist:  make(chan struct{}, 1),
		changes: make(chan struct{}, 1),
		moved:   make(chan struct{}),
		status:  steps.Status{State: steps.StateStarting},
		names:   options.Names,
		links:   map[*Link]bool{},
		rooms:   map[*room]bool{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// open starts the goroutines of the source.
func (s *Source) open() {
	cached := false
	if s.options.Lazy {
		var tools []tool
		var version string
		var offered *sdk.ServerCapabilities
		if tools, version, offered, cached = s.readCache(); cached {
			s.tools, s.functions, s.offered = tools, s.functionsOf(tools), offered
			s.status = steps.Status{State: steps.StateIdle, Version: version}
		}
	}
	s.running.Go(func() { s.supervise(cached) })
	s.running.Go(s.notify)
}

// Functions returns the tools that the server has listed last, also while it is not running: a call then waits for it.
func (s *Source) Functions() []steps.Function {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.functions)
}

// Status tells where the server stands. While it is started again after a failure the state stays StateRetrying, with
// Retry in the past.
func (s *Source) Status() steps.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Names = s.names
	return status
}

// Watch has changed called after changes of Functions or Status; several changes in a row may be one call. changed must
// not close the source: Close waits for it.
func (s *Source) Watch(changed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watcher = changed
}

// Close ends the server and waits for its end: a child process has two seconds to leave after its stdin is closed, then
// a second after SIGTERM, before it is killed together with the processes that it has started. Calls in flight fail with
// unavailable. Links that are open are closed.
func (s *Source) Close() error {
	s.mu.Lock()
	s.closed = true
	s.move()
	links := slices.Collect(maps.Keys(s.links))
	s.mu.Unlock()
	s.cancel()
	var closing sync.WaitGroup
	for _, l := range links {
		closing.Go(func() { _ = l.Close() })
	}
	closing.Wait()
	s.running.Wait()
	if s.free != nil {
		s.free()
	}
	return nil
}

// move tells all who wait for a session that something has changed. The caller holds mu.
func (s *Source) move() {
	close(s.moved)
	s.moved = make(chan struct{})
}

// notify calls the watcher, one call at a time, until the source is closed.
func (s *Source) notify() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.changes:
		}
		s.mu.Lock()
		changed := s.watcher
		s.mu.Unlock()
		if changed != nil && s.ctx.Err() == nil {
			changed()
		}
	}
}

// changed has the watcher called, soon.
func (s *Source) changed() { signal(s.changes) }

// signal puts a token into a channel that holds one at most.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *Source) setStatus(status steps.Status) {
	s.mu.Lock()
	if status.Version == "" {
		status.Version = s.status.Version
	}
	s.status = status
	s.mu.Unlock()
	s.changed()
}

// strayed takes a warning of what stands on stdout and is no message. Until the server is ready it waits: if the start fails, it is
// the reason.
func (s *Source) strayed(f *fault.Error) {
	s.mu.Lock()
	waits := s.session == nil
	if waits {
		s.stray = f
	}
	s.mu.Unlock()
	if !waits {
		s.warn(f)
	}
}

// strayWords says of the warning that waits what a message on a failed start says of it.
func (s *Source) strayWords() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stray == nil {
		return ""
	}
	return "; " + strings.TrimPrefix(s.stray.Message, "MCP server "+quoted(s.options.Name)+": ")
}

// takeStray takes the warning that waits; nil: none does.
func (s *Source) takeStray() *fault.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.stray
	s.stray = nil
	return f
}

func (s *Source) warn(f *fault.Error) {
	if s.options.Warn != nil {
		s.options.Warn(f)
	}
}
