package replica

// Keys are those on the server of an owner's session: the session, and the index of all sessions of the owner.
func (s *Store) Keys(id, owner string) (session, index string) {
	keys := s.session(id, owner).keys
	return keys[0], keys[3]
}

// Coded is coded.
func Coded(err error) error { return coded(err) }
