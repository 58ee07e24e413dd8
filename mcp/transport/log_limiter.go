package transport

import (
	"sync"
	"time"
)

// logKey identifies an event whose log lines are rate limited.
type logKey struct {
	kind      logKind
	what, who string // what happened, such as the reason of a refusal, and to whom
}

// logKind is a kind of event.
type logKind uint8

const (
	logToken        logKind = iota // refused tokens
	logRefusal                     // refused requests of known callers
	logUnidentified                // refused requests of unidentified senders
	logKinds                       // the number of kinds
)

// logLimiter limits the log lines of repeated events. The zero value is ready to use.
type logLimiter struct {
	mu         sync.Mutex
	lastByKind [logKinds]map[logKey]*lastLogged
	pruned     [logKinds]time.Time // last time that old events of a kind were dropped
}

// lastLogged is when an event was logged last.
type lastLogged struct {
	at         time.Time
	suppressed int // how many events since then were not due
}

const (
	// logEvery is the minimum interval between two lines for one event.
	logEvery = 10 * time.Second
	// maxLogKeys bounds the remembered events of a kind, however many names clients invent. Further events share one key per
	// reason.
	maxLogKeys = 256
)

// due reports whether to log an event, and how many were suppressed since the last line.
func (l *logLimiter) due(key logKey) (suppressed int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	known := l.lastByKind[key.kind]
	if known == nil {
		known = map[logKey]*lastLogged{}
		l.lastByKind[key.kind] = known
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
		last.suppressed++
		return 0, false
	}
	suppressed, last.at, last.suppressed = last.suppressed, now, 0
	return suppressed, true
}

// prune drops old events of a kind, at most once a second. The caller holds l.mu.
func (l *logLimiter) prune(kind logKind, now time.Time) {
	if now.Sub(l.pruned[kind]) < time.Second {
		return
	}
	l.pruned[kind] = now
	for key, last := range l.lastByKind[kind] {
		if key.who != "" && now.Sub(last.at) >= logEvery {
			delete(l.lastByKind[kind], key)
		}
	}
}
