package mcp

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
)

// session is one connection with a server that has been greeted. It is used once: after its end comes another.
type session struct {
	source   *Source
	tap      *tap
	client   *sdk.ClientSession
	held     *held
	process  *process // nil behind HTTP
	protocol string

	ctx    context.Context // ends with the session
	cancel context.CancelFunc

	doubted atomic.Bool   // the server could not be reached: the session ends when no call uses it
	suspect chan struct{} // that moment has come

	offered bool // calls have been given it; for the supervisor

	lingering atomic.Int32 // answers in a row whose stream did not end (see awaitRest)

	calls int       // in flight, under source.mu
	used  time.Time // when the last one ended, under source.mu
}

// held makes the transport's connection, and keeps it to close it. The connection itself goes to the SDK as it is, which
// looks for more than sdk.Connection in it.
type held struct {
	sdk.Transport
	lasting bool // the connection reads a request of its own, made with the context of Connect

	mu     sync.Mutex
	conn   sdk.Connection
	cancel context.CancelFunc // ends what lasts
	closed bool
}

// Connect implements sdk.Transport.
func (h *held) Connect(ctx context.Context) (sdk.Connection, error) {
	cancel := func() {}
	if h.lasting {
		long, end := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, end)
		defer stop()
		ctx, cancel = long, end
	}
	conn, err := h.Transport.Connect(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	h.mu.Lock()
	h.conn, h.cancel = conn, cancel
	closed := h.closed
	h.mu.Unlock()
	if closed {
		h.close()
	}
	return conn, nil
}

// close ends the connection, also one that is still to come. It may be called more than once.
func (h *held) close() {
	h.mu.Lock()
	h.closed = true
	conn, cancel := h.conn, h.cancel
	h.mu.Unlock()
	if conn == nil {
		return
	}
	_ = conn.Close() // also where the server is gone already
	if t, ok := h.Transport.(*stdioTransport); ok {
		_ = t.Close()
	}
	cancel()
}

// again tells of a greeting that has failed whether the server is to be greeted once more (see greeting).
func (h *held) again() bool {
	t, ok := h.Transport.(*stdioTransport)
	return ok && t.pipe.greeting.again()
}

// start connects and lists the tools, within the start-up deadline. On failure nothing is left running.
func (s *Source) start(legacy bool) (n *session, tools []tool, f *fault.Error, silent bool) {
	ctx, cancel := context.WithTimeout(s.ctx, s.options.StartTimeout)
	defer cancel()
	// What is left to do after the deadline does not hold up the state.
	defer context.AfterFunc(ctx, func() {
		if s.ctx.Err() == nil && s.Status().State == steps.StateStarting {
			s.setStatus(steps.Status{State: steps.StateRetrying, Error: s.notReady(), Retry: time.Now()})
		}
	})()
	_ = s.takeStray() // of the start before
	version := s.options.Protocol
	if legacy {
		version = cmp.Or(version, protocol.Stateful)
	}
	if n, f, silent = s.connect(ctx, version, nil); f != nil {
		return nil, nil, f, silent
	}
	if tools, f = n.list(ctx); f != nil {
		if ctx.Err() != nil {
			f = s.notReady()
		}
		n.close()
		return nil, nil, f, false
	}
	n.askForLogs()
	return n, tools, nil, false
}

// connect greets the server in a version of MCP ("": the newest), in the name of a link's client or in onecall's own.
// On failure nothing is left running.
func (s *Source) connect(ctx context.Context, version string, l *Link) (n *session, f *fault.Error, silent bool) {
	t := newTap(s)
	transport, process, f := s.dial(t)
	if f != nil {
		return nil, f, false
	}
	n = &session{source: s, tap: t, process: process, suspect: make(chan struct{}, 1), used: time.Now()}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	context.AfterFunc(n.ctx, t.end)
	t.asks = &asks{session: n, open: map[string]*ask{}}
	if l != nil {
		t.link = &linked{link: l, session: n, streams: s.options.URL != "" && !s.options.SSE}
	}
	n.held = &held{Transport: transport, lasting: s.options.SSE}
	x := &exchange{}
	// The SDK would wait for a server that does not read, to tell it that it is not waited for any more.
	release := context.AfterFunc(ctx, n.held.close)
	options := &sdk.ClientSessionOptions{ProtocolVersion: version}
	client, err := n.newClient().Connect(x.in(ctx), n.held, options)
	if err != nil && ctx.Err() == nil && n.held.again() {
		client, err = n.newClient().Connect(x.in(ctx), n.held, options)
	}
	release()
	if err != nil {
		f, silent = s.notConnected(ctx, n, x, err)
		n.close()
		return nil, f, silent
	}
	n.client, n.protocol = client, client.InitializeResult().ProtocolVersion
	if process != nil {
		process.greeted.Store(true)
	}
	go func() {
		_ = client.Wait()
		n.cancel()
	}()
	return n, nil, false
}

