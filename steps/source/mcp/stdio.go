package mcp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// maxGarbage bounds the lines and bytes on stdout, between two messages, that are not messages: servers may print a banner, but
// not forever.
const maxGarbage, maxGarbageBytes = 1000, 1 << 20

// readerBytes is the size of the reader's buffer.
const readerBytes = 64 << 10

// stdioTransport connects to a server over the pipes of a child process, one message a line (MCP 2025-11-25, "stdio"). It
// connects a second time if the server must be greeted again.
type stdioTransport struct {
	pipe      *stdioPipe
	connected bool
}

func newStdioTransport(t *tap, stdin, stdout *os.File, timeout time.Duration) *stdioTransport {
	return &stdioTransport{pipe: &stdioPipe{
		tap: t, stdin: stdin, reader: bufio.NewReaderSize(stdout, readerBytes), timeout: timeout,
		incoming: make(chan jsonrpc.Message), failed: make(chan struct{}), closed: make(chan struct{}),
		writing: make(chan struct{}, 1),
	}}
}

// Connect implements sdk.Transport.
func (t *stdioTransport) Connect(context.Context) (sdk.Connection, error) {
	c := &stdioConn{stdioPipe: t.pipe, again: t.connected, sdkClosed: make(chan struct{})}
	if !t.connected {
		t.connected = true
		go t.pipe.read()
	}
	return c, nil
}

// Close closes the pipe, even if the server should be greeted again.
func (t *stdioTransport) Close() error {
	t.pipe.end()
	return nil
}

// stdioPipe is the connection to the server. Its reading goroutine ends with stdout, which the end of the process closes.
type stdioPipe struct {
	tap      *tap
	stdin    *os.File
	reader   *bufio.Reader
	timeout  time.Duration // how long to wait for an answer to the greeting (see after)
	greeting greeting

	incoming chan jsonrpc.Message
	failed   chan struct{} // closed after failure is set
	failure  error         // why reading ended
	closed   chan struct{} // closed by end
	once     sync.Once
	writing  chan struct{} // holds a token while a message is written

	garbage, garbageBytes int // the lines and bytes that were not messages since the last message
}

// end closes stdin, which asks the server to exit. It does not end the process.
func (p *stdioPipe) end() {
	p.once.Do(func() {
		close(p.closed)
		_ = p.stdin.Close() // fails if the process has closed it
	})
}

// stdioConn is the SDK's connection for one greeting and the session that follows.
type stdioConn struct {
	*stdioPipe
	again     bool          // the second greeting
	sdkClosed chan struct{} // closed by Close
	closeOnce sync.Once
}

// SessionID implements sdk.Connection: stdio has no sessions.
func (c *stdioConn) SessionID() string { return "" }

