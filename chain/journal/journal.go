package journal

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Defaults of Options.
const (
	DefaultKeep = 24 * time.Hour
	keepDays    = 90 * 24 * time.Hour // of sums
)

// Bounds of what waits to be written behind; what passes them is lost, which only statistics and resumes of reads notice.
const (
	maxBehind      = 4096 // writes
	maxBehindBytes = 32 << 20
	behindDelay    = 100 * time.Millisecond // at most until it is written
	expireEvery    = time.Minute
	missedEvery    = time.Second
	maxMissed      = 10_000
)

// Options says how a Journal keeps runs. The zero value of each field is its default.
type Options struct {
	// Key is the secret under which arguments are told apart and results are encrypted, at least 32 bytes. Journals that share a
	// driver's database need the same. nil: a random one, for a driver that forgets all at its end.
	Key  []byte
	Keep time.Duration // how long a run is kept after the last it did; 0: 24 hours
	// Values keeps arguments (Call.Shown) and results for as long as the run, for people to look at; else results of runs that ended well
	// go at once, and arguments are not kept.
	Values bool
	// Estimate estimates the tokens of a result; nil: the tokens of results are not told.
	Estimate func(result []byte) int
	// Warn is told once when the driver begins to fail, and of what is lost then; nil: nobody is.
	Warn func(error)
}

// Journal writes what runs do through a Driver. Its methods may be called by many goroutines at once.
type Journal struct {
	o      Options
	driver Driver
	keys   *keys
	names  chainNames // in the sums

	wake chan struct{} // holds one where something waits that has not been looked at
	done chan struct{}

	expired chan struct{} // closed when nothing expires any more

	mu      sync.Mutex
	waiting []*write
	missed  []*write // that tell how calls ended, and could not be written so far
	urgent  bool     // somebody waits for one of them
	bytes   int      // of those that nobody waits for
	closed  bool
	ailing  error     // why the last write failed, which Warn was told; nil: it did not
	failed  time.Time // when it failed
}

// New makes a journal over a driver, which it closes at its end. It fails if the key is too short.
func New(d Driver, o *Options) (*Journal, error) {
	j := &Journal{driver: d, wake: make(chan struct{}, 1), done: make(chan struct{}), expired: make(chan struct{})}
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
	go j.work()
	go j.expire()
	return j, nil
}

// Close writes what waits to be written, gives back the leases of runs and closes the driver. Runs that are under way
// cannot write any more.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	j.mu.Unlock()
	j.rouse()
	<-j.done
	<-j.expired
	j.catchUp()
	return j.driver.Close()
}

// rouse has the worker look at what waits.
func (j *Journal) rouse() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// write is a change that waits for its transaction.
type write struct {
	Write
	prepare func(*Write) // makes the segment, off the way of the run; nil: it is made
	size    int
	must    bool       // it is tried again if it fails
	empty   bool       // it only waits for those before it
	result  chan error // nil: nobody waits
}

var errClosed = errors.New("journal: it is closed")

// ErrTaken tells that somebody else has taken the run over: nothing more can be written of it from here.
var ErrTaken = errors.New("journal: somebody else has taken this run over")

// put hands a write to the next transaction; a write that nobody waits for is lost where too many wait.
func (j *Journal) put(w *write) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return errClosed
	}
	if w.result == nil && !w.must {
		if j.bytes+w.size > maxBehindBytes || len(j.waiting) >= maxBehind {
			return errLost
		}
		j.bytes += w.size
	}
	j.waiting, j.urgent = append(j.waiting, w), j.urgent || w.result != nil
	j.rouse()
	return nil
}

var errLost = errors.New("journal: too much waits to be written: runs of reads are not remembered for a while")

// behind writes some time later.
func (j *Journal) behind(w *write) {
	if err := j.put(w); err != nil {
		j.ails(err)
	}
}

// work carries out what waits, as much as there is in one transaction, until the journal is closed.
func (j *Journal) work() {
	defer close(j.done)
	missed := time.NewTicker(missedEvery)
	defer missed.Stop()
	for {
		select {
		case <-j.wake:
			if !j.takeAll() {
				return
			}
		case <-missed.C:
			j.catchUp()
		}
	}
}

