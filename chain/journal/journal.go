package journal

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// DefaultKeep is the default of Options.Keep.
const DefaultKeep = 24 * time.Hour

// keepDays is how long the sums of a day are kept.
const keepDays = 90 * 24 * time.Hour

// Bounds and intervals. A write beyond maxQueue or maxQueueBytes is lost, if it has no waiter and is not retryable. Only statistics and
// records of runs that only read can be lost in this way.
const (
	maxQueue      = 4096                   // writes in the queue
	maxQueueBytes = 32 << 20               // bytes of the queued writes without a waiter
	queueDelay    = 100 * time.Millisecond // how long queued writes wait for more
	expireEvery   = time.Minute            // the longest interval at which expired runs are removed
	retryEvery    = time.Second            // the interval at which failed writes are tried again
	maxRetries    = 10_000                 // failed writes that retryLater keeps to try again
)

// Options configures a Journal. The zero value of each field means its default.
type Options struct {
	// Key is the secret that authenticates arguments and encrypts results, at least 32 bytes. Journals that share a database need the
	// same key. nil: a random one, for a driver that does not outlive the process.
	Key []byte
	// Place and KeyPlace say where the journal and its key are, for the messages of errors; "": in memory.
	Place, KeyPlace string

	Keep time.Duration // how long a run is kept after its last activity; 0: 24 hours
	// Values stores arguments (Call.Shown) and results for as long as the run, for people to look at. Otherwise the results of successful
	// runs are dropped at their end, and arguments are not stored.
	Values bool
	// Remember is how long a denial holds for the same call in later runs of the same caller; 0: it holds for its run alone.
	Remember time.Duration
	// Shared is the ID that callers have whom nobody can tell apart; "": there are none. Their denials hold for the run alone, unless they
	// have sessions.
	Shared string
	// Redact removes secrets from the message of a failure before it is stored; nil: none are removed.
	Redact func(string) string
	// Estimate estimates the tokens of a result; nil: they are not recorded.
	Estimate func(result []byte) int
	// Warn is called when the driver fails or a write without a waiter is lost, but not again before a write succeeds; nil: not called.
	Warn func(error)
}

// Journal records runs through a Driver. It is safe for concurrent use.
type Journal struct {
	o      Options
	driver Driver
	keys   *keys
	names  chainNames // the names of chains in the sums of the current day
	live   live

	wake chan struct{} // has an element if the queue has changed
	done chan struct{} // closed when writeLoop has returned

	expireDone chan struct{} // closed when expireLoop has returned

	mu          sync.Mutex
	queue       []*queuedWrite
	retries     []*queuedWrite // writes that failed and are tried again: ends of calls and of runs, and releases of leases
	urgent      bool           // a write of queue has a waiter
	queuedBytes int            // the size of the queued writes without a waiter
	closed      bool
	lastFailure error     // the last failure; nil: a write has succeeded since
	failedAt    time.Time // when lastFailure was reported
}

// New returns a journal that owns the driver. It fails if the key is too short.
func New(d Driver, o *Options) (*Journal, error) {
	j := &Journal{driver: d, wake: make(chan struct{}, 1), done: make(chan struct{}), expireDone: make(chan struct{})}
	if o != nil {
		j.o = *o
	}
	if j.o.Keep <= 0 {
		j.o.Keep = DefaultKeep
	}
	if j.o.Warn == nil {
		j.o.Warn = func(error) {}
	}
	var err error
	if j.keys, err = newKeys(j.o.Key); err != nil {
		return nil, err
	}
	go j.writeLoop()
	go j.expireLoop()
	return j, nil
}

// Close writes what is queued, releases the leases and closes the driver. Runs under way cannot be recorded any more.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	j.mu.Unlock()
	j.wakeWriter()
	<-j.done
	<-j.expireDone
	j.retry()
	return j.driver.Close()
}

