package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// eventBody is a stream of server-sent events (HTML Living Standard, 9.2.6) with the tap in it. What is no event, and data
// that is not JSON, is left out; an event that is too long becomes an error of its call.
type eventBody struct {
	body   io.ReadCloser
	reader *bufio.Reader
	tap    *tap
	owner  *exchange // whose answer the stream is; nil: nobody's
	warn   func(*fault.Error)
	resume bool // the SDK takes ids and delays of events that have no data
	marked bool // it has had an event with an id, from which it can be resumed
	odd    bool // it was told that data is not JSON

	ended sync.Once
	rest  chan struct{} // closed at the end; nil: nobody waits for it

	out []byte // what is still to be read
	err error  // after that
}

// eventReaders are those that no stream is read with.
var eventReaders = sync.Pool{New: func() any { return bufio.NewReader(nil) }}

func newEventBody(body io.ReadCloser, t *tap, owner *exchange, o *Options) *eventBody {
	reader, _ := eventReaders.Get().(*bufio.Reader)
	reader.Reset(body)
	b := &eventBody{body: body, reader: reader, tap: t, owner: owner, warn: t.warn, resume: !o.SSE}
	if owner != nil {
		b.rest = owner.streamed()
	}
	return b
}

// Close implements io.Closer.
func (b *eventBody) Close() error {
	b.end()
	return b.body.Close()
}

// release gives the reader back. Only the one who reads does so: a stream may be closed while it is read.
func (b *eventBody) release() {
	b.reader.Reset(nil)
	eventReaders.Put(b.reader)
	b.reader = nil
}

// end tells that no more comes.
func (b *eventBody) end() {
	if b.rest != nil {
		b.ended.Do(func() {
			close(b.rest)
			if !b.marked {
				b.owner.cutOff()
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
		if b.out, b.err = b.next(); b.err != nil {
			b.release() // nothing more is read
		}
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

// next reads one event, its blank line included, and gives what the SDK is to read of it.
func (b *eventBody) next() ([]byte, error) {
	var event []byte
	start := 0 // of the line that is being read
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

// eventSlack is what an event may have beside its data.
const eventSlack = 4 << 10

// filtered is the event as the SDK is to read it.
func (b *eventBody) filtered(event []byte) []byte {
	var out, data []byte
	name := "message"
	lines, has := 0, false
	for line := range bytes.Lines(event) {
		line = bytes.TrimRight(line, "\r\n")
		key, value, found := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch {
		case !found || len(key) == 0: // a comment, or no field
			continue
		case string(key) == "data":
			if has = true; lines > 0 {
				data = append(append(data, ' '), value...) // a line's end between two tokens is a blank
			} else {
				data = value
			}
			lines++
			continue
		case string(key) == "event":
			name = string(value)
		case string(key) == "id":
			b.marked = b.marked || len(value) > 0
		}
		out = append(append(out, line...), '\n')
	}
	if has {
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

func (b *eventBody) message(text string) string {
	if text == "" {
		return ""
	}
	if !gjson.Valid(text) {
		if !b.odd {
			b.odd = true
			b.warn(fault.New(fault.BadJSON, "MCP server %q: what it sends in its event stream is not JSON, and is skipped; it begins %s",
				b.tap.name, quoted(b.tap.scrub.excerpt(text, maxQuoted-len(ellipsis)))))
		}
		return ""
	}
	return strings.ReplaceAll(b.tap.filter(text, b.owner), "\n", " ")
}

// skip reads an event that is too long to its end. event holds its beginning, whose last line begins at start, and chunk
// goes on from there.
func (b *eventBody) skip(event []byte, start int, chunk []byte, err error) ([]byte, error) {
	var o outline
	o.feed(event)
	begins := start == len(event)
	for !begins || err != nil || len(bytes.TrimRight(chunk, "\r\n")) > 0 { // to a blank line
		o.feed(chunk)
		if begins = err == nil; err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
		chunk, err = b.reader.ReadSlice('\n')
	}
	text := ""
	if id, ok := o.answers(); ok {
		text = b.tap.refuse(id, b.tap.tooLong())
	}
	if text == "" {
		b.warn(fault.New(fault.LimitExceeded, "MCP server %q: a message of more than the %d bytes that are allowed was dropped", b.tap.name, b.tap.max))
		return nil, err
	}
	return []byte("data: " + text + "\n\n"), err
}
