package files

import (
	"bytes"
	"context"
	"errors"
	"io"
)

// window is how much of a file is searched at a time, unless its lines are longer.
const window = 128 << 10

var (
	errBinary   = errors.New("the file holds NUL bytes")
	errLongLine = errors.New("a line is longer than the bound")
)

// scanner searches files one after the other, each in windows that end at line breaks, with one buffer.
type scanner struct {
	finder      *finder
	buf         []byte
	maxBytes    int // limit of buf's growth
	definitions int // as in pattern

	lines, counted int // lines is the number of line breaks in the file before buf[counted]
}

func newScanner(p *pattern, maxBytes int64) *scanner {
	return &scanner{finder: newFinder(p), buf: make([]byte, min(window, maxBytes)), maxBytes: int(maxBytes), definitions: p.definitions}
}

// scan calls visit for each matching line of r, until visit returns false. size is the file's size; 0: unknown. The line's positions are in
// text, which includes at least contextLines lines before and after the line if the file has them and they fit in maxBytes. visit must not
// retain the text. scan fails with errBinary if what it reads contains a NUL, possibly after calls of visit, and with errLongLine if a line
// does not fit in maxBytes.
func (s *scanner) scan(ctx context.Context, r io.Reader, size int64, contextLines int, visit func(text []byte, l line) bool) error {
	s.lines, s.counted = 0, 0
	if size > 0 { // 0 may be a system file whose size is unknown
		r = io.LimitReader(r, size)
	}
	n, searched, first := 0, 0, true // the bytes in s.buf; how many of them were searched; before the first read
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		buf := s.buf[n:]
		if first && size > 0 && size < int64(len(buf)) {
			buf = buf[:size+1] // one extra byte shows the end without another system call
		}
		m, err := io.ReadFull(r, buf)
		if first {
			r, m, err = skipMark(r, buf, m, err)
			first = false
		}
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ended {
			return err
		}
		if bytes.IndexByte(buf[:m], 0) >= 0 {
			return errBinary
		}
		n += m
		end := n
		if !ended {
			if end = s.boundary(searched, n, contextLines); end <= searched {
				if n == len(s.buf) && !s.grow() {
					if searched == 0 {
						return errLongLine
					}
					dropped := bytes.IndexByte(s.buf, '\n') + 1 // the first line of the context makes room for the next line
					n, searched = s.drop(dropped, n), searched-dropped
				}
				continue
			}
		}
		if more := s.search(ctx, searched, end, n, visit); !more || ended {
			return ctx.Err()
		}
		keep := linesBefore(s.buf, end, contextLines)
		n, searched = s.drop(keep, n), end-keep
	}
}

// skipMark removes the byte order mark from the start of a file, of which buf[:n] was read. It reads UTF-16 again, as UTF-8.
func skipMark(r io.Reader, buf []byte, n int, err error) (io.Reader, int, error) {
	head := buf[:n]
	if encodingOf(head) != "" {
		r = fromUTF16(io.MultiReader(bytes.NewReader(bytes.Clone(head)), r))
		n, err = io.ReadFull(r, buf)
	} else if bytes.HasPrefix(head, utf8BOM) {
		n = copy(buf, head[len(utf8BOM):])
	}
	return r, n, err
}

// search visits the matching lines in buf[from:end]; buf[:n] is the text around them. It returns false if visit did. If ctx is done, it
// stops early and returns true.
func (s *scanner) search(ctx context.Context, from, end, n int, visit func(text []byte, l line) bool) bool {
	s.finder.reset(s.buf[:end])
	for {
		l, ok := s.finder.find(ctx, from)
		if !ok {
			return true
		}
		if !visit(s.buf[:n], l) {
			return false
		}
		from = l.next
	}
}

// boundary returns the end of the last line in buf[:n] that is followed by contextLines whole lines. If that leaves nothing to search
// and the buffer has its maximum size, it returns the end of the last whole line. A result of at most searched means that there is no
// such line.
func (s *scanner) boundary(searched, n, contextLines int) int {
	last := bytes.LastIndexByte(s.buf[:n], '\n') + 1
	end := linesBefore(s.buf, last, contextLines)
	if end <= searched && len(s.buf) >= s.maxBytes {
		return last
	}
	return end
}

// grow doubles the buffer; false: it may not grow further.
func (s *scanner) grow() bool {
	if len(s.buf) >= s.maxBytes {
		return false
	}
	bigger := make([]byte, min(2*len(s.buf), s.maxBytes))
	copy(bigger, s.buf)
	s.buf = bigger
	return true
}

// drop removes the first bytes of buf[:n], counts their lines, and returns how many bytes are left.
func (s *scanner) drop(bytes, n int) int {
	if s.counted < bytes {
		s.number(bytes)
	}
	s.counted -= bytes
	return copy(s.buf, s.buf[bytes:n])
}

// number returns the number, from 1, of the line at buf[start]; starts must not decrease within a file.
func (s *scanner) number(start int) int {
	s.lines += bytes.Count(s.buf[s.counted:start], []byte{'\n'})
	s.counted = start
	return s.lines + 1
}

// linesBefore returns the start of the n-th line before the one at text[start]; 0 if there are fewer.
func linesBefore(text []byte, start, n int) int {
	for ; n > 0 && start > 0; n-- {
		start = bytes.LastIndexByte(text[:start-1], '\n') + 1
	}
	return start
}
