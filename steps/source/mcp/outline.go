package mcp

import "strconv"

// outline follows a JSON-RPC message that is too long to be kept, and finds the id of what it answers wherever that
// stands: some servers write it first, some last.
type outline struct {
	depth            int
	inString, escape bool
	expectKey        bool // in the outer object, the next string is a key
	key, value       []byte
	request          bool // it has a method: it is no answer
	id               []byte
}

// feed goes on with the next bytes.
func (o *outline) feed(chunk []byte) {
	for _, c := range chunk {
		if o.inString {
			o.inside(c)
			continue
		}
		switch c {
		case '"':
			o.inString = true
			if o.depth == 1 && o.expectKey {
				o.key = o.key[:0]
			} else {
				o.note(c)
			}
		case '{', '[':
			o.depth++
			o.expectKey = o.depth == 1
			o.value = o.value[:0]
		case '}', ']':
			if o.depth == 1 {
				o.member()
			}
			o.depth--
		case ':':
			if o.depth == 1 {
				o.expectKey, o.value = false, o.value[:0]
			}
		case ',':
			if o.depth == 1 {
				o.member()
				o.expectKey = true
			}
		case ' ', '\t', '\r', '\n':
		default:
			o.note(c)
		}
	}
}

// inside takes a byte of a string.
func (o *outline) inside(c byte) {
	switch {
	case o.escape:
		o.escape = false
	case c == '\\':
		o.escape = true
	case c == '"':
		o.inString = false
		return
	}
	if o.depth == 1 && o.expectKey && len(o.key) < maxIDLength {
		o.key = append(o.key, c)
	}
}

// maxIDLength is more than an id of ours, or a key that is looked for, is long.
const maxIDLength = 32

// note keeps the beginning of a value of the outer object.
func (o *outline) note(c byte) {
	if o.depth == 1 && !o.expectKey && len(o.value) < maxIDLength {
		o.value = append(o.value, c)
	}
}

// member ends a member of the outer object.
func (o *outline) member() {
	switch string(o.key) {
	case "method":
		o.request = true
	case "id":
		o.id = append(o.id[:0], o.value...)
	}
	o.key, o.value = o.key[:0], o.value[:0]
}

// answers is the id of the request that the message answers; false when it answers none of ours, whose ids are numbers.
func (o *outline) answers() (int64, bool) {
	if o.request {
		return 0, false
	}
	id, err := strconv.ParseInt(string(o.id), 10, 64)
	return id, err == nil
}
