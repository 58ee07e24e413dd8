package admit

// WithTurn gives a context in which work is a part of a turn.
var WithTurn = withTurn

// Callers is how many callers are known.
func (s *Shares) Callers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.callers)
}

// Places is how many places nobody has.
func (s *Shares) Places() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.places
}
