package transport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/tidwall/gjson"
)

// lineReader passes on the lines that are well-formed messages. It answers every other line with an error and reads on: one bad
// line must not end a session.
type lineReader struct {
	in       io.ReadCloser
	reader   *bufio.Reader
	out      *sharedWriter
	maxBytes int
	line     []byte // rest of the line that is being passed on
}

func newLineReader(in io.ReadCloser, out *sharedWriter, maxBytes int) *lineReader {
	return &lineReader{in: in, reader: bufio.NewReaderSize(in, 64<<10), out: out, maxBytes: maxBytes}
}

// Read implements io.Reader.
func (l *lineReader) Read(p []byte) (int, error) {
	for len(l.line) == 0 {
		line, bad, err := l.next()
		if bad != nil && bad != nullIDError { // a nullIDError is dropped
			if _, err := l.out.Write(append(bad.answer(), '\n')); err != nil {
				return 0, err
			}
		}
		if l.line = line; len(line) == 0 && err != nil {
			return 0, err
		}
	}
	n := copy(p, l.line)
	l.line = l.line[n:]
	return n, nil
}

// next reads one line. It returns a message with its newline, or what is wrong with the line, or neither for an empty line.
func (l *lineReader) next() (message []byte, bad *badMessage, err error) {
	var line []byte
	for {
		piece, err := l.reader.ReadSlice('\n')
		if len(line)+len(piece) > l.maxBytes {
			return nil, tooLong(append(line, piece...), l.maxBytes), l.skip(err)
		}
		line = append(line, piece...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			return nil, nil, err
		}
		if _, bad := parseEnvelope(line); bad != nil {
			return nil, bad, err
		}
		return append(line, '\n'), nil, err
	}
}

// tooLong is the fault of a line of more than maxBytes bytes, with the id of its request if both stand in its beginning.
func tooLong(beginning []byte, maxBytes int) *badMessage {
	m := &badMessage{code: codeRequest, message: fmt.Sprintf("the message has more than %d bytes: send less, or raise limits.maxRequestBytes, "+
		"to which %d bytes are added for what surrounds a call", maxBytes, envelopeSize)}
	id, method := gjson.GetBytes(beginning, "id"), gjson.GetBytes(beginning, "method")
	cut := id.Index+len(id.Raw) >= len(beginning)
	if method.Type == gjson.String && validID(id) && !cut { // without a method it may be a response, whose id is that of another request
		m.id = id.Raw
	}
	return m
}

// skip reads the rest of a line that is too long. err is the error of the last read; skip returns the error of the read that reached the
// end of the line.
func (l *lineReader) skip(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.reader.ReadSlice('\n')
	}
	return err
}

// Close implements io.Closer.
func (l *lineReader) Close() error { return l.in.Close() }

// sharedWriter serializes the writes of several goroutines, each a whole message.
type sharedWriter struct {
	mu  sync.Mutex
	out io.WriteCloser
}

// Write implements io.Writer.
func (w *sharedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n, err := w.out.Write(undisguised(p)); err != nil {
		return min(n, len(p)), err
	}
	return len(p), nil
}

// Close implements io.Closer. It does not wait for a running write.
func (w *sharedWriter) Close() error { return w.out.Close() }