// expire forgets what has expired, now and then, beside what is written.
func (j *Journal) expire() {
	defer close(j.expired)
	tick := time.NewTicker(min(expireEvery, max(j.o.Keep/4, time.Second)))
	defer tick.Stop()
	for {
		select {
		case <-j.done:
			return
		case <-tick.C:
			j.forget()
		}
	}
}

func (j *Journal) forget() {
	now := time.Now()
	if err := j.driver.Expire(context.Background(), now, now.Add(-keepDays)); err != nil {
		j.ails(err)
	}
}

// takeAll writes all that waits; false: the journal is closed. While nobody waits for any of it, more may come for a while.
func (j *Journal) takeAll() (goesOn bool) {
	delay := time.NewTimer(behindDelay)
	defer delay.Stop()
	for {
		j.mu.Lock()
		list, urgent, closed := j.waiting, j.urgent, j.closed
		if urgent || closed || len(list) >= maxBatch {
			j.waiting, j.urgent = nil, false
		}
		j.mu.Unlock()
		if urgent || closed || len(list) >= maxBatch {
			for part := range slices.Chunk(list, maxBatch) {
				j.commit(part)
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

// commit carries out writes, and tells those who wait.
func (j *Journal) commit(list []*write) {
	if len(list) == 0 {
		return
	}
	batch := make([]Write, 0, len(list))
	told := make([]*write, 0, len(list))
	for _, w := range list {
		if w.empty {
			defer j.tell(w, nil)
			continue
		}
		if w.prepare != nil {
			w.prepare(&w.Write)
			w.prepare = nil // it is made
		}
		batch, told = append(batch, w.Write), append(told, w)
	}
	if len(batch) == 0 {
		return
	}
	refused, err := j.driver.Write(context.Background(), batch)
	for i, w := range told {
		switch {
		case err != nil:
			j.tell(w, err)
		case refused[i]:
			j.tell(w, ErrTaken)
		default:
			j.tell(w, nil)
		}
	}
	if err != nil {
		j.ails(err)
		return
	}
	j.mu.Lock()
	j.ailing = nil
	j.mu.Unlock()
}

func (j *Journal) tell(w *write, err error) {
	if w.result != nil {
		w.result <- err
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !w.must {
		j.bytes -= w.size
	} else if err != nil && !errors.Is(err, ErrTaken) {
		j.missed = append(j.missed, w)
	}
}

// ails warns of a failure, unless the last write failed too.
func (j *Journal) ails(err error) {
	j.mu.Lock()
	known := j.ailing != nil
	j.ailing, j.failed = err, time.Now()
	j.mu.Unlock()
	if !known {
		j.o.Warn(err)
	}
}

// ailsFor is how long a write that failed counts: where there is room for little, less is written well.
const ailsFor = 10 * time.Second

// Check reports why the journal cannot be written now, or could not a moment ago; nil: it can.
func (j *Journal) Check(ctx context.Context) error {
	j.mu.Lock()
	ailing, failed := j.ailing, j.failed
	j.mu.Unlock()
	if ailing != nil && time.Since(failed) < ailsFor {
		return ailing
	}
	return j.driver.Check(ctx)
}

// late writes how calls ended that could not be written at their time, as soon as it can be.
func (j *Journal) late(w *write) {
	own := &write{prepare: w.prepare, Write: Write{ID: w.ID, Lease: w.Lease, Late: true, Segment: w.Segment, Release: w.Release}}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.missed) < maxMissed {
		j.missed = append(j.missed, own)
	}
}

// catchUp tries again to write what was missed.
func (j *Journal) catchUp() {
	j.mu.Lock()
	list := j.missed
	j.missed = nil
	j.mu.Unlock()
	for i, w := range list {
		if w.Segment == nil && w.prepare != nil {
			own := w.Write
			w.prepare(&own)
			w.Segment = own.Segment
		}
		if _, err := j.driver.Write(context.Background(), []Write{w.Write}); err != nil {
			j.mu.Lock()
			j.missed = slices.Concat(list[i+1:], list[i:i+1], j.missed) // one that always fails keeps no other back
			j.mu.Unlock()
			return
		}
	}
}

// catch writes what waits to be written.
func (j *Journal) catch() {
	w := &write{result: make(chan error, 1), empty: true}
	if j.put(w) == nil {
		if err := <-w.result; err != nil {
			j.ails(err)
		}
	}
}
