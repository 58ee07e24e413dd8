package mcp

import (
	"cmp"
	"context"
	"fmt"
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

// connection is an open session with the server. After its end, a new connection replaces it.
type connection struct {
	source       *Source
	tap          *tap
	client       *sdk.ClientSession
	transport    *closableTransport
	process      *process // nil: the server is reached over HTTP
	protocol     string
	announced    int                     // changes of the list that the server had announced before it was read
	clientInfo   *sdk.Implementation     // sent to the server
	capabilities *sdk.ClientCapabilities // declared to the server
	poster       *poster                 // makes its calls; nil: the SDK does

	ctx    context.Context // ends with the connection
	cancel context.CancelFunc

	unreachable atomic.Bool   // the server could not be reached: the connection is closed when no call uses it
	doubted     atomic.Bool   // the server may have lost the session: likewise (see doubt)
	expired     chan struct{} // signaled when no call uses the unreachable or doubted connection

	serving bool // set when serve begins to offer it to calls; never for the connection of a client's session

	lateStreams atomic.Int32 // streams in a row that did not end in time (see awaitsStreamEnd)

	// Guarded by source.mu; in a client's session by UpstreamSession.mu.
	calls int       // the number of pending calls
	used  time.Time // when the connection was opened, or the last call ended
}

// closableTransport remembers the SDK connection in order to close it. It does not wrap the connection, because the SDK looks for
// further interfaces in it.
type closableTransport struct {
	sdk.Transport
	longLived bool // the connection's context must outlive Connect

	mu     sync.Mutex
	conn   sdk.Connection
	cancel context.CancelFunc // ends a long-lived connection
	closed bool
}

// Connect implements sdk.Transport.
func (t *closableTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	cancel := func() {}
	if t.longLived {
		long, cancelLong := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, cancelLong)
		defer stop()
		ctx, cancel = long, cancelLong
	}
	conn, err := t.Transport.Connect(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	t.mu.Lock()
	t.conn, t.cancel = conn, cancel
	closed := t.closed
	t.mu.Unlock()
	if closed {
		t.close()
	}
	return conn, nil
}

// close closes the connection, even one that Connect is still opening. It may be called more than once.
func (t *closableTransport) close() {
	t.mu.Lock()
	t.closed = true
	conn, cancel := t.conn, t.cancel
	t.mu.Unlock()
	if conn == nil {
		return
	}
	_ = conn.Close() // fails if the server is gone already
	if stdio, ok := t.Transport.(*stdioTransport); ok {
		_ = stdio.Close()
	}
	cancel()
}

// greetAgain reports whether to greet the server again after a failed greeting (see greeting).
func (t *closableTransport) greetAgain() bool {
	stdio, ok := t.Transport.(*stdioTransport)
	return ok && stdio.pipe.greeting.again()
}

// awaitOutput waits until the output of a server over stdio that has exited is read, at most for d.
func (t *closableTransport) awaitOutput(d time.Duration) {
	stdio, ok := t.Transport.(*stdioTransport)
	if !ok {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-stdio.pipe.failed:
	case <-timer.C:
	}
}

// start connects and lists the tools within the start timeout. If legacy is set and Options.Protocol is not, it greets the server in
// version protocol.Stateful. silent is as in notConnected. A failure leaves nothing running.
func (s *Source) start(legacy bool) (conn *connection, tools []tool, f *fault.Error, silent bool) {
	ctx, cancel := context.WithTimeout(s.ctx, s.options.StartTimeout)
	defer cancel()
	// The status changes at the deadline, even if cleaning up takes longer.
	defer context.AfterFunc(ctx, func() {
		if s.ctx.Err() == nil && s.Status().State == steps.StateStarting {
			s.setStatus(steps.Status{State: steps.StateRetrying, Error: s.notReady(), Retry: time.Now()})
		}
	})()
	_ = s.takeStray() // drops the warning from the previous start
	version := s.options.Protocol
	if legacy {
		version = cmp.Or(version, protocol.Stateful)
	}
	if conn, f, silent = s.connect(ctx, version, nil); f != nil {
		return nil, nil, f, silent
	}
	s.mu.Lock()
	conn.announced = s.announced
	s.mu.Unlock()
	if tools, f = conn.list(ctx); f != nil {
		if ctx.Err() != nil {
			f = s.notReady()
		}
		conn.close()
		return nil, nil, f, false
	}
	conn.askForLogs()
	return conn, tools, nil, false
}

// connect opens a connection and greets the server in an MCP version ("": the newest). session is the client's session; nil:
// onecall's own. silent is as in notConnected. A failure leaves nothing running.
func (s *Source) connect(ctx context.Context, version string, session *UpstreamSession) (conn *connection, f *fault.Error, silent bool) {
	tap := newTap(s)
	transport, process, f := s.dial(tap)
	if f != nil {
		return nil, f, false
	}
	conn = &connection{source: s, tap: tap, process: process, expired: make(chan struct{}, 1), used: time.Now()}
	conn.ctx, conn.cancel = context.WithCancel(context.Background())
	context.AfterFunc(conn.ctx, tap.end)
	tap.requests = &serverRequests{conn: conn, open: map[string]*serverRequest{}}
	if session != nil {
		tap.downstream = &downstream{session: session, conn: conn, streams: s.options.URL != "" && !s.options.SSE}
	}
	conn.transport = &closableTransport{Transport: transport, longLived: s.options.SSE}
	pending := &pendingRequest{}
	// The end of ctx closes the transport. Otherwise the SDK would wait until it can send a cancellation to a server that does not read.
	release := context.AfterFunc(ctx, conn.transport.close)
	options := &sdk.ClientSessionOptions{ProtocolVersion: version}
	client, err := conn.newClient().Connect(pending.withContext(ctx), conn.transport, options)
	if err != nil && ctx.Err() == nil && conn.transport.greetAgain() {
		client, err = conn.newClient().Connect(pending.withContext(ctx), conn.transport, options)
	}
	release()
	if err != nil {
		f, silent = s.notConnected(ctx, conn, pending, err)
		conn.close()
		return nil, f, silent
	}
	tap.greeted.Store(true)
	conn.client, conn.protocol = client, client.InitializeResult().ProtocolVersion
	conn.poster = newPoster(conn)
	if process != nil {
		process.greeted.Store(true)
	}
	go func() {
		_ = client.Wait()
		conn.cancel()
	}()
	return conn, nil, false
}

func (c *connection) newClient() *sdk.Client {
	o := &c.source.options
	info := &sdk.Implementation{Name: o.ClientName, Version: o.ClientVersion}
	options := &sdk.ClientOptions{
		Logger:       slog.New(slog.DiscardHandler),
		Capabilities: &sdk.ClientCapabilities{}, // neither roots, sampling nor elicitation
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			signal(c.source.relist)
		},
	}
	switch {
	case c.tap.downstream != nil:
		c.tap.downstream.session.introduce(&info, options)
	case o.AsProxy:
		options.Capabilities = allCapabilities(o.Roots)
	}
	c.clientInfo, c.capabilities = info, options.Capabilities
	return sdk.NewClient(info, options)
}

