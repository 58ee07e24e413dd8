package console

import (
	"cmp"
	"slices"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// undoable returns the calls that an undo of the run would look at, in its order: those that are or may be done, the last one first.
func undoable(past *journal.Past) []*journal.PastCall {
	if past.Row.Status == journal.Running || past.Row.Batch {
		return nil
	}
	list := slices.DeleteFunc(past.Calls(), func(c *journal.PastCall) bool {
		return !c.Writes() || c.Undoes != 0 || c.Outcome != fault.Applied && c.Outcome != fault.SentUnknown
	})
	slices.SortFunc(list, func(a, b *journal.PastCall) int { return cmp.Compare(cmp.Or(b.Ended, b.N), cmp.Or(a.Ended, a.N)) })
	return list
}
