package commands

import (
	"bytes"
	"os"
	"slices"
	"sync"
	"time"
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
