// Package mcp offers the tools of one MCP server as functions. The server is a child process that speaks over stdio, or is behind
// Streamable HTTP (or the older HTTP+SSE transport). A source starts in the background and keeps its server running: a crash or a
// lost session ends the pending calls with a coded error that says whether they may have been applied, and the server is
// restarted with back-off.
//
// The client is the official SDK, except that calls over Streamable HTTP bypass it (see poster). Otherwise the tap takes results
// out of the messages before the SDK decodes them, so that references see the bytes that the server wrote. Servers can use
// sampling, elicitation and roots only in an UpstreamSession, which belongs to one MCP client and passes on everything in MCP.
//
// A child process ends with the source, together with all processes that it started in its process group. A process that left the
// group (setsid, a daemon) is not tracked: it sees its pipes closed and must exit by itself. The same holds if onecall is killed,
// except that on Linux the child gets SIGTERM.
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
	options   Options
	scrub     *scrubber
	dial      dialer        // opens the transport of one connection
	closeIdle func()        // closes the dialer's idle connections; nil: none
	slots     *admit.Server // bounds the concurrent calls

	ctx        context.Context
	cancel     context.CancelFunc
	background sync.WaitGroup // the supervisor, the notifier and the request for log messages

	wake    chan struct{} // a call needs a connection
	again   chan struct{} // someone asked for a restart
	relist  chan struct{} // the server's list of tools has changed
	changes chan struct{} // Functions or Status have changed

	mu             sync.Mutex
	status         steps.Status
	tools          []tool
	functions      []steps.Function
	nameForm       string // form of the tool names, as in Options.Names; "": no tool was listed yet
	conn           *connection
	capabilities   *sdk.ServerCapabilities // those of the last connection; nil: not known
	clientSessions map[*UpstreamSession]bool
	sessionSlots   map[*sessionSlot]bool // taken by connections of client sessions
	failedStarts   int                   // failed starts so far
	failure        *fault.Error          // the fault of the last start; nil: it succeeded, or none has ended yet
	stateChanged   chan struct{}         // closed and replaced when conn, failedStarts or closed change
	closed         bool
	watcher        func()
	announced      int          // how often the server has said that its list has changed
	listed         int          // the announcements before the list was read last
	listFailure    *fault.Error // why the list could not be read again; nil: it could, or was not tried
	stray          *fault.Error // warning about stray output before the server was ready; nil: none
}

var _ steps.Live = (*Source)(nil)

// dialer opens the transport of one connection through a tap; process is nil for HTTP.
type dialer func(t *tap) (sdk.Transport, *process, *fault.Error)

// Check returns the error of New for these options; nil: they fit together.
func Check(o *Options) error {
	if _, f := o.withDefaults(); f != nil {
		return f
	}
	return nil
}

// New creates the source and starts its server in the background; a lazy source with a cached list starts it at the first call. It fails
// with bad_request if the options do not fit together. The caller closes the source.
func New(o *Options) (*Source, error) {
	options, f := o.withDefaults()
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
		options:        options,
		slots:          admit.NewServer(options.Name, options.Concurrency),
		scrub:          newScrubber(&options),
		wake:           make(chan struct{}, 1),
		again:          make(chan struct{}, 1),
		relist:         make(chan struct{}, 1),
		changes:        make(chan struct{}, 1),
		stateChanged:   make(chan struct{}),
		status:         steps.Status{State: steps.StateStarting},
		nameForm:       options.Names,
		clientSessions: map[*UpstreamSession]bool{},
		sessionSlots:   map[*sessionSlot]bool{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// open starts the source's goroutines.
func (s *Source) open() {
	cached := false
	if s.options.Lazy {
		var tools []tool
		var version string
		var capabilities *sdk.ServerCapabilities
		if tools, version, capabilities, cached = s.readCache(); cached {
			s.tools, s.functions, s.capabilities = tools, s.functionsOf(tools, capabilities), capabilities
			s.status = steps.Status{State: steps.StateIdle, Version: version}
		}
	}
	s.background.Go(func() { s.supervise(cached) })
	s.background.Go(s.notify)
}

// Functions returns the tools that the server listed last, even while the server is not running: calls wait for it.
func (s *Source) Functions() []steps.Function {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.functions)
}

// Status returns the server's state. During a restart the state stays as the failure left it: StateRetrying or StateFailed.
func (s *Source) Status() steps.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Names = s.nameForm
	return status
}

// Watch sets the function to call after Functions or Status have changed; one call may report several changes. changed must not
// close the source: Close waits for it.
func (s *Source) Watch(changed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watcher = changed
}

// Close stops the server, closes the open client sessions and waits for both. Pending calls fail with unavailable. A child process
// has two seconds to exit after its stdin is closed and another second after SIGTERM; then it is killed with the processes that it
// started.
func (s *Source) Close() error {
	s.mu.Lock()
	s.closed = true
	s.broadcast()
	sessions := slices.Collect(maps.Keys(s.clientSessions))
	s.mu.Unlock()
	s.cancel()
	var closing sync.WaitGroup
	for _, session := range sessions {
		closing.Go(func() { _ = session.Close() })
	}
	closing.Wait()
	s.background.Wait()
	if s.closeIdle != nil {
		s.closeIdle()
	}
	return nil
}

// Restart closes the connections to the server, those of client sessions too, and starts it again, whatever its state was: as soon as the
// old connection is closed, for which a server that hangs has closeGrace. Sessions connect again at their next use, or, with subscriptions,
// after the usual back-off. Pending calls end as if the server had crashed. Restart returns how many there are. A server that is starting
// goes on with that. Restart does not wait.
func (s *Source) Restart() (calls int) {
	s.mu.Lock()
	sessions := slices.Collect(maps.Keys(s.clientSessions))
	if s.conn != nil {
		calls = s.conn.calls
	}
	s.mu.Unlock()
	signal(s.again)
	for _, session := range sessions {
		calls += session.disconnect()
	}
	return calls
}

// broadcast wakes all goroutines that wait for a connection. The caller holds s.mu.
func (s *Source) broadcast() {
	close(s.stateChanged)
	s.stateChanged = make(chan struct{})
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

// changed schedules a call of the watcher.
func (s *Source) changed() { signal(s.changes) }

// signal sends to a channel with a buffer of one unless it is full.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// setStatus changes the status and schedules a call of the watcher. A status without a version keeps the last version.
func (s *Source) setStatus(status steps.Status) {
	s.mu.Lock()
	if status.Version == "" {
		status.Version = s.status.Version
	}
	s.status = status
	s.mu.Unlock()
	s.changed()
}

// reportStray warns about stray output: text on stdout that is not a message. Before the server is ready it holds the warning back,
// because it explains the failure if the start fails.
func (s *Source) reportStray(f *fault.Error) {
	s.mu.Lock()
	starting := s.conn == nil
	if starting {
		s.stray = f
	}
	s.mu.Unlock()
	if !starting {
		s.warn(f)
	}
}

// strayText returns the pending warning as the end of the message of a failed start; "" if there is none.
func (s *Source) strayText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stray == nil {
		return ""
	}
	return "; " + strings.TrimPrefix(s.stray.Message, "MCP server "+quoted(s.options.Name)+": ")
}

// takeStray returns and clears the pending warning; nil: none.
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