// version returns the server's name and version; "" if the server does not name itself.
func (c *connection) version() string {
	info := c.client.InitializeResult().ServerInfo
	if info == nil {
		return ""
	}
	return fault.Clip(c.source.scrub.clean(strings.TrimSpace(info.Name+" "+info.Version)), maxQuoted)
}

// closeGrace bounds the closing of a session, before its process is stopped, and the sending of a cancellation.
const closeGrace = 2 * time.Second

// close ends the connection with all its resources and waits for them.
func (c *connection) close() {
	c.cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.transport.close()
		if c.client != nil {
			_ = c.client.Close() // its error only repeats the reason for the end
		}
	}()
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	if c.process != nil {
		c.process.stop()
		<-c.process.exited
	}
	c.tap.requests.close()
}

// lost returns why a connection has ended. It is called after close.
func (c *connection) lost() *fault.Error {
	s := c.source
	f := fault.New(fault.Unavailable, "MCP server %q: the connection was lost", s.options.Name)
	if broken := c.tap.givenUp(); broken != nil {
		f.Message += ": " + s.withoutName(broken.Message)
	} else if c.process != nil {
		f.Message += ": " + c.process.exitText()
	} else if err := c.client.Wait(); err != nil {
		f.Message += ": " + s.errorText(err)
	}
	return f
}

