package journal

import (
	"encoding/binary"
	"slices"
)

// codec writes or reads events; the method event does both. Numbers are varints. A repeated text is encoded as its index among the texts
// so far. The event of a read takes about 50 bytes.
type codec struct {
	data      []byte // the output, or the rest of the input
	reading   bool
	malformed bool     // the input is not valid
	texts     []string // the shared texts so far, at most maxTexts
	n         int      // the number of the previous event
	at        int64    // the time of the previous event
}

// maxTexts bounds codec.texts, which is searched for each shared text.
const maxTexts = 64

func newCodec(data []byte, reading bool) *codec {
	return &codec{data: data, reading: reading, texts: []string{""}}
}

// encodeEvents appends events to dst.
func encodeEvents(dst []byte, events []Event) []byte {
	c := newCodec(dst, false)
	for i := range events {
		c.event(&events[i])
	}
	return c.data
}

func decodeEvents(data []byte) (events []Event, err error) {
	for c := newCodec(data, true); len(c.data) > 0; {
		var e Event
		if c.event(&e); c.malformed {
			return nil, errDamaged
		}
		events = append(events, e)
	}
	return events, nil
}

// event encodes or decodes the part of an event that is not encrypted.
func (c *codec) event(e *Event) {
	n, at := e.N-c.n, e.At-c.at
	c.int(&n)
	c.int64(&at)
	c.n, c.at = c.n+n, c.at+at
	e.N, e.At = c.n, c.at
	c.sharedText((*string)(&e.Kind))
	c.int(&e.Of)
	c.uniqueText(&e.StepPath)
	c.sharedText(&e.Function)
	c.sharedText(&e.Effect)
	c.bool(&e.EffectAssumed)
	mac := string(e.MAC)
	if c.uniqueText(&mac); c.reading && mac != "" {
		e.MAC = []byte(mac)
	}
	c.int(&e.Ordinal)
	c.int(&e.Attempt)
	c.uniqueText(&e.Key)
	c.int64(&e.KeyUntil)
	c.int(&e.Undoes)
	c.uniqueText(&e.Scope)
	c.stringList(&e.Approvals)
	c.sharedText((*string)(&e.Outcome))
	c.sharedText((*string)(&e.Code))
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
		c.malformed, c.data = true, nil
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

// uniqueText is for texts that are unlikely to be repeated.
func (c *codec) uniqueText(v *string) {
	length := len(*v)
	c.int(&length)
	switch {
	case !c.reading:
		c.data = append(c.data, *v...)
	case length < 0 || length > len(c.data):
		c.malformed, c.data = true, nil
	default:
		*v, c.data = string(c.data[:length]), c.data[length:]
	}
}

// sharedText is for texts that are likely to be repeated. A new text follows its index.
func (c *codec) sharedText(v *string) {
	index := slices.Index(c.texts, *v)
	if index < 0 {
		index = len(c.texts)
	}
	c.int(&index)
	switch {
	case index == len(c.texts):
		if c.uniqueText(v); len(c.texts) < maxTexts {
			c.texts = append(c.texts, *v)
		}
	case index < 0 || index > len(c.texts):
		c.malformed, c.data = true, nil
	default:
		*v = c.texts[index]
	}
}

func (c *codec) stringList(v *[]string) {
	length := len(*v)
	c.int(&length)
	if length < 0 || c.reading && length > len(c.data) {
		c.malformed, c.data = true, nil
		return
	}
	if c.reading && length > 0 {
		*v = make([]string, length)
	}
	for i := range *v {
		c.uniqueText(&(*v)[i])
	}
}
