package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// maxGarbage bounds the lines on stdout that are no message, and their bytes, between two messages: a server that prints
// a greeting is none that prints for ever.
const maxGarbage, maxGarbageBytes = 1000, 1 << 20

// stdioTransport connects to a server over the pipes of a child process: messages of one line each (MCP 2025-11-25,
// "stdio"). It connects once more where the server is to be greeted again.
type stdioTransport struct {
	pipe  *stdioPipe
	began bool
}

func newStdioTransport(t *tap, stdin, stdout *os.File, patience time.Duration) *stdioTransport {
	return &stdioTransport{pipe: &stdioPipe{
		tap: t, stdin: stdin, reader: bufio.NewReaderSize(stdout, 64<<10), patience: patience,
		incoming: make(chan jsonrpc.Message), failed: make(chan struct{}), closed: make(chan struct{}),
		writing: make(chan struct{}, 1),
	}}
}

// Connect implements sdk.Transport.
func (t *stdioTransport) Connect(context.Context) (sdk.Connection, error) {
	c := &stdioConn{stdioPipe: t.pipe, second: t.began, left: make(chan struct{})}
	if !t.began {
		t.began = true
		go t.pipe.read()
	}
	return c, nil
}

// Close ends the connection with the server, whatever is still to be greeted.
func (t *stdioTransport) Close() error {
	t.pipe.end()
	return nil
}

// stdioPipe is what connects with the server. Its reading goroutine ends when stdout does, which the process's end brings
// about.
type stdioPipe struct {
	tap      *tap
	stdin    *os.File
	reader   *bufio.Reader
	patience time.Duration
	greeting greeting

	incoming chan jsonrpc.Message
	failed   chan struct{} // closed after failure is set
	failure  error
	closed   chan struct{}
	once     sync.Once
	writing  chan struct{} // holds a token while a message is written

	garbage, garbageBytes int
}

// end closes stdin, which asks the server to leave; its process is ended by whoever started it.
func (p *stdioPipe) end() {
	p.once.Do(func() {
		close(p.closed)
		_ = p.stdin.Close() // the process may have closed it: then there is nobody to tell
	})
}

