package journal

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// field says what an encrypted text is.
type field byte

const (
	resultField field = iota + 1
	undoField
	chainField
	argsField
)

// sealEvents encodes events as a segment: the plain part, the results, and what is retained when the results are dropped.
func (k *keys) sealEvents(run string, lease int64, events []Event) *Segment {
	s := &Segment{Lease: lease, First: events[0].N, Events: encodeEvents(events)}
	var results, retained []byte
	for i := range events {
		e := &events[i]
		results = appendSecret(results, e.N, resultField, e.Result)
		retained = appendSecret(retained, e.N, undoField, e.Undo)
		retained = appendSecret(retained, e.N, chainField, e.Chain)
		retained = appendSecret(retained, e.N, argsField, e.Args)
	}
	s.Results = k.sealText(results, sealContext(run, s, "results"))
	s.Retained = k.sealText(retained, sealContext(run, s, "kept"))
	return s
}

// appendSecret appends a text with its event's number and its field. A nil text is left out.
func appendSecret(dst []byte, n int, f field, text []byte) []byte {
	if text == nil {
		return dst
	}
	dst = slices.Grow(dst, len(text)+2*binary.MaxVarintLen64+1)
	dst = append(binary.AppendUvarint(dst, uint64(n)), byte(f))
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// openEvents decodes the events of a segment, including what is encrypted.
func (k *keys) openEvents(run string, s *Segment) ([]Event, error) {
	events, err := decodeEvents(s.Events)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(events, func(e Event) bool { return !e.isPossible() }) {
		return nil, errMalformed
	}
	for _, section := range []struct {
		sealed []byte
		name   string
	}{{s.Results, "results"}, {s.Retained, "kept"}} {
		plain, err := k.openText(section.sealed, sealContext(run, s, section.name))
		if err != nil {
			return nil, err
		}
		if err := fillSecrets(events, plain); err != nil {
			return nil, err
		}
	}
	return events, nil
}

var errMalformed = fmt.Errorf("%w: a segment is malformed", ErrUnreadable)

// fillSecrets sets the fields of events to the texts that appendSecret has written to plain.
func fillSecrets(events []Event, plain []byte) error {
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
