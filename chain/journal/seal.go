package journal

import (
	"bytes"
	"crypto/hmac"
	"encoding/binary"
	"slices"
)

// field says what an encrypted text is.
type field byte

const (
	resultField field = iota + 1
	undoField
	chainField
	argsField
	messageField
	blockField // of an event with several blocks, one after another
)

// The plain part of a segment begins with a header: a zero byte, with which no encoded event begins, the id of the key, and a MAC that
// binds the plain part and what is retained to their place in the run. Only runs that versions without headers began have segments without
// one, which are read without these checks.
const (
	macOffset  = 1 + keyIDSize
	headerSize = macOffset + macSize
)

// sealEvents encodes events as a segment: the plain part, the results, and what is retained when the results are dropped.
func (k *keys) sealEvents(run string, lease int64, events []Event) *Segment {
	s := &Segment{Lease: lease, First: events[0].N, Events: encodeEvents(make([]byte, headerSize, headerSize+64*len(events)+64), events)}
	var results, retained []byte
	for i := range events {
		e := &events[i]
		if len(e.Blocks) > 0 { // large: they are copied once
			results = slices.Grow(results, e.resultSize()+k.seal.Overhead())
		}
		results = appendSecret(results, e.N, resultField, e.Result)
		for i := range e.Blocks {
			results = appendBlock(results, e.N, &e.Blocks[i])
		}
		retained = appendSecret(retained, e.N, undoField, e.Undo)
		retained = appendSecret(retained, e.N, chainField, e.Chain)
		retained = appendSecret(retained, e.N, argsField, e.Args)
		if e.Message != "" {
			retained = appendSecret(retained, e.N, messageField, []byte(e.Message))
		}
	}
	s.Results = k.sealInPlace(results, sealContext(run, s, "results"))
	s.Retained = k.sealText(retained, sealContext(run, s, "kept"))
	copy(s.Events[1:], k.id[:])
	copy(s.Events[macOffset:], k.segmentMAC(run, s))
	return s
}

// segmentMAC returns the MAC of a segment's plain part after its header, and of what is retained, which its own tag stands for.
func (k *keys) segmentMAC(run string, s *Segment) []byte {
	tag := s.Retained[max(0, len(s.Retained)-k.seal.Overhead()):]
	return k.macOf(sealContext(run, s, "events"), s.Events[headerSize:], tag)
}

// checkSegment checks the header of a segment, and returns the encoded events. older: the segment may have no header.
func (k *keys) checkSegment(run string, s *Segment, older bool) (encoded []byte, err error) {
	switch {
	case older && len(s.Events) > 0 && s.Events[0] != 0:
		return s.Events, nil
	case len(s.Events) < headerSize || s.Events[0] != 0:
		return nil, errDamaged
	case !bytes.Equal(s.Events[1:macOffset], k.id[:]):
		return nil, ErrOtherKey
	case !hmac.Equal(s.Events[macOffset:headerSize], k.segmentMAC(run, s)):
		return nil, errDamaged
	}
	return s.Events[headerSize:], nil
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

// openEvents decodes the events of a segment, including what is encrypted. older: see checkSegment.
func (k *keys) openEvents(run string, s *Segment, older bool) ([]Event, error) {
	encoded, err := k.checkSegment(run, s, older)
	if err != nil {
		return nil, err
	}
	events, err := decodeEvents(encoded)
	if err != nil {
		return nil, err
	}
	if !areNumbered(events, s) || slices.ContainsFunc(events, func(e Event) bool { return !e.isPossible() }) {
		return nil, errDamaged
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

// areNumbered reports whether events have the numbers that the segment says, one after another.
func areNumbered(events []Event, s *Segment) bool {
	for i := range events {
		if events[i].N != s.First+i || leaseOf(events[i].N) != s.Lease {
			return false
		}
	}
	return len(events) > 0
}

// fillSecrets sets the fields of events to the texts that appendSecret has written to plain.
func fillSecrets(events []Event, plain []byte) error {
	for len(plain) > 0 && len(events) > 0 {
		n, size := binary.Uvarint(plain)
		if size <= 0 || len(plain) == size {
			return errDamaged
		}
		f := field(plain[size])
		plain = plain[size+1:]
		length, size := binary.Uvarint(plain)
		if size <= 0 || uint64(len(plain)-size) < length {
			return errDamaged
		}
		text := plain[size : size+int(length) : size+int(length)]
		plain = plain[size+int(length):]
		i := int(n) - events[0].N // they are numbered without gaps
		if i < 0 || i >= len(events) {
			return errDamaged
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
		case messageField:
			e.Message = string(text)
		case blockField:
			block, err := decodeBlock(text)
			if err != nil {
				return err
			}
			e.Blocks = append(e.Blocks, block)
		}
	}
	return nil
}
