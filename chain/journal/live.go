package journal

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Change says that events of a run were recorded, by this process or another.
type Change struct {
	Run string // "": of any runs
}

const (
	liveDelay  = 100 * time.Millisecond // how long the reads of a run wait to be written while somebody listens
	maxChanges = 100                    // runs of which a subscriber is told one by one; more are any runs
)

// live tells subscribers what is recorded. The zero value has none.
type live struct {
	listening atomic.Bool // there are subscribers

	mu          sync.Mutex
	subscribers map[*subscriber]bool
	unwritten   map[*Run]bool      // runs with reads that writeUnwritten writes
	stop        context.CancelFunc // ends the poll of the driver
}

// subscriber is told of changes that it has not taken yet once each, however many there are.
type subscriber struct {
	wake chan struct{} // has an element if there are changes

	mu   sync.Mutex // taken after live.mu
	runs map[string]bool
	any  bool
}

// Subscribe returns a channel of changes, which is closed once ctx ends or the journal is closed. Whoever is slow to receive misses none
// but earlier changes of the same run. The first change may be of any runs, since others may have written just before. While somebody
// listens, the reads of the runs of this process are written soon after they end and not with the next write. Other processes' changes are
// found by asking the driver, and not at once. That a process has died, so that its runs are Interrupted, is no change.
func (j *Journal) Subscribe(ctx context.Context) <-chan Change {
	s := &subscriber{wake: make(chan struct{}, 1), runs: map[string]bool{}}
	changes, l := make(chan Change), &j.live
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subscribers == nil {
		l.subscribers = map[*subscriber]bool{}
	}
	if l.subscribers[s] = true; len(l.subscribers) == 1 {
		polling, stop := context.WithCancel(context.Background())
		l.stop = stop
		l.listening.Store(true)
		go j.poll(polling)
	}
	go func() {
		defer close(changes)
		defer l.leave(s)
		for {
			select {
			case <-ctx.Done():
				return
			case <-j.done:
				return
			case <-s.wake:
			}
			for _, run := range s.take() {
				select {
				case <-ctx.Done():
					return
				case <-j.done:
					return
				case changes <- Change{run}:
				}
			}
		}
	}()
	return changes
}

func (l *live) leave(s *subscriber) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if delete(l.subscribers, s); len(l.subscribers) == 0 {
		l.listening.Store(false)
		l.stop()
	}
}

// tell tells the subscribers of a change.
func (l *live) tell(run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.subscribers {
		s.add(run)
	}
}

func (s *subscriber) add(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.any = s.any || run == "" || len(s.runs) >= maxChanges && !s.runs[run]; !s.any {
		s.runs[run] = true
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take returns the changes that the subscriber has not taken.
func (s *subscriber) take() (runs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.any {
		runs = append(runs, "")
	} else {
		for run := range s.runs {
			runs = append(runs, run)
		}
	}
	clear(s.runs)
	s.any = false
	return runs
}

// poll asks the driver whether others have written, until ctx ends.
func (j *Journal) poll(ctx context.Context) {
	known := "" // the driver's last version; "": none, or it failed to tell
	for {
		version, again, err := j.driver.Version(ctx)
		if err == nil && again == 0 {
			return // nobody else writes
		}
		if err == nil && version != known && ctx.Err() == nil {
			j.live.tell("")
		}
		if known = version; err != nil {
			known, again = "", max(again, time.Second) // the journal's users learn of the failure from what they do
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

// writeSoon has the reads of a run written soon, if somebody listens: they would else be written with its next write.
func (j *Journal) writeSoon(r *Run) {
	l := &j.live
	if !l.listening.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unwritten == nil {
		l.unwritten = map[*Run]bool{}
	}
	if l.unwritten[r] = true; len(l.unwritten) == 1 {
		time.AfterFunc(liveDelay, j.writeUnwritten)
	}
}

func (j *Journal) writeUnwritten() {
	l := &j.live
	l.mu.Lock()
	runs := l.unwritten
	l.unwritten = nil
	l.mu.Unlock()
	for r := range runs { // side by side, so that they share transactions
		go r.writeReads()
	}
}

// writeReads writes the events that the run holds. A run that has ended holds none. A run must not fail, nor be lost, because somebody
// looks: what a run was to begin with is written with its next write, and later reads once the journal can be written again. Only a run
// that may write needs its reads in order: a resume that made one again could get another result, and not find the calls that it led to.
func (r *Run) writeReads() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil || len(r.events) == 0 {
		return
	}
	w := r.takeSegment(false)
	err := r.tryWrite(w)
	switch {
	case err == nil || r.failure != nil:
	case w.New && r.row.Key == "": // a key is given back: see releaseLost
		r.events, r.pendingBytes = append(w.events, r.events...), r.pendingBytes+w.size-eventBytes*len(w.events)
	case !w.New && !r.writes:
		r.j.retryLater(w)
	default:
		r.failure = err
	}
}
