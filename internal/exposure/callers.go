package exposure

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// maxCallers is from how many callers on those are forgotten that the journal can tell again, or whose time is over.
const maxCallers = 10_000

// Callers have the records of clients without sessions, one for each caller. What a caller was shown is kept in the journal's database, so
// that all replicas know it, until it has not been used for some time; what it had sent before is known to this process alone.
type Callers struct {
	Journal  func() *journal.Journal // may return nil: then this process alone knows what callers were shown
	Scope    string                  // of the configuration, if several share a journal
	Remember time.Duration           // how long it is known what a caller was shown, from the last request on
	Failed   func(error)             // told that something could not be kept

	mu    sync.Mutex
	known map[string]*caller
}

// caller is one client without a session.
type caller struct {
	record *Record
	used   time.Time
	unkept []string // labels that the database could not be told of yet, and so does not deny
}

// markLimit is how long an answer waits for the database to keep a label.
const markLimit = 5 * time.Second

// shownSpace is the space of the names of labels in the journal's state. A caller has no other values under its owner there.
const shownSpace = "shown"

// Of returns the record of a caller, with what the database knows, and a function that keeps labels there when the caller is first shown
// values with them. If the database cannot be read, the caller counts as having been shown all.
func (c *Callers) Of(ctx context.Context, id string, all []string) (r *Record, keep func(added []string)) {
	r = c.recordOf(id)
	j := c.Journal()
	if j == nil {
		return r, nil
	}
	key := journal.StateKey{Owner: "flows " + id + "\x1f" + c.Scope, Space: shownSpace}
	rows, err := j.States(ctx, &journal.StateFilter{Owner: key.Owner, Space: key.Space})
	if err != nil {
		r = &Record{}
		r.Show(all)
		return r, nil
	}
	mark := func(label string) {
		key.Name = label
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), markLimit)
		defer cancel()
		err := j.Mark(limited, key, c.Remember)
		if c.setKept(id, label, err == nil); err != nil && c.Failed != nil {
			c.Failed(err)
		}
	}
	names := make([]string, len(rows))
	for i := range rows {
		if names[i] = rows[i].Name; time.Until(rows[i].Expires) < c.Remember-c.Remember/8 {
			mark(names[i])
		}
	}
	for _, label := range c.unkept(id) {
		names = append(names, label)
		mark(label)
	}
	if r.exceeds(names) { // what it was shown has been forgotten
		r = c.forget(id)
	}
	r.Show(names)
	return r, func(added []string) {
		for _, label := range added {
			mark(label)
		}
	}
}

// setKept notes whether the database was told that a caller was shown a label.
func (c *Callers) setKept(id, label string, kept bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.known[id]
	if k == nil {
		return
	}
	if k.unkept = slices.DeleteFunc(k.unkept, func(other string) bool { return other == label }); len(k.unkept) == 0 {
		k.unkept = nil
	}
	if !kept {
		k.unkept = append(k.unkept, label)
	}
}

// unkept returns the labels of a caller that the database could not be told of.
func (c *Callers) unkept(id string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[id]; k != nil {
		return slices.Clone(k.unkept)
	}
	return nil
}

// Take takes over what others know, for callers that this has not seen yet: after a reload.
func (c *Callers) Take(others *Callers) {
	others.mu.Lock()
	defer others.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, k := range others.known {
		if c.known[id] == nil {
			c.add(id, k.used).addAll(k.record)
			c.known[id].unkept = slices.Clone(k.unkept)
		}
	}
}

// addAll adds what another record has to a new one.
func (r *Record) addAll(other *Record) {
	other.mu.Lock()
	defer other.mu.Unlock()
	r.shown, r.sent = slices.Clone(other.shown), maps.Clone(other.sent)
}

// recordOf returns the record of a caller, a new one if it is not known or its time is over.
func (c *Callers) recordOf(id string) *Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if k := c.known[id]; k != nil && now.Sub(k.used) < c.Remember {
		k.used = now
		return k.record
	}
	for other, k := range c.known {
		if len(c.known) < maxCallers {
			break
		}
		if c.Journal() != nil && k.unkept == nil || now.Sub(k.used) >= c.Remember {
			delete(c.known, other)
		}
	}
	return c.add(id, now)
}

// forget returns a new record of a caller.
func (c *Callers) forget(id string) *Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.add(id, time.Now())
}

func (c *Callers) add(id string, now time.Time) *Record {
	if c.known == nil {
		c.known = map[string]*caller{}
	}
	k := &caller{record: &Record{}, used: now}
	c.known[id] = k
	return k.record
}

// exceeds reports whether the client was shown a label that is not one of these.
func (r *Record) exceeds(labels []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.shown, func(label string) bool { return !slices.Contains(labels, label) })
}
