package run

import (
	"slices"
	"sync"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
)

// warningLog collects the warnings of functions while a chain runs.
type warningLog struct {
	mu   sync.Mutex
	list []*fault.Error
	seen map[string]bool // the keys of list, such as pointer and message, which the elements of a forEach share
}

func (n *warningLog) add(f *fault.Error) { n.addOnce(f.At+" "+f.Message, f) }

// addOnce adds a warning unless there is one with this key.
func (n *warningLog) addOnce(key string, f *fault.Error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen[key] || len(n.list) == plan.MaxWarnings {
		return
	}
	if n.seen == nil {
		n.seen = map[string]bool{}
	}
	n.seen[key], n.list = true, append(n.list, f)
}

// sorted returns the warnings in the order of the steps.
func (n *warningLog) sorted() []*fault.Error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(facts.SortFaults(n.list)) // later warnings, from abandoned functions, are ignored
}
