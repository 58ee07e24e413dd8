package journal

import "sync"

// OtherChains stands, in the sums of a day, for the chains of a caller that has used more than maxNames names that day.
const OtherChains = "(others)"

// maxNames bounds the names of chains per caller in the sums of a day, since callers choose these names.
const maxNames = 200

// chainNames has the names of chains in the sums of a day, as far as this process has written them. The zero value has none.
type chainNames struct {
	mu       sync.Mutex
	day      string
	byCaller map[string]map[string]bool
}

// nameFor returns the name under which a chain is summed up.
func (n *chainNames) nameFor(day, caller, chain string) string {
	if chain == "" {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if day > n.day {
		n.day, n.byCaller = day, map[string]map[string]bool{}
	}
	known := n.byCaller[caller]
	switch {
	case known[chain]:
	case len(known) == maxNames:
		return OtherChains
	case known == nil:
		n.byCaller[caller] = map[string]bool{chain: true}
	default:
		known[chain] = true
	}
	return chain
}
