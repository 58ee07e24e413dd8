package mcpsource

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

// discoverPatience is how long a server over stdio may take to answer server/discover, which versions before 2026-07-28
// do not know. Most answer at once that they do not; a few say nothing.
const discoverPatience = time.Second

// stdioTransport connects to a server over the pipes of a child process: messages of one line each (MCP 2025-11-25,
// "stdio").
type stdioTransport struct {
	tap           *tap
	stdin, stdout *os.File
	patience      time.Duration
}

// Connect implements sdk.Transport.
func (t *stdioTransport) Connect(context.Context) (sdk.Connection, error) {
	c := &stdioConn{
		tap: t.tap, stdin: t.stdin, reader: bufio.NewReaderSize(t.stdout, 64<<10), patience: t.patience,
		incoming: make(chan jsonrpc.Message), failed: make(chan struct{}), closed: make(chan struct{}),
		writing: make(chan struct{}, 1),
	}
	go c.read()
	return c, nil
}

// stdioConn is one connection. Its reading goroutine ends when stdout does, which the process's end brings about.
type stdioConn struct {
	tap      *tap
	stdin    *os.File
	reader   *bufio.Reader
	patience time.Duration

	incoming chan jsonrpc.Message
	failed   chan struct{} // closed after failure is set
	failure  error
	closed   chan struct{}
	once     sync.Once
	writing  chan struct{} // holds a token while a message is written

	garbage, garbageBytes int
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
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close implements sdk.Connection. Closing stdin asks the server to leave; its process is ended by whoever started it.
func (c *stdioConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		_ = c.stdin.Close() // the process may have closed it: then there is nobody to tell
	})
	return nil
}

// read takes messages off stdout until it ends or holds too much else.
func (c *stdioConn) read() {
	for {
		line, err := c.line()
		if err == nil {
			err = c.take(line)
		}
		if err != nil {
			c.failure = err
			close(c.failed)
			return
		}
	}
}

// line reads one line without its end. A line that is too long is read to its end and dropped: what comes back is the
// answer that the SDK gets for the call that it belongs to, or nothing.
func (c *stdioConn) line() ([]byte, error) {
	var line []byte
	for {
		chunk, err := c.reader.ReadSlice('\n')
		if int64(len(line)+len(chunk)) > c.tap.max+2 { // and the line's end
			return c.skip(line, chunk, err)
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

func (c *stdioConn) skip(line, chunk []byte, err error) ([]byte, error) {
	var o outline
	o.feed(line)
	o.feed(chunk)
	for errors.Is(err, bufio.ErrBufferFull) {
		chunk, err = c.reader.ReadSlice('\n')
		o.feed(chunk)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if id, ok := o.answers(); ok {
		if text := c.tap.refuse(id, c.tap.tooLong()); text != "" {
			return []byte(text), nil
		}
	}
	c.odd(line, "a message of more than the %d bytes that are allowed was dropped", c.tap.max)
	return nil, nil
}

// take hands the messages of a line to the SDK.
func (c *stdioConn) take(line []byte) error {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil
	}
	if line[0] != '{' && line[0] != '[' || !gjson.ValidBytes(line) {
		return c.garbled(line)
	}
	c.garbage, c.garbageBytes = 0, 0
	text := string(line)
	if line[0] == '{' {
		return c.deliver(text)
	}
	var err error // versions before 2025-06-18 have batches
	gjson.Parse(text).ForEach(func(_, item gjson.Result) bool {
		err = c.deliver(item.Raw)
		return err == nil
	})
	return err
}

func (c *stdioConn) deliver(text string) error {
	if text = c.tap.filter(text, nil); text == "" {
		return nil
	}
	m, err := jsonrpc.DecodeMessage([]byte(text))
	if err != nil {
		return c.garbled([]byte(text))
	}
	return c.pass(m)
}

func (c *stdioConn) pass(m jsonrpc.Message) error {
	select {
	case c.incoming <- m:
		return nil
	case <-c.closed:
		return io.EOF
	}
}

// garbled counts what is no message, tells of the first, and gives up after many.
func (c *stdioConn) garbled(line []byte) error {
	if c.garbage == 0 {
		c.odd(line, "what it prints on stdout is no message, and is skipped: a server over stdio must log to stderr")
	}
	c.garbage++
	c.garbageBytes += len(line)
	if c.garbage > maxGarbage || c.garbageBytes > maxGarbageBytes {
		f := fault.New(fault.Unavailable, "its stdout holds no messages of MCP (%d lines that are none, such as %s): check its command and arguments",
			c.garbage, quoted(c.tap.scrub.excerpt(string(line), maxQuoted-len(ellipsis))))
		c.tap.giveUp(f)
		return f
	}
	return nil
}

func (c *stdioConn) odd(line []byte, format string, args ...any) {
	f := fault.New(fault.BadJSON, "MCP server "+c.tap.name+": "+format, args...)
	if len(line) > 0 {
		f.Message += "; it begins " + quoted(c.tap.scrub.excerpt(string(line), maxQuoted-len(ellipsis)))
	}
	c.tap.warn(f)
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
				_ = c.Close() // the stream is broken
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
	if request.Method == "server/discover" {
		c.giveUpOn(request.ID)
	}
	return c.tap.register(ctx, id)
}

// giveUpOn answers a request in the server's place if it has not been answered after a while.
func (c *stdioConn) giveUpOn(id jsonrpc.ID) {
	go func() {
		timer := time.NewTimer(c.patience)
		defer timer.Stop()
		select {
		case <-timer.C:
			_ = c.pass(&jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no answer"}})
		case <-c.failed:
		case <-c.closed:
		}
	}()
}

// writeUntil writes data until ctx is done, and tells how much it has written.
func (c *stdioConn) writeUntil(ctx context.Context, data []byte) (int, error) {
	if ctx.Done() == nil {
		return c.stdin.Write(data)
	}
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(fired)
		_ = c.stdin.SetWriteDeadline(time.Now()) // a pipe has deadlines; if not, the write goes on
	})
	n, err := c.stdin.Write(data)
	if !stop() {
		<-fired
		_ = c.stdin.SetWriteDeadline(time.Time{})
	}
	return n, err
}
