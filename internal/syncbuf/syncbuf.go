// Package syncbuf provides a buffer that a goroutine or process writes to while a test reads it, or waits for text in it.
package syncbuf

import (
	"bytes"
	"context"
	"regexp"
	"sync"
)

// Buffer is a bytes.Buffer that is safe for concurrent use. The zero value is empty.
type Buffer struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{} // closed at the next write; nil: no Await waits for it
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.written != nil {
		close(b.written)
		b.written = nil
	}
	return b.text.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Await waits until the text has times matches of what, and returns the submatches of the last one. It returns nil if ctx ends first.
func (b *Buffer) Await(ctx context.Context, what *regexp.Regexp, times int) []string {
	for {
		matches, written := b.find(what, times)
		if len(matches) == times {
			return matches[times-1]
		}
		select {
		case <-written:
		case <-ctx.Done():
			return nil
		}
	}
}

// find returns the first matches of what, and a channel that is closed when there may be more.
func (b *Buffer) find(what *regexp.Regexp, times int) (matches [][]string, written <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.written == nil {
		b.written = make(chan struct{})
	}
	return what.FindAllStringSubmatch(b.text.String(), times), b.written
}
