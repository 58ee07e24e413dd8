package commands

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
)

// maxTailBytes is how much of the end of a longer output is kept.
const maxTailBytes = 64 << 10

// output is what a program wrote to one stream: its beginning, its end, and how much it was in all.
type output struct {
	limit int64 // the bytes of head

	mu    sync.Mutex
	head  []byte
	tail  []byte // what follows head; only its last maxTailBytes count
	bytes int64
	lines int64
}

// write adds a piece of the stream.
func (o *output) write(piece []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes += int64(len(piece))
	o.lines += int64(bytes.Count(piece, []byte{'\n'}))
	n := int(min(o.limit-int64(len(o.head)), int64(len(piece))))
	if n > cap(o.head)-len(o.head) { // doubled, but never beyond the limit
		o.head = slices.Grow(o.head, max(n, int(min(o.limit-int64(len(o.head)), int64(len(o.head))))))
	}
	o.head = append(o.head, piece[:n]...)
	o.tail = append(o.tail, piece[n:]...)
	if over := len(o.tail) - maxTailBytes; over > maxTailBytes { // only now, so that not every piece moves the tail
		o.tail = append(o.tail[:0], o.tail[over:]...)
	}
}

// kept is what is kept of an output.
type kept struct {
	head, tail     []byte // tail: the end of an output that is longer than head
	lines, omitted int64
}

// kept returns what is kept of an output. Where it is cut, parts of lines are left out, unless there is nothing else.
func (o *output) kept() kept {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := kept{head: o.head, lines: o.lines}
	if n := o.bytes; n > 0 && !o.endsLine() {
		k.lines++
	}
	if int64(len(o.head)) == o.bytes {
		return k
	}
	if end := bytes.LastIndexByte(k.head, '\n'); end >= 0 {
		k.head = k.head[:end+1]
	} else {
		k.head = wholeRunes(k.head)
	}
	k.tail = slices.Concat(o.head[len(k.head):], o.tail)
	k.tail = k.tail[max(len(k.tail)-maxTailBytes, 0):]
	if int64(len(k.head)+len(k.tail)) < o.bytes || !bytes.HasSuffix(k.head, []byte{'\n'}) { // the tail begins within a line
		if start := bytes.IndexByte(k.tail, '\n'); start >= 0 && start+1 < len(k.tail) {
			k.tail = k.tail[start+1:]
		}
	}
	k.omitted = o.bytes - int64(len(k.head))
	return k
}

func (o *output) endsLine() bool {
	if n := len(o.tail); n > 0 {
		return o.tail[n-1] == '\n'
	}
	return o.head[len(o.head)-1] == '\n'
}

// wholeRunes cuts a character off that does not end in text.
func wholeRunes(text []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax, len(text)); i++ {
		if at := len(text) - i; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return text[:at]
			}
			break
		}
	}
	return text
}

// last returns the last n lines.
func (k *kept) last(n int) []string {
	text := k.tail
	if k.omitted == 0 {
		text = k.head
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	start := len(text)
	for ; n > 0 && start >= 0; n-- {
		start = bytes.LastIndexByte(text[:start], '\n')
	}
	lines := strings.Split(string(text[start+1:]), "\n")
	for i := range lines {
		lines[i] = fault.Clip(strings.TrimSuffix(lines[i], "\r"), maxLineBytes)
	}
	return lines
}

// reader reads a stream into an output.
type reader struct {
	pipe *os.File
	done chan struct{}
}

// read begins to read a pipe, which it closes at its end.
func read(pipe *os.File, into *output) *reader {
	r := &reader{pipe, make(chan struct{})}
	go func() {
		defer close(r.done)
		defer pipe.Close()
		piece := make([]byte, 32<<10)
		for {
			n, err := pipe.Read(piece)
			into.write(piece[:n])
			if err != nil {
				return
			}
		}
	}()
	return r
}

// finish waits until the stream is read to its end, but not longer than grace: then a process that cannot be ended holds the pipe.
func (r *reader) finish(grace time.Duration) {
	_ = r.pipe.SetReadDeadline(time.Now().Add(grace))
	select {
	case <-r.done:
	case <-time.After(2 * grace): // the system knows no deadlines of pipes
	}
}
