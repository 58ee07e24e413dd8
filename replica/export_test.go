package replica

import "time"

// Keys are those on the server of an owner's session: the session, and the index of all sessions of the owner.
func (s *Store) Keys(id, owner string) (session, index string) {
	keys := s.session(id, owner).keys
	return keys[0], keys[1]
}

// Idle is how long a session must be unused to give way.
func (s *Store) Idle() time.Duration { return s.o.TTL / idle }