// wakeWriter makes writeLoop look at the queue.
func (j *Journal) wakeWriter() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// queuedWrite is a write that waits for its transaction.
type queuedWrite struct {
	Write
	prepare   func(*Write) // builds the segment when the queue is written; nil: it is built, or there is none
	events    []Event      // what the segment has
	size      int
	retryable bool       // retried if it fails
	isBarrier bool       // writes nothing, and is done when the writes before it are
	done      chan error // nil: the write has no waiter
}

var errClosed = errors.New("journal: it is closed")

// ErrTaken reports that another process has taken over the run, which cannot be written from here any more; for a new run with a key, that
// its caller already has another run with this key.
var ErrTaken = errors.New("journal: another process has taken over this run")

// enqueue adds a write to the next transaction. If the queue is full, a write that has no waiter and is not retryable is lost: enqueue
// returns errQueueFull.
func (j *Journal) enqueue(w *queuedWrite) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return errClosed
	}
	if w.done == nil && !w.retryable {
		if j.queuedBytes+w.size > maxQueueBytes || len(j.queue) >= maxQueue {
			return errQueueFull
		}
		j.queuedBytes += w.size
	}
	j.queue, j.urgent = append(j.queue, w), j.urgent || w.done != nil
	j.wakeWriter()
	return nil
}

var errQueueFull = errors.New("journal: the write queue is full: runs that only read are not recorded for a while")

// enqueueOrReport enqueues a write without a waiter, and reports a failure.
func (j *Journal) enqueueOrReport(w *queuedWrite) {
	if err := j.enqueue(w); err != nil {
		j.reportFailure(err)
	}
}

// writeLoop writes the queue until the journal is closed.
func (j *Journal) writeLoop() {
	defer close(j.done)
	retryTick := time.NewTicker(retryEvery)
	defer retryTick.Stop()
	for {
		select {
		case <-j.wake:
			if !j.writeQueue() {
				return
			}
		case <-retryTick.C:
			j.retry()
		}
	}
}

// expireLoop removes what has expired, from time to time.
func (j *Journal) expireLoop() {
	defer close(j.expireDone)
	tick := time.NewTicker(min(expireEvery, max(j.o.Keep/4, time.Second)))
	defer tick.Stop()
	for {
		select {
		case <-j.done:
			return
		case <-tick.C:
			j.removeExpired()
		}
	}
}

func (j *Journal) removeExpired() {
	now := time.Now()
	if err := j.driver.Expire(context.Background(), now, now.Add(-keepDays)); err != nil {
		j.reportFailure(err)
	}
}

// writeQueue writes what is queued, and reports whether the journal is open. As long as no write has a waiter, it lets more writes gather
// for up to queueDelay.
func (j *Journal) writeQueue() (open bool) {
	delay := time.NewTimer(queueDelay)
	defer delay.Stop()
	for {
		j.mu.Lock()
		queue, urgent, closed := j.queue, j.urgent, j.closed
		if urgent || closed || len(queue) >= maxBatch {
			j.queue, j.urgent = nil, false
		}
		j.mu.Unlock()
		if urgent || closed || len(queue) >= maxBatch {
			for len(queue) > 0 {
				n := batchSize(queue)
				j.commitBatch(queue[:n])
				queue = queue[n:]
			}
			return !closed
		}
		select {
		case <-j.wake:
		case <-delay.C:
			j.mu.Lock()
			j.urgent = true
			j.mu.Unlock()
		}
	}
}

// maxBatch bounds the writes of a transaction.
const maxBatch = 512

// batchSize returns how many writes the next transaction has. At most one of them changes state: transactions that lock the values of
// several owners could wait for each other.
func batchSize(queue []*queuedWrite) int {
	n, changes := 0, 0
	for n < min(len(queue), maxBatch) {
		if queue[n].State != nil {
			if changes++; changes > 1 {
				break
			}
		}
		n++
	}
	return n
}

