package journal

import (
	"cmp"
	"slices"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// apply updates p by an event, and returns the call that the event is about; nil: it is about none, or about one that p does not have.
func (p *Past) apply(e *Event) (c *PastCall) {
	known := p.byEvent
	p.Row.LastLease = max(p.Row.LastLease, leaseOf(e.N))
	c = known[e.Of]
	switch e.Kind {
	case Sent:
		p.before = beforeSent{e.N, p.Chain, p.State, p.Labels, p.Waiting, p.Message, p.Credentials}
		p.Chain, p.Labels, p.Row.Scope, p.Waiting, p.Message = e.Chain, e.Undo, cmp.Or(p.Row.Scope, e.Scope), nil, ""
		if e.Args != nil {
			p.State = e.Args
		}
		for _, id := range e.Approvals {
			if !slices.Contains(p.Credentials, id) {
				p.Credentials = append(slices.Clip(p.Credentials), id)
			}
		}
	case Refused:
		if b := &p.before; leaseOf(b.event) == leaseOf(e.N) {
			p.Chain, p.State, p.Labels, p.Waiting, p.Message = b.chain, b.state, b.labels, b.waiting, b.message
			p.Credentials = b.credentials
		}
	case Began, Read:
		if len(e.MAC) != macSize {
			return nil
		}
		c = p.beginAttempt(e)
		known[e.N] = c
		p.applyUndo(c)
		if e.Kind == Read {
			c.endAttempt(e)
		}
		for _, name := range e.Approvals {
			delete(p.approved, name)
			p.DecisionCount++
		}
	case Waits:
		p.Waiting = e
	case Approved:
		p.Waiting, p.before.waiting = nil, nil
		for _, name := range e.Approvals {
			p.approved[name] = true
			delete(p.denied, name)
			delete(p.refused, CallOf(name))
		}
	case Denied:
		p.Waiting, p.before.waiting = nil, nil
		p.DecisionCount++
		p.deny(e)
	case Stopped:
		p.Message = e.Message
	case Handed:
		p.Row.HandoverLease = leaseOf(e.N)
	case Ended, Defaulted, Assumed, Task:
		p.applyToCall(c, e)
	}
	return c
}

func (p *Past) deny(e *Event) {
	if p.denied == nil {
		p.denied, p.refused = map[string]*Event{}, map[string]*Event{}
	}
	for _, name := range e.Approvals {
		delete(p.approved, name)
		p.denied[name], p.refused[CallOf(name)] = e, e
	}
}

// applyToCall updates a call by an event about it.
func (p *Past) applyToCall(c *PastCall, e *Event) {
	switch {
	case c == nil:
	case e.Kind == Ended:
		c.endAttempt(e)
		p.byEvent[e.N] = c
		p.applyUndo(c)
	case e.Kind == Defaulted:
		c.Defaulted = true
	case e.Kind == Task:
		c.task = string(e.Args)
	case e.Kind == Assumed:
		c.Assumed, c.Outcome = true, e.Outcome
		if e.Result != nil {
			c.Result, c.Blocks, c.Code, c.Message = e.Result, nil, "", ""
		}
		p.applyUndo(c)
	}
}

// applyUndo updates the call that c undoes.
func (p *Past) applyUndo(c *PastCall) {
	undone := p.byEvent[c.Undoes]
	if undone == nil {
		return
	}
	if undone.UndoUnknown = c.Outcome == fault.SentUnknown; c.Outcome == fault.Applied {
		undone.Undone, undone.Outcome = true, fault.Undone
		undone.timesUndone++
	}
}

// beginAttempt records that an attempt at the call of an event began, or adds the call if it is new, and returns the call.
func (p *Past) beginAttempt(e *Event) *PastCall {
	m := mac(e.MAC)
	list := p.calls[m]
	for len(list) <= e.Ordinal {
		list = append(list, nil)
	}
	p.calls[m] = list
	c := list[e.Ordinal]
	if c == nil {
		c = &PastCall{}
		list[e.Ordinal] = c
		if e.Effect != "" {
			p.writes = append(p.writes, c)
		}
	}
	earlier, task := c.Outcome, c.Task()
	switch {
	case earlier == fault.Undone: // as if it had never been made
		earlier = ""
	case task != "": // the attempt learns how the last one ended
		earlier = c.earlierOutcome
	}
	*c = PastCall{Event: *e, Undo: c.Undo, earlierOutcome: earlier, timesUndone: c.timesUndone, task: task}
	if e.Effect != "" {
		c.Outcome = fault.SentUnknown
	}
	return c
}

// endAttempt records how the call ended.
func (c *PastCall) endAttempt(e *Event) {
	c.Ended, c.Outcome, c.Code, c.Result = e.N, fault.Combine(c.earlierOutcome, e.Outcome), e.Code, e.Result
	c.Message, c.Blocks = e.Message, e.Blocks
	c.Bytes, c.Tokens, c.Took = e.Bytes, e.Tokens, e.Took
	if e.Undo != nil {
		c.Undo = e.Undo
	}
}

// countCalls counts the calls of a Waits event.
func (e *Event) countCalls() (n int) {
	for range rawjson.Elements(e.Args) {
		n++
	}
	return n
}