// notReady returns the fault of a start that took too long.
func (s *Source) notReady() *fault.Error {
	f := fault.New(fault.Unavailable, "MCP server %q (%s) was not ready within %v: --verbose shows what it says, "+
		"startTimeoutMs gives it longer",
		s.options.Name, s.options.address(), s.options.StartTimeout)
	f.Outcome = fault.NotSent
	f.Message += s.strayText()
	return f
}

// notConnected returns why the greeting failed. silent: the server sent nothing; it may not know the MCP version of the greeting.
func (s *Source) notConnected(ctx context.Context, conn *connection, pending *pendingRequest, err error) (f *fault.Error, silent bool) {
	// Wait for the exit status, which follows shortly after the end of the output, and for the output itself, because a write may fail
	// before it has been read.
	if conn.process != nil && ctx.Err() == nil && conn.process.exitsWithin(pipeGrace) {
		conn.transport.awaitOutput(pipeGrace)
	}
	given, coded := fault.As(err)
	if broken := conn.tap.givenUp(); broken != nil {
		given, coded = broken, true
	}
	rpcErr := rpcError(err)
	f = fault.New(fault.Unavailable, "MCP server %q (%s): ", s.options.Name, s.options.address())
	f.Err, f.Outcome = err, fault.NotSent
	pending.mu.Lock()
	defer pending.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		f, silent = s.notReady(), true
	case coded && given != nil:
		f.Code = given.Code
		f.Message += s.withoutName(s.scrub.clean(given.Message))
	case pending.status != 0 && (rpcErr == nil || statusCode(pending.status) == fault.Denied):
		f.Code, f.Message = statusCode(pending.status), f.Message+s.statusText(pending.status)
	case strings.Contains(err.Error(), "unsupported protocol version") || rpcErr != nil && rpcErr.Code == sdk.CodeUnsupportedProtocolVersion:
		f.Code = fault.NotSupported
		f.Message += "it supports no version of MCP that onecall supports (" + strings.Join(protocol.Versions, ", ") +
			"): install another release of it"
	case rpcErr != nil:
		f.Message += "it refused the connection: " + fault.Clip(s.scrub.clean(rpcErr.Message), maxErrorText)
	default:
		f.Message += "no connection: " + s.errorText(err) + s.strayText()
		silent = conn.process != nil
	}
	if conn.process != nil {
		if words := conn.process.exitText(); words != "" {
			f.Message += "; " + words
		}
	}
	return f, silent
}

// errorText returns an error's text for messages.
func (s *Source) errorText(err error) string {
	if err == nil {
		return "no answer came"
	}
	return fault.Clip(s.scrub.clean(cause(err).Error()), maxErrorText)
}

// withoutName returns a message for a place behind the server's name, which the message then does not repeat.
func (s *Source) withoutName(message string) string {
	rest, named := strings.CutPrefix(strings.TrimPrefix(message, "MCP "), fmt.Sprintf("server %q", s.options.Name))
	switch {
	case !named:
		return message
	case strings.HasPrefix(rest, ": "):
		return rest[2:]
	}
	return "it" + rest
}

// statusCode returns the code for an HTTP status that refuses all requests.
func statusCode(status int) fault.Code {
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		return fault.Denied
	}
	return fault.Unavailable
}

// statusName names a status in messages.
func statusName(status int) string {
	return cmp.Or(http.StatusText(status), "HTTP status "+strconv.Itoa(status))
}

// statusText explains a status at the start of a session, with its remedy.
func (s *Source) statusText(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return s.refusalText(status)
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return "it answered " + statusName(status) + ": check its url (a server of the older kind needs the HTTP+SSE transport)"
	}
	text := "it answered " + strconv.Itoa(status) + " " + http.StatusText(status)
	if status < http.StatusInternalServerError && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests ||
		status == http.StatusNotImplemented {
		return text + ", which no MCP server does: check its url"
	}
	return text + ": it is tried again"
}

// refusalText explains a status of a request in an open session.
func (s *Source) refusalText(status int) string {
	text := "it answered " + statusName(status)
	switch {
	case (status == http.StatusUnauthorized || status == http.StatusForbidden) && s.options.Remedy != "":
		return text + ": " + s.options.Remedy
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return text + `: run "onecall auth login ` + s.options.Name + `", or give it other headers`
	case status == http.StatusTooManyRequests:
		return text + ": call it again later"
	case applied(status):
		return text + ": it is not known whether the work of the call was done"
	}
	return text + ", and did not carry out the call"
}