// commitBatch carries out writes and notifies their waiters.
func (j *Journal) commitBatch(list []*queuedWrite) {
	if len(list) == 0 {
		return
	}
	batch := make([]Write, 0, len(list))
	pending := make([]*queuedWrite, 0, len(list))
	for _, w := range list {
		if w.isBarrier {
			defer j.finishWrite(w, nil)
			continue
		}
		if w.prepare != nil {
			w.prepare(&w.Write)
			w.prepare = nil // the segment is built
		}
		batch, pending = append(batch, w.Write), append(pending, w)
	}
	if len(batch) == 0 {
		return
	}
	refused, err := j.driver.Write(context.Background(), batch)
	for i, w := range pending {
		switch {
		case err != nil:
			j.finishWrite(w, err)
		case refused[i]:
			j.finishWrite(w, ErrTaken)
		default:
			j.finishWrite(w, nil)
			if j.live.listening.Load() {
				j.live.tell(w.ID)
			}
		}
	}
	if err != nil {
		j.reportFailure(err)
		return
	}
	j.mu.Lock()
	j.lastFailure = nil
	j.mu.Unlock()
}

func (j *Journal) finishWrite(w *queuedWrite, err error) {
	j.mu.Lock()
	switch {
	case w.retryable && err != nil && !errors.Is(err, ErrTaken):
		j.retries = append(j.retries, w)
	case w.done == nil && !w.retryable:
		j.queuedBytes -= w.size
	}
	j.mu.Unlock()
	if w.done != nil {
		w.done <- err
	}
}

// reportFailure warns of a failure, unless the previous write failed, too.
func (j *Journal) reportFailure(err error) {
	j.mu.Lock()
	known := j.lastFailure != nil
	j.lastFailure, j.failedAt = err, time.Now()
	j.mu.Unlock()
	if !known {
		j.o.Warn(err)
	}
}

// failureWindow is how long Check reports a failed write, since small writes still succeed on a full disk.
const failureWindow = 10 * time.Second

// Check reports why the journal cannot be written now, or could not be written a moment ago; nil: it can be written.
func (j *Journal) Check(ctx context.Context) error {
	j.mu.Lock()
	failure, failedAt := j.lastFailure, j.failedAt
	j.mu.Unlock()
	if failure != nil && time.Since(failedAt) < failureWindow {
		return failure
	}
	return j.driver.Check(ctx)
}

// retryLater keeps a write that failed, to carry it out as soon as possible: the end of a call, or the release of a lease. If maxRetries
// writes are kept already, the write is lost.
func (j *Journal) retryLater(w *queuedWrite) {
	retry := &queuedWrite{prepare: w.prepare, Write: Write{ID: w.ID, Lease: w.Lease, Late: true, Repeated: true, Segment: w.Segment,
		Release: w.Release}}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.retries) < maxRetries {
		j.retries = append(j.retries, retry)
	}
}

// releaseLater releases a lease that may have been taken. It leaves room in retries for ends of calls.
func (j *Journal) releaseLater(id string, lease int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.retries) < maxRetries/2 {
		j.retries = append(j.retries, &queuedWrite{Write: Write{ID: id, Lease: lease, Late: true, Release: true}})
	}
}

// retry tries again to write what could not be written.
func (j *Journal) retry() {
	j.mu.Lock()
	list := j.retries
	j.retries = nil
	j.mu.Unlock()
	for i, w := range list {
		if w.Segment == nil && w.prepare != nil {
			prepared := w.Write
			w.prepare(&prepared)
			w.Segment = prepared.Segment
		}
		w.Repeated = true
		if _, err := j.driver.Write(context.Background(), []Write{w.Write}); err != nil {
			j.mu.Lock()
			j.retries = slices.Concat(list[i+1:], list[i:i+1], j.retries) // a write that always fails must not block the others
			j.mu.Unlock()
			return
		}
		if j.live.listening.Load() {
			j.live.tell(w.ID)
		}
	}
}

// flush waits until what is queued now has been written, or has failed.
func (j *Journal) flush() {
	w := &queuedWrite{done: make(chan error, 1), isBarrier: true}
	if j.enqueue(w) == nil {
		if err := <-w.done; err != nil {
			j.reportFailure(err)
		}
	}
}
