package history_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/history"
)

// TestReasons: a timeline says why a call and its run failed, in 300 characters without secrets. The journal stores the reasons encrypted.
func TestReasons(t *testing.T) {
	t.Parallel()
	store := &journal.Memory{}
	j, err := journal.New(store, &journal.Options{Redact: func(text string) string { return strings.ReplaceAll(text, "hunter2", "…") }})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	run := j.Begin(&journal.Start{Caller: "ann", Text: []byte("{}"), Hash: func() string { return "" }})
	call := &journal.Call{StepPath: "0", Function: "shop.get", Args: []byte("{}")}
	run.Prepare(call)
	if err := call.Begin(); err != nil {
		t.Fatal(err)
	}
	message := "the item is gone, says hunter2" + strings.Repeat(" again", 100)
	if err := call.End(&journal.Event{Code: fault.FunctionFailed, Message: message}); err != nil {
		t.Fatal(err)
	}
	if err := run.EndUnfinished(journal.Failed, fault.FunctionFailed, message); err != nil {
		t.Fatal(err)
	}
	ann := "ann"
	timeline, err := history.Of(t.Context(), j, run.ID(), &ann)
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range []string{timeline.Message, timeline.List[0].Message} {
		if n := len([]rune(reason)); n < 290 || n > 301 || !strings.HasPrefix(reason, "the item is gone, says … again") {
			t.Errorf("the reason is %q (%d characters), want the first 300 without the secret", reason, n)
		}
	}
	rec, err := store.Load(context.Background(), run.ID(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range rec.Segments {
		if bytes.Contains(s.Events, []byte("gone")) || bytes.Contains(s.Retained, []byte("gone")) {
			t.Error("the journal has a reason that is not encrypted")
		}
	}
}
