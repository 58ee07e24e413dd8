package cli

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// lineQueue writes to where somebody may not read: what it is given waits there, and nobody else does. Where too much waits,
// lines are given up and counted.
type lineQueue struct {
	to    io.Writer
	wake  *sync.Cond    // with mu
	ended chan struct{} // closed when nothing is written any more

	mu      sync.Mutex
	waiting [][]byte
	bytes   int // that wait, and those that are being written
	dropped int // lines, ever
	told    int // of them, that were told of
	state   lineState
	logs    *logs // where that is told; nil: nowhere yet
}

type lineState int

const (
	linesOpen   lineState = iota
	linesEnding           // what waits is written
	linesPassed           // nothing waits any more: lines are written at once
	linesLost             // nobody has read them in time
)

// Bounds of what waits, and of the time in which it is written at the end.
const (
	maxWaiting = 1 << 20
	linesTime  = time.Second
)

func newLineQueue(to io.Writer) *lineQueue {
	q := &lineQueue{to: to, ended: make(chan struct{})}
	q.wake = sync.NewCond(&q.mu)
	go q.run()
	return q
}

// tell has it logged how many lines were given up, once others are read again.
func (q *lineQueue) tell(l *logs) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.logs = l
}

// Dropped is how many lines were given up.
func (q *lineQueue) Dropped() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// Write implements io.Writer. It waits for nobody while the server runs.
func (q *lineQueue) Write(lines []byte) (int, error) {
	q.mu.Lock()
	switch {
	case q.state == linesPassed:
		q.mu.Unlock()
		return q.to.Write(lines)
	case q.state == linesLost || q.bytes > 0 && q.bytes+len(lines) > maxWaiting:
		q.dropped += max(bytes.Count(lines, []byte("\n")), 1)
	default:
		q.waiting = append(q.waiting, bytes.Clone(lines))
		q.bytes += len(lines)
		q.wake.Signal()
	}
	q.mu.Unlock()
	return len(lines), nil
}

// run writes what waits until the end.
func (q *lineQueue) run() {
	defer close(q.ended)
	for {
		batch, more := q.take()
		if !more {
			return
		}
		for _, lines := range batch {
			_, _ = q.to.Write(lines) // nobody could be told
			q.mu.Lock()
			q.bytes -= len(lines)
			q.mu.Unlock()
		}
		q.tellOfDropped()
	}
}

// take waits for what is to be written; false at the end.
func (q *lineQueue) take() (batch [][]byte, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 {
		if q.state == linesEnding {
			q.state = linesPassed
		}
		if q.state != linesOpen {
			return nil, false
		}
		q.wake.Wait()
	}
	batch, q.waiting = q.waiting, nil
	return batch, true
}

func (q *lineQueue) tellOfDropped() {
	q.mu.Lock()
	n, logs := q.dropped-q.told, q.logs
	if logs == nil {
		n = 0
	}
	q.told += n
	q.mu.Unlock()
	if n > 0 {
		logs.logger().Warn("lines of this log were given up, as nobody read it", "lines", n)
	}
}

// Close writes what waits, for 1 s at most. Lines that come later are written at once, if all the others were.
func (q *lineQueue) Close() {
	q.mu.Lock()
	if q.state == linesOpen {
		q.state = linesEnding
	}
	q.wake.Signal()
	q.mu.Unlock()
	timer := time.NewTimer(linesTime)
	defer timer.Stop()
	select {
	case <-q.ended:
	case <-timer.C:
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.state == linesEnding {
			q.state = linesLost
		}
	}
}