// stdioConn is the pipe as the SDK has it for one greeting and the session after it.
type stdioConn struct {
	*stdioPipe
	second bool          // the server is greeted again
	left   chan struct{} // closed when the SDK has closed it
	leave  sync.Once
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
	case <-c.left:
		return nil, io.EOF
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close implements sdk.Connection. The pipe stays open where the server is to be greeted again.
func (c *stdioConn) Close() error {
	c.leave.Do(func() { close(c.left) })
	if c.second || !c.greeting.again() {
		c.end()
	}
	return nil
}

// read takes messages off stdout until it ends or holds too much else.
func (p *stdioPipe) read() {
	for {
		line, err := p.line()
		if err == nil {
			err = p.take(line)
		}
		if err != nil {
			_ = p.hand(p.greeting.release()) // it says more than that there is nothing more to read
			p.failure = err
			close(p.failed)
			return
		}
	}
}

// line reads one line without its end. A line that is too long is read to its end and dropped: what comes back is the
// answer that the SDK gets for the call that it belongs to, or nothing.
func (p *stdioPipe) line() ([]byte, error) {
	var line []byte
	for {
		chunk, err := p.reader.ReadSlice('\n')
		if int64(len(line)+len(chunk)) > p.tap.max+2 { // and the line's end
			return p.skip(line, chunk, err)
		}
		if line == nil && err == nil {
			return bytes.TrimRight(chunk, "\r\n"), nil // taken before the next read
		}
		line = append(line, chunk...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil && len(line) == 0:
			return nil, err
		case errors.Is(err, io.EOF) || err == nil: // a last line may lack its end
			return bytes.TrimRight(line, "\r\n"), nil
		default:
			return nil, err
		}
	}
}

func (p *stdioPipe) skip(line, chunk []byte, err error) ([]byte, error) {
	var o outline
	o.feed(line)
	o.feed(chunk)
	for errors.Is(err, bufio.ErrBufferFull) {
		chunk, err = p.reader.ReadSlice('\n')
		o.feed(chunk)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if id, ok := o.answers(); ok {
		if text := p.tap.refuse(id, p.tap.tooLong()); text != "" {
			return []byte(text), nil
		}
	}
	p.tap.warn(p.odd(line, "a message of more than the %d bytes that are allowed was dropped", p.tap.max))
	return nil, nil
}

// take hands the messages of a line to the SDK.
func (p *stdioPipe) take(line []byte) error {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil
	}
	if line[0] != '{' && line[0] != '[' || !gjson.ValidBytes(line) {
		return p.garbled(line)
	}
	p.garbage, p.garbageBytes = 0, 0
	text := string(line)
	if line[0] == '{' {
		return p.deliver(text)
	}
	var err error // versions before 2025-06-18 have batches
	gjson.Parse(text).ForEach(func(_, item gjson.Result) bool {
		err = p.deliver(item.Raw)
		return err == nil
	})
	return err
}

func (p *stdioPipe) deliver(text string) error {
	if text = p.tap.filter(text, nil); text == "" {
		return nil
	}
	text, kept := p.greeting.hear(text)
	if kept {
		p.after(func() {
			if m, err := jsonrpc.DecodeMessage([]byte(p.greeting.release())); err == nil {
				_ = p.pass(m)
			}
		})
	}
	return p.hand(text)
}

// hand gives a message to the SDK; "": nothing.
func (p *stdioPipe) hand(text string) error {
	if text == "" {
		return nil
	}
	m, err := jsonrpc.DecodeMessage([]byte(text))
	if err != nil {
		return p.garbled([]byte(text))
	}
	return p.pass(m)
}

func (p *stdioPipe) pass(m jsonrpc.Message) error {
	select {
	case p.incoming <- m:
		return nil
	case <-p.closed:
		return io.EOF
	}
}

// garbled counts what is no message, tells of the first, and gives up after many.
func (p *stdioPipe) garbled(line []byte) error {
	if p.garbage == 0 {
		p.tap.stray(p.odd(line, "what it prints on stdout is no message, and is skipped: a server over stdio must log to stderr"))
	}
	p.garbage++
	p.garbageBytes += len(line)
	if p.garbage > maxGarbage || p.garbageBytes > maxGarbageBytes {
		f := fault.New(fault.Unavailable, "its stdout holds no messages of MCP (%d lines that are none, such as %s): check its command and arguments",
			p.garbage, quoted(p.tap.scrub.excerpt(string(line), maxQuoted-len(ellipsis))))
		p.tap.giveUp(f)
		return f
	}
	return nil
}

// odd is a warning of what the server wrote.
func (p *stdioPipe) odd(line []byte, format string, args ...any) *fault.Error {
	f := fault.New(fault.BadJSON, "MCP server "+quoted(p.tap.name)+": "+format, args...)
	if len(line) > 0 {
		f.Message += "; it begins " + quoted(p.tap.scrub.excerpt(string(line), maxQuoted-len(ellipsis)))
	}
	return f
}

// Write implements sdk.Connection. A server that does not read its stdin holds up the writing of one message, not the
// caller: once ctx is done the rest of a message that has begun is written behind the caller's back, so that the next
// one does not begin in its middle.
func (c *stdioConn) Write(ctx context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	select {
	case c.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.left:
		return io.ErrClosedPipe
	case <-c.closed:
		return io.ErrClosedPipe
	}
	x := c.announce(ctx, m)
	n, err := c.writeUntil(ctx, data)
	if x != nil && n > 0 {
		x.leaves()
	}
	switch {
	case err != nil && errors.Is(err, os.ErrDeadlineExceeded) && n > 0:
		go func() {
			defer func() { <-c.writing }()
			if _, err := c.stdin.Write(data[n:]); err != nil {
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

// announce registers a request before its answer can come.
func (c *stdioConn) announce(ctx context.Context, m jsonrpc.Message) *exchange {
	request, ok := m.(*jsonrpc.Request)
	if !ok || !request.IsCall() {
		return nil
	}
	id, ok := request.ID.Raw().(int64)
	if !ok {
		return nil
	}
	if !c.second && (request.Method == methodDiscover || request.Method == methodInitialize) {
		c.greeting.sent(request.Method, id)
		if request.Method == methodDiscover {
			c.giveUpOn(request.ID)
		}
	}
	return c.tap.register(ctx, id)
}

// writeUntil writes data until ctx is done, and tells how much it has written.
func (p *stdioPipe) writeUntil(ctx context.Context, data []byte) (int, error) {
	if ctx.Done() == nil {
		return p.stdin.Write(data)
	}
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(fired)
		_ = p.stdin.SetWriteDeadline(time.Now()) // a pipe has deadlines; if not, the write goes on
	})
	n, err := p.stdin.Write(data)
	if !stop() {
		<-fired
		_ = p.stdin.SetWriteDeadline(time.Time{})
	}
	return n, err
}