// Read implements sdk.Connection.
func (c *stdioConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.incoming:
		return m, nil
	case <-c.failed:
		return nil, c.failure
	case <-c.sdkClosed:
		return nil, io.EOF
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close implements sdk.Connection. The pipe stays open if the server should be greeted again.
func (c *stdioConn) Close() error {
	c.closeOnce.Do(func() { close(c.sdkClosed) })
	if c.again || !c.greeting.again() {
		c.end()
	}
	return nil
}

// read reads messages from stdout until it ends or contains too much garbage.
func (p *stdioPipe) read() {
	for {
		line, err := p.line()
		if err == nil {
			err = p.handleLine(line)
		}
		if err != nil {
			_ = p.deliverText(p.greeting.release()) // a refusal that was held back says more than the end of the input
			p.failure = err
			close(p.failed)
			return
		}
	}
}

// line reads one line without its newline. It drops a line that is too long and returns an error response for the call that the
// line answers, or nothing.
func (p *stdioPipe) line() ([]byte, error) {
	var line []byte
	for {
		chunk, err := p.reader.ReadSlice('\n')
		if int64(len(line)+len(chunk)) > p.tap.max+2 { // two more bytes for the line break
			return p.skip(line, chunk, err)
		}
		if line == nil && err == nil {
			return bytes.TrimRight(chunk, "\r\n"), nil // valid until the next read
		}
		line = append(line, chunk...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil && len(line) == 0:
			return nil, err
		case errors.Is(err, io.EOF) || err == nil: // the last line may lack its newline
			return bytes.TrimRight(line, "\r\n"), nil
		default:
			return nil, err
		}
	}
}

// skip reads the rest of a line that is too long, of which line and chunk are the beginning. It returns what line returns in its place.
func (p *stdioPipe) skip(line, chunk []byte, err error) ([]byte, error) {
	var ends headTail
	ends.write(line)
	ends.write(chunk)
	for errors.Is(err, bufio.ErrBufferFull) {
		chunk, err = p.reader.ReadSlice('\n')
		ends.write(chunk)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if id, ok := ends.requestID(); ok {
		if text := p.tap.refuse(id, p.tap.tooLong()); text != "" {
			return []byte(text), nil
		}
	}
	p.tap.warn(p.warning(line, "a message of more than the %d bytes that are allowed was dropped", p.tap.max))
	return nil, nil
}

// handleLine passes the messages of a line to the SDK.
func (p *stdioPipe) handleLine(line []byte) error {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil
	}
	if line[0] != '{' && line[0] != '[' || !gjson.ValidBytes(line) {
		return p.countGarbage(line)
	}
	p.garbage, p.garbageBytes = 0, 0
	text := rawjson.View(line)
	if len(line) <= readerBytes { // it may be in the reader's buffer
		text = string(line)
	}
	if line[0] == '{' {
		return p.handleMessage(text)
	}
	var err error // versions before 2025-06-18 have batches
	gjson.Parse(text).ForEach(func(_, item gjson.Result) bool {
		err = p.handleMessage(item.Raw)
		return err == nil
	})
	return err
}

func (p *stdioPipe) handleMessage(text string) error {
	if text = p.tap.filter(text, nil, 0); text == "" {
		return nil
	}
	text, withheld := p.greeting.filter(text)
	if withheld {
		p.after(func() {
			if m, err := jsonrpc.DecodeMessage([]byte(p.greeting.release())); err == nil {
				_ = p.deliver(m)
			}
		})
	}
	return p.deliverText(text)
}

// deliverText passes a message to the SDK; "": nothing.
func (p *stdioPipe) deliverText(text string) error {
	if text == "" {
		return nil
	}
	m, err := jsonrpc.DecodeMessage([]byte(text))
	if err != nil {
		return p.countGarbage([]byte(text))
	}
	return p.deliver(m)
}

// deliver passes a message to the SDK; io.EOF after end.
func (p *stdioPipe) deliver(m jsonrpc.Message) error {
	select {
	case p.incoming <- m:
		return nil
	case <-p.closed:
		return io.EOF
	}
}

// countGarbage counts output that is not a message, warns about the first, and fails after too much.
func (p *stdioPipe) countGarbage(line []byte) error {
	if p.garbage == 0 {
		p.tap.stray(p.warning(line, "what it prints on stdout is not a message, and is skipped: a server over stdio must log to stderr"))
	}
	p.garbage++
	p.garbageBytes += len(line)
	if p.garbage > maxGarbage || p.garbageBytes > maxGarbageBytes {
		f := fault.New(fault.Unavailable, "its stdout has no messages of MCP (%d other lines, such as %s): "+
			"check its command and arguments",
			p.garbage, quoted(p.tap.scrub.excerpt(string(line), maxQuoted-len(ellipsis))))
		p.tap.giveUp(f)
		return f
	}
	return nil
}

// warning returns a warning about output of the server.
func (p *stdioPipe) warning(line []byte, format string, args ...any) *fault.Error {
	f := fault.New(fault.BadJSON, "MCP server "+quoted(p.tap.name)+": "+format, args...)
	if len(line) > 0 {
		f.Message += "; it begins " + quoted(p.tap.scrub.excerpt(string(line), maxQuoted-len(ellipsis)))
	}
	return f
}

// Write implements sdk.Connection. A server that does not read its stdin delays the writing of one message, not the caller: after
// the end of ctx the rest of a partly written message is written in the background, so that the next message does not start in its
// middle.
func (c *stdioConn) Write(ctx context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	pieces := messagePieces(ctx, append(data, '\n'))
	select {
	case c.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.sdkClosed:
		return io.ErrClosedPipe
	case <-c.closed:
		return io.ErrClosedPipe
	}
	pending := c.register(ctx, m)
	n, err := c.writeUntil(ctx, pieces)
	if pending != nil && n > 0 {
		pending.markSent()
	}
	switch {
	case err != nil && errors.Is(err, os.ErrDeadlineExceeded) && n > 0:
		rest := bytes.Join(pieces, nil)[n:] // a copy: the caller may go on
		go func() {
			defer func() { <-c.writing }()
			if _, err := c.stdin.Write(rest); err != nil {
				c.end() // the stream is broken
			}
		}()
		return ctx.Err()
	case err != nil && errors.Is(err, os.ErrDeadlineExceeded):
		err = ctx.Err()
	}
	<-c.writing
	return err
}

// register registers a request before its answer can come. It returns nil for other messages, and if ctx carries no request.
func (c *stdioConn) register(ctx context.Context, m jsonrpc.Message) *pendingRequest {
	request, ok := m.(*jsonrpc.Request)
	if !ok || !request.IsCall() {
		return nil
	}
	id, ok := request.ID.Raw().(int64)
	if !ok {
		return nil
	}
	if !c.again && (request.Method == methodDiscover || request.Method == methodInitialize) {
		c.greeting.sent(request.Method, id)
		if request.Method == methodDiscover {
			c.giveUpOn(request.ID)
		}
	}
	return c.tap.register(ctx, id)
}

// largeArguments is the size of arguments, in bytes, above which the SDK gets argumentsStub in their place: it encodes what it sends twice,
// and grows a buffer for it each time.
const largeArguments = 64 << 10

// argumentsStub cannot be part of a message by chance.
var argumentsStub = json.RawMessage(`"` + rand.Text() + `"`)

// messagePieces returns a message in pieces, with the arguments of the call of ctx in place of their stub.
func messagePieces(ctx context.Context, message []byte) [][]byte {
	if pending := pendingOf(ctx); pending != nil && pending.args != nil {
		if before, after, found := bytes.Cut(message, argumentsStub); found {
			return [][]byte{before, pending.args, after}
		}
	}
	return [][]byte{message}
}

// writeUntil writes the pieces of a message until ctx is done, and returns how much it wrote.
func (p *stdioPipe) writeUntil(ctx context.Context, pieces [][]byte) (written int, err error) {
	write := func() (written int, err error) {
		for _, piece := range pieces {
			n, err := p.stdin.Write(piece)
			if written += n; err != nil {
				return written, err
			}
		}
		return written, nil
	}
	if ctx.Done() == nil {
		return write()
	}
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(fired)
		_ = p.stdin.SetWriteDeadline(time.Now()) // if the pipe has no deadlines, the write continues
	})
	written, err = write()
	if !stop() {
		<-fired
		_ = p.stdin.SetWriteDeadline(time.Time{})
	}
	return written, err
}
