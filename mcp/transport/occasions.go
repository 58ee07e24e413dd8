package transport

import (
	"sync"
	"time"
)

// occasion is something that is logged, but not each time.
type occasion struct {
	of        occasionKind
	what, who string // such as a reason, and a caller; "": there is but one
}

// occasionKind is a kind of occasions.
type occasionKind uint8

const (
	ofToken    occasionKind = iota // why tokens are refused
	ofRefusal                      // why requests of known callers are refused
	ofStranger                     // why those are refused whose sender was not identified
	occasionKinds
)

// occasions are when occasions were logged last. The zero value has none.
type occasions struct {
	mu   sync.Mutex
	of   [occasionKinds]map[occasion]*toldOccasion
	many [occasionKinds]time.Time // when those of a kind were too many, and the old were forgotten
}

// toldOccasion is what is known of an occasion.
type toldOccasion struct {
	at   time.Time // when it was logged last
	left int       // how often it was not since
}

const (
	// occasionEvery is how often an occasion is logged at most.
	occasionEvery = 10 * time.Second
	// maxOccasions is for how many occasions of a kind it is known when they were logged, whatever names others think of. Those
	// beyond are one for all of whom the same is told.
	maxOccasions = 256
)

// due reports whether an occasion is to be logged.
func (c *occasions) due(one occasion) bool {
	_, due := c.dueAfter(one)
	return due
}

// dueAfter reports whether an occasion is to be logged, and how often it was not since it was.
func (c *occasions) dueAfter(one occasion) (left int, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	known := c.of[one.of]
	if known == nil {
		known = map[occasion]*toldOccasion{}
		c.of[one.of] = known
	}
	if known[one] == nil && len(known) >= maxOccasions {
		c.forget(one.of, now)
		if len(known) >= maxOccasions {
			one.who = ""
		}
	}
	told := known[one]
	switch {
	case told == nil:
		known[one] = &toldOccasion{at: now}
		return 0, true
	case now.Sub(told.at) < occasionEvery:
		told.left++
		return 0, false
	}
	left, told.at, told.left = told.left, now, 0
	return left, true
}

// forget makes room for other occasions of a kind, each second at most. c.mu is held.
func (c *occasions) forget(kind occasionKind, now time.Time) {
	if now.Sub(c.many[kind]) < time.Second {
		return
	}
	c.many[kind] = now
	for one, told := range c.of[kind] {
		if one.who != "" && now.Sub(told.at) >= occasionEvery {
			delete(c.of[kind], one)
		}
	}
}
