package run

// slots bound the calls under way: they have an element for each goroutine besides the first.
type slots chan struct{}

// take takes a slot for one more goroutine, if there is one. free returns it.
func (s slots) take() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) free() { <-s }
