package transport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
)

// lineReader hands on the lines of a client that are messages. Each other one is answered with an error, and reading goes on:
// one bad line must not end a session.
type lineReader struct {
	in      io.ReadCloser
	reader  *bufio.Reader
	out     *sharedWriter
	longest int
	line    []byte // what is still to be handed on
}

func newLineReader(in io.ReadCloser, out *sharedWriter, longest int) *lineReader {
	return &lineReader{in: in, reader: bufio.NewReaderSize(in, 64<<10), out: out, longest: longest}
}

// Read implements io.Reader.
func (l *lineReader) Read(p []byte) (int, error) {
	for len(l.line) == 0 {
		line, wrong, err := l.next()
		if wrong != nil && wrong != nullIDError {
			if _, err := l.out.Write(append(wrong.answer(), '\n')); err != nil {
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

// next reads one line: the message in it with its end, or what is wrong with it; neither for an empty line.
func (l *lineReader) next() (message []byte, wrong *badMessage, err error) {
	var line []byte
	for {
		part, err := l.reader.ReadSlice('\n')
		if len(line)+len(part) > l.longest {
			return nil, &badMessage{code: codeRequest, message: fmt.Sprintf("the line is longer than %d bytes", l.longest)}, l.skip(err)
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			return nil, nil, err
		}
		if _, wrong := examine(line); wrong != nil {
			return nil, wrong, err
		}
		return append(line, '\n'), nil, err
	}
}

// skip reads to the end of a line.
func (l *lineReader) skip(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.reader.ReadSlice('\n')
	}
	return err
}

// Close implements io.Closer.
func (l *lineReader) Close() error { return l.in.Close() }

// sharedWriter is written to by several, a whole message at a time.
type sharedWriter struct {
	mu  sync.Mutex
	out io.WriteCloser
}

// Write implements io.Writer.
func (w *sharedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

// Close implements io.Closer. It does not wait for a write that goes on.
func (w *sharedWriter) Close() error { return w.out.Close() }