func (n *session) newClient() *sdk.Client {
	o := &n.source.options
	who := &sdk.Implementation{Name: o.ClientName, Version: o.ClientVersion}
	options := &sdk.ClientOptions{
		Logger:       slog.New(slog.DiscardHandler),
		Capabilities: &sdk.ClientCapabilities{}, // neither roots nor sampling nor elicitation
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			signal(n.source.relist)
		},
	}
	switch {
	case n.tap.link != nil:
		n.tap.link.link.introduce(&who, options)
	case o.AsProxy:
		options.Capabilities = proxied(o.Roots)
	}
	return sdk.NewClient(who, options)
}

// version is what the server says of itself.
func (n *session) version() string {
	info := n.client.InitializeResult().ServerInfo
	if info == nil {
		return ""
	}
	return fault.Clip(n.source.scrub.clean(strings.TrimSpace(info.Name+" "+info.Version)), maxQuoted)
}

// closeGrace bounds the farewell to a server behind HTTP.
const closeGrace = 2 * time.Second

// close ends the session and all that belongs to it, and waits for it.
func (n *session) close() {
	n.cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.held.close()
		if n.client != nil {
			_ = n.client.Close() // repeats why the session had ended
		}
	}()
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	if n.process != nil {
		n.process.stop()
		<-n.process.ended
	}
	n.tap.asks.end()
}

// lost says why a session has ended by itself. It is called after close.
func (n *session) lost() *fault.Error {
	s := n.source
	f := fault.New(fault.Unavailable, "MCP server %q: the connection was lost", s.options.Name)
	if broken := n.tap.givenUp(); broken != nil {
		f.Message += ": " + broken.Message
	} else if n.process != nil {
		f.Message += ": " + n.process.lastWords()
	} else if err := n.client.Wait(); err != nil {
		f.Message += ": " + s.told(err)
	}
	return f
}

// notReady is the fault of a start that has taken too long.
func (s *Source) notReady() *fault.Error {
	f := fault.New(fault.Unavailable, "MCP server %q (%s) was not ready within %v: --verbose shows what it says, startTimeoutMs gives it longer",
		s.options.Name, s.options.where(), s.options.StartTimeout)
	f.Outcome = fault.NotSent
	f.Message += s.strayWords()
	return f
}

// notConnected says why the greeting failed; silent: the server has not said a word, and may not know the version of
// MCP that it was greeted in.
func (s *Source) notConnected(ctx context.Context, n *session, x *exchange, err error) (f *fault.Error, silent bool) {
	if n.process != nil && ctx.Err() == nil {
		n.process.endsWithin(pipeGrace) // its exit status comes a moment after the end of its output
	}
	given, coded := fault.As(err)
	if broken := n.tap.givenUp(); broken != nil {
		given, coded = broken, true
	}
	wire := wireError(err)
	f = fault.New(fault.Unavailable, "MCP server %q (%s): ", s.options.Name, s.options.where())
	f.Err, f.Outcome = err, fault.NotSent
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		f, silent = s.notReady(), true
	case coded && given != nil:
		f.Code = given.Code
		f.Message += s.scrub.clean(given.Message)
	case x.status != 0 && (wire == nil || statusCode(x.status) == fault.Denied):
		f.Code, f.Message = statusCode(x.status), f.Message+s.statusText(x.status)
	case strings.Contains(err.Error(), "unsupported protocol version") || wire != nil && wire.Code == sdk.CodeUnsupportedProtocolVersion:
		f.Code = fault.NotSupported
		f.Message += "it speaks none of the versions of MCP that onecall does (" + strings.Join(protocol.Versions, ", ") + "): install another release of it"
	case wire != nil:
		f.Message += "it refused the connection: " + fault.Clip(s.scrub.clean(wire.Message), maxErrorText)
	default:
		f.Message += "no connection: " + s.told(err) + s.strayWords()
		silent = n.process != nil
	}
	if n.process != nil {
		if words := n.process.lastWords(); words != "" {
			f.Message += "; " + words
		}
	}
	return f, silent
}

// told is an error's text as a message may show it.
func (s *Source) told(err error) string {
	if err == nil {
		return "no answer came"
	}
	return fault.Clip(s.scrub.clean(cause(err).Error()), maxErrorText)
}

// statusCode is the code of an HTTP status by which a server refuses everything.
func statusCode(status int) fault.Code {
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		return fault.Denied
	}
	return fault.Unavailable
}

// statusName is a status as messages show it.
func statusName(status int) string {
	return cmp.Or(http.StatusText(status), "HTTP status "+strconv.Itoa(status))
}

// statusText explains such a status to the start of a session, with its remedy.
func (s *Source) statusText(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return s.refusalText(status)
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return "it answered " + statusName(status) + ": check its url (a server of the older kind needs the HTTP+SSE transport)"
	}
	return "it answered " + statusName(status) + ": it is tried again"
}

// refusalText explains such a status to a request in a session that works.
func (s *Source) refusalText(status int) string {
	text := "it answered " + statusName(status)
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return text + `: run "onecall auth login ` + s.options.Name + `", or give it other headers`
	case status == http.StatusTooManyRequests:
		return text + ": call it again later"
	case applied(status):
		return text + ": it is not known whether the work of the call was done"
	}
	return text + ", and has not taken up the call"
}
