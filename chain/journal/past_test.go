package journal_test

import (
	"errors"
	"testing"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// TestEachWaitingCallHasAName: a record with more or fewer names than waiting calls is damaged. All readers pair them.
func TestEachWaitingCallHasAName(t *testing.T) {
	t.Parallel()
	j := openJournal(t, &journal.Memory{})
	for args, damaged := range map[string]bool{`[{},{}]`: false, `[{}]`: true, `[{},{},{}]`: true, `[]`: true, `{}`: true, ``: true} {
		run := j.Begin(start())
		run.Append(journal.Event{Kind: journal.Waits, Approvals: []string{"a", "b"}, Args: []byte(args)})
		if err := run.EndUnfinished(journal.Waiting, fault.ApprovalRequired, ""); err != nil {
			t.Fatal(err)
		}
		if past, err := j.Read(t.Context(), run.ID(), nil); errors.Is(err, journal.ErrUnreadable) != damaged || !damaged && past.Waiting == nil {
			t.Errorf("the calls %s with two names: %v, want damaged: %t", args, err, damaged)
		}
	}
}
