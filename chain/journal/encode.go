package journal

import (
	"encoding/binary"
	"slices"
)

// codec writes events, or reads them: what both do stands once, in event. A number is a varint; a text that comes again is its place
// among those before. An event of a read takes some 50 bytes.
type codec struct {
	data    []byte // what is written, or is still to be read
	reading bool
	broken  bool     // what is read was not written so
	known   []string // texts so far, the first few
	n       int      // of the event before
	at      int64
}

// maxKnown bounds the texts that are looked through for each one.
const maxKnown = 64

func newCodec(data []byte, reading bool) *codec {
	return &codec{data: data, reading: reading, known: []string{""}}
}

func encodeEvents(events []Event) []byte {
	c := newCodec(make([]byte, 0, 64*len(events)+64), false)
	for i := range events {
		c.event(&events[i])
	}
	return c.data
}

func decodeEvents(data []byte) (events []Event, err error) {
	for c := newCodec(data, true); len(c.data) > 0; {
		var e Event
		if c.event(&e); c.broken {
			return nil, errMalformed
		}
		events = append(events, e)
	}
	return events, nil
}

// event is the plain part of an event.
func (c *codec) event(e *Event) {
	n, at := e.N-c.n, e.At-c.at
	c.int(&n)
	c.int64(&at)
	c.n, c.at = c.n+n, c.at+at
	e.N, e.At = c.n, c.at
	c.text((*string)(&e.Kind))
	c.int(&e.Of)
	c.bytes(&e.Place)
	c.text(&e.Function)
	c.text(&e.Effect)
	c.bool(&e.Guessed)
	mac := string(e.MAC)
	if c.bytes(&mac); c.reading && mac != "" {
		e.MAC = []byte(mac)
	}
	c.int(&e.Ordinal)
	c.int(&e.Attempt)
	c.bytes(&e.Key)
	c.int64(&e.KeyUntil)
	c.int(&e.Undoes)
	c.bytes(&e.Scope)
	c.texts(&e.Approvals)
	c.text((*string)(&e.Outcome))
	c.text((*string)(&e.Code))
	c.int64(&e.Took)
	c.int(&e.Bytes)
	c.int(&e.Tokens)
}

func (c *codec) int64(v *int64) {
	if !c.reading {
		c.data = binary.AppendVarint(c.data, *v)
		return
	}
	n, size := binary.Varint(c.data)
	if size <= 0 {
		c.broken, c.data = true, nil
		return
	}
	*v, c.data = n, c.data[size:]
}

func (c *codec) int(v *int) {
	n := int64(*v)
	c.int64(&n)
	*v = int(n)
}

func (c *codec) bool(v *bool) {
	n := 0
	if *v {
		n = 1
	}
	c.int(&n)
	*v = n != 0
}

// bytes is a text of which no other is expected to be the same.
func (c *codec) bytes(v *string) {
	length := len(*v)
	c.int(&length)
	switch {
	case !c.reading:
		c.data = append(c.data, *v...)
	case length < 0 || length > len(c.data):
		c.broken, c.data = true, nil
	default:
		*v, c.data = string(c.data[:length]), c.data[length:]
	}
}

func (c *codec) text(v *string) {
	place := slices.Index(c.known, *v)
	if place < 0 {
		place = len(c.known)
	}
	c.int(&place)
	switch {
	case place == len(c.known):
		if c.bytes(v); len(c.known) < maxKnown {
			c.known = append(c.known, *v)
		}
	case place < 0 || place > len(c.known):
		c.broken, c.data = true, nil
	default:
		*v = c.known[place]
	}
}

func (c *codec) texts(v *[]string) {
	length := len(*v)
	c.int(&length)
	if length < 0 || c.reading && length > len(c.data) {
		c.broken, c.data = true, nil
		return
	}
	if c.reading && length > 0 {
		*v = make([]string, length)
	}
	for i := range *v {
		c.bytes(&(*v)[i])
	}
}
