package logline

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Queue is a writer that, as long as it is open, does not wait for the reader of the log: lines wait in memory. When too many wait, new
// lines are dropped and counted.
type Queue struct {
	to    io.Writer
	wake  *sync.Cond    // its lock is mu
	ended chan struct{} // closed when run has ended

	mu       sync.Mutex
	waiting  [][]byte
	bytes    int // the size of the lines that wait or are being written
	dropped  int // the number of lines dropped since the start
	reported int // how many of the dropped lines the log has reported
	state    queueState
	log      *slog.Logger // logs the number of dropped lines; nil: not set yet
}

type queueState int

const (
	queueOpen    queueState = iota
	queueClosing            // waiting lines are being written
	queueClosed             // no line waits: new ones are written at once
	queueLost               // the reader did not read in time
)

const (
	maxWaiting   = 1 << 20     // bytes of the waiting lines
	closeTimeout = time.Second // how long Close writes them
)

// NewQueue returns a queue in front of a writer. The caller closes it.
func NewQueue(to io.Writer) *Queue {
	q := &Queue{to: to, ended: make(chan struct{})}
	q.wake = sync.NewCond(&q.mu)
	go q.run()
	return q
}

// ReportTo sets a logger that writes to the queue. When lines were dropped and others can be written again, the queue logs with it how many
// were dropped.
func (q *Queue) ReportTo(log *slog.Logger) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.log = log
}

// Dropped returns the number of lines that were dropped.
func (q *Queue) Dropped() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// Write implements io.Writer. It does not wait, unless the queue was closed and all its lines were written: then it writes at once. Lines
// of any length are accepted while no others wait or are being written.
func (q *Queue) Write(lines []byte) (int, error) {
	q.mu.Lock()
	switch {
	case q.state == queueClosed:
		q.mu.Unlock()
		return q.to.Write(lines)
	case q.state == queueLost || q.bytes > 0 && q.bytes+len(lines) > maxWaiting:
		q.dropped += max(bytes.Count(lines, []byte("\n")), 1)
	default:
		q.waiting = append(q.waiting, bytes.Clone(lines))
		q.bytes += len(lines)
		q.wake.Signal()
	}
	q.mu.Unlock()
	return len(lines), nil
}

// run writes the waiting lines until the queue is closed.
func (q *Queue) run() {
	defer close(q.ended)
	for {
		batch, ok := q.takeBatch()
		if !ok {
			return
		}
		for _, lines := range batch {
			_, _ = q.to.Write(lines) // there is nowhere to report an error
			q.mu.Lock()
			q.bytes -= len(lines)
			q.mu.Unlock()
		}
		q.reportDropped()
	}
}

// takeBatch waits for lines to write. more is false at the end.
func (q *Queue) takeBatch() (batch [][]byte, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 {
		if q.state == queueClosing {
			q.state = queueClosed
		}
		if q.state != queueOpen {
			return nil, false
		}
		q.wake.Wait()
	}
	batch, q.waiting = q.waiting, nil
	return batch, true
}

// reportDropped logs how many lines were dropped since the last report, if any were and a logger is set.
func (q *Queue) reportDropped() {
	q.mu.Lock()
	n, log := q.dropped-q.reported, q.log
	if log == nil {
		n = 0
	}
	q.reported += n
	q.mu.Unlock()
	if n > 0 {
		log.Warn("lines of this log were dropped because it was not read", "lines", n)
	}
}

// Close writes the waiting lines, for at most one second. If that was enough, later lines are written at once; else they are dropped.
func (q *Queue) Close() {
	q.mu.Lock()
	if q.state == queueOpen {
		q.state = queueClosing
	}
	q.wake.Signal()
	q.mu.Unlock()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-q.ended:
	case <-timer.C:
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.state == queueClosing {
			q.state = queueLost
		}
	}
}
