package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// eventBody filters a stream of server-sent events (HTML Living Standard, 9.2.6) through the tap. It drops malformed events and
// data that is not JSON. If an event is too long, its call gets an error instead.
type eventBody struct {
	body    io.ReadCloser
	reader  *bufio.Reader
	tap     *tap
	request *pendingRequest // the request that the stream answers; nil: none
	asked   int64           // its id, also of one that is not tracked; 0: none
	warn    func(*fault.Error)
	resume  bool   // the stream can be resumed, so the SDK needs ids and delays even of events without data
	lastID  string // last event id, from which the stream can be resumed; "": none
	delay   string // retry delay in milliseconds; "": the SDK's own
	warned  bool   // a warning about data that is not JSON was given

	ended     sync.Once
	streamEnd chan struct{} // closed at the end; nil: the stream answers no request

	out []byte // filtered events, not read yet
	err error  // the error to return after out
}

// eventReaders holds unused readers.
var eventReaders = sync.Pool{New: func() any { return bufio.NewReader(nil) }}

func newEventBody(body io.ReadCloser, t *tap, request *pendingRequest, asked int64, o *Options) *eventBody {
	reader, _ := eventReaders.Get().(*bufio.Reader)
	reader.Reset(body)
	b := &eventBody{body: body, reader: reader, tap: t, request: request, asked: asked, warn: t.warn, resume: !o.SSE}
	if request != nil {
		b.streamEnd = request.beginStream()
	}
	return b
}

// Close implements io.Closer.
func (b *eventBody) Close() error {
	b.end()
	return b.body.Close()
}

// release returns the reader to the pool. Only the reading goroutine may do so: a stream can be closed while it is read.
func (b *eventBody) release() {
	b.reader.Reset(nil)
	eventReaders.Put(b.reader)
	b.reader = nil
}

// end signals the end of the stream.
func (b *eventBody) end() {
	if b.streamEnd != nil {
		b.ended.Do(func() {
			close(b.streamEnd)
			if b.lastID == "" { // without an id the stream cannot be resumed
				b.request.endStream()
			}
		})
	}
}

// Read implements io.Reader.
func (b *eventBody) Read(p []byte) (int, error) {
	for len(b.out) == 0 {
		if b.err != nil {
			b.end()
			return 0, b.err
		}
		b.out = b.advance()
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

// advance reads one event and returns what the SDK should read of it. At the end it sets b.err.
func (b *eventBody) advance() (out []byte) {
	if out, b.err = b.next(); b.err != nil {
		b.release() // nothing more is read
	}
	return out
}

// resumption returns a response from which the SDK resumes this stream (MCP 2025-11-25, "Resumability and Redelivery").
func (b *eventBody) resumption() *http.Response {
	text := "id: " + b.lastID + "\n"
	if b.delay != "" {
		text += "retry: " + b.delay + "\n"
	}
	return eventStream(text + "\n")
}

// next reads one event with its blank line and returns what the SDK should read of it.
func (b *eventBody) next() ([]byte, error) {
	var event []byte
	start := 0 // the start of the current line
	for {
		chunk, err := b.reader.ReadSlice('\n')
		if int64(len(event)+len(chunk)) > b.tap.max+eventSlack {
			return b.skip(event, start, chunk, err)
		}
		event = append(event, chunk...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return b.filtered(event), io.EOF
		case err != nil:
			return nil, err
		}
		if len(bytes.TrimRight(event[start:], "\r\n")) == 0 {
			return b.filtered(event), nil
		}
		start = len(event)
	}
}

// eventSlack is the allowance for an event's fields other than its data.
const eventSlack = 4 << 10

// filtered returns the event as the SDK should read it; nil to drop it.
func (b *eventBody) filtered(event []byte) []byte {
	var out, data []byte
	name := "message"
	lines, hasData := 0, false
	for line := range bytes.Lines(event) {
		line = bytes.TrimRight(line, "\r\n")
		key, value, isField := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch {
		case !isField || len(key) == 0: // a comment or malformed
			continue
		case string(key) == "data":
			if hasData = true; lines > 0 {
				data = append(append(data, ' '), value...) // a line break between two JSON tokens
			} else {
				data = value
			}
			lines++
			continue
		case string(key) == "event":
			name = string(value)
		case string(key) == "id":
			if len(value) > 0 {
				b.lastID = string(value)
			}
		case string(key) == "retry":
			b.delay = string(value)
		}
		out = append(append(out, line...), '\n')
	}
	if hasData {
		text := string(data)
		if name == "message" {
			text = b.message(text)
		}
		switch {
		case text != "":
			out = append(append(append(out, "data: "...), text...), '\n')
		case !b.resume:
			return nil
		}
	}
	if len(out) == 0 {
		return nil
	}
	return append(out, '\n')
}

// message returns the data of an event as the SDK should read it; "" to drop it.
func (b *eventBody) message(text string) string {
	if text == "" {
		return ""
	}
	if !gjson.Valid(text) {
		if !b.warned {
			b.warned = true
			b.warn(fault.New(fault.BadJSON, "MCP server %q: data in its event stream that is not JSON is skipped; it begins %s",
				b.tap.name, quoted(b.tap.scrub.excerpt(text, maxQuoted-len(ellipsis)))))
		}
		return ""
	}
	return strings.ReplaceAll(b.tap.filter(text, b.request, b.asked), "\n", " ")
}

// skip drops the rest of an event that is too long. event holds its beginning, whose last line starts at start and continues in
// chunk. If the event answers a pending request, skip returns an error for that request in its place; else it warns.
func (b *eventBody) skip(event []byte, start int, chunk []byte, err error) ([]byte, error) {
	var ends headTail
	ends.write(event)
	atLineStart := start == len(event)
	for !atLineStart || err != nil || len(bytes.TrimRight(chunk, "\r\n")) > 0 { // skip to a blank line
		ends.write(chunk)
		if atLineStart = err == nil; err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
		chunk, err = b.reader.ReadSlice('\n')
	}
	text := ""
	if id, ok := ends.requestID(); ok {
		text = b.tap.refuse(id, b.tap.tooLong())
	}
	if text == "" {
		b.warn(fault.New(fault.LimitExceeded, "MCP server %q: a message of more than the %d bytes that are allowed "+
			"was dropped", b.tap.name, b.tap.max))
		return nil, err
	}
	return []byte("data: " + text + "\n\n"), err
}
