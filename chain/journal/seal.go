package journal

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// field is what an encrypted text is for.
type field byte

const (
	resultField field = iota + 1
	undoField
	chainField
	argsField
)

// sealEvents splits events into a segment: what is plain, results, and what is kept when results go.
func (k *keys) sealEvents(run string, lease int64, events []Event) *Segment {
	s := &Segment{Lease: lease, First: events[0].N, Events: encodeEvents(events)}
	var results, kept []byte
	for i := range events {
		e := &events[i]
		results = appendSecret(results, e.N, resultField, e.Result)
		kept = appendSecret(kept, e.N, undoField, e.Undo)
		kept = appendSecret(kept, e.N, chainField, e.Chain)
		kept = appendSecret(kept, e.N, argsField, e.Args)
	}
	s.Results = k.close(results, place(run, s, "results"))
	s.Kept = k.close(kept, place(run, s, "kept"))
	return s
}

func appendSecret(dst []byte, n int, f field, text []byte) []byte {
	if text == nil {
		return dst
	}
	dst = slices.Grow(dst, len(text)+2*binary.MaxVarintLen64+1)
	dst = append(binary.AppendUvarint(dst, uint64(n)), byte(f))
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// openEvents gives the events of a segment, with what is encrypted in it.
func (k *keys) openEvents(run string, s *Segment) ([]Event, error) {
	events, err := decodeEvents(s.Events)
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		sealed []byte
		name   string
	}{{s.Results, "results"}, {s.Kept, "kept"}} {
		plain, err := k.open(part.sealed, place(run, s, part.name))
		if err != nil {
			return nil, err
		}
		if err := fill(events, plain); err != nil {
			return nil, err
		}
	}
	return events, nil
}

var errMalformed = fmt.Errorf("%w: a segment is malformed", ErrUnreadable)

func fill(events []Event, plain []byte) error {
	for len(plain) > 0 && len(events) > 0 {
		n, size := binary.Uvarint(plain)
		if size <= 0 || len(plain) == size {
			return errMalformed
		}
		f := field(plain[size])
		plain = plain[size+1:]
		length, size := binary.Uvarint(plain)
		if size <= 0 || uint64(len(plain)-size) < length {
			return errMalformed
		}
		text := plain[size : size+int(length) : size+int(length)]
		plain = plain[size+int(length):]
		i := int(n) - events[0].N // they are numbered without gaps
		if i < 0 || i >= len(events) {
			return errMalformed
		}
		switch e := &events[i]; f {
		case resultField:
			e.Result = text
		case undoField:
			e.Undo = text
		case chainField:
			e.Chain = text
		case argsField:
			e.Args = text
		}
	}
	return nil
}
