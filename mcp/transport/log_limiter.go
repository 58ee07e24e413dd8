package transport

import (
	"sync"
	"time"
)

// logKey identifies an event that is logged now and then, not each time.
type logKey struct {
	kind      logKind
	what, who string // such as a reason, and a caller; "": there is only one
}

// logKind is a kind of events.
type logKind uint8

const (
	logToken        logKind = iota // why tokens are refused
	logRefusal                     // why requests of known callers are refused
	logUnidentified                // why requests are refused before their sender is identified
	logKinds
)

// logLimiter remembers when events were logged last. The zero value is ready for use.
type logLimiter struct {
	mu     sync.Mutex
	logged [logKinds]map[logKey]*lastLogged
	pruned [logKinds]time.Time // when a kind had too many, and the old were forgotten
}

// lastLogged is when an event was logged last.
type lastLogged struct {
	at   time.Time
	left int // how often it happened since
}

const (
	// logEvery is the shortest time between two lines for the same event.
	logEvery = 10 * time.Second
	// maxLogKeys bounds the events of a kind that are remembered, however many names clients make up. Those beyond share one
	// key for each reason.
	maxLogKeys = 256
)

// due reports whether an event should be logged, and how often it was left out since the last line.
func (l *logLimiter) due(key logKey) (left int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	known := l.logged[key.kind]
	if known == nil {
		known = map[logKey]*lastLogged{}
		l.logged[key.kind] = known
	}
	if known[key] == nil && len(known) >= maxLogKeys {
		l.prune(key.kind, now)
		if len(known) >= maxLogKeys {
			key.who = ""
		}
	}
	last := known[key]
	switch {
	case last == nil:
		known[key] = &lastLogged{at: now}
		return 0, true
	case now.Sub(last.at) < logEvery:
		last.left++
		return 0, false
	}
	left, last.at, last.left = last.left, now, 0
	return left, true
}

// prune forgets old events of a kind, at most once a second. The caller holds l.mu.
func (l *logLimiter) prune(kind logKind, now time.Time) {
	if now.Sub(l.pruned[kind]) < time.Second {
		return
	}
	l.pruned[kind] = now
	for key, last := range l.logged[kind] {
		if key.who != "" && now.Sub(last.at) >= logEvery {
			delete(l.logged[kind], key)
		}
	}
}
