package steps

import "testing"

// slowEnder records if its session can be used while it is told of the end.
type slowEnder struct {
	session *Session
	free    bool
}

func (e *slowEnder) SessionEnded() {
	if e.free = e.session.mu.TryLock(); e.free {
		e.session.mu.Unlock()
	}
}

// TestSessionIsFreeWhileItEnds: a value that is told of the end may take its time, and keeps nobody from the other values.
func TestSessionIsFreeWhileItEnds(t *testing.T) {
	t.Parallel()
	s := &Session{}
	early, late := &slowEnder{session: s}, &slowEnder{session: s}
	s.Value("early", func() any { return early })
	s.End()
	s.Value("late", func() any { return late })
	if !early.free || !late.free {
		t.Errorf("the session is free while an early value is told: %t, while a late one is: %t; want both", early.free, late.free)
	}
}
