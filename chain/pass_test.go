package chain_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// TestPass: a passed call is recorded as a run of one step, unless it is safe to repeat.
func TestPass(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		function string
		ends     func(string, gjson.Result) ([]byte, error) // answers the call; nil: it succeeds
		status   journal.Status                             // "": the call is not recorded
		want     string
	}{
		{"store.put", nil, journal.OK, "0 store.put applied"},
		{"store.put", func(string, gjson.Result) ([]byte, error) { return nil, refuses() }, journal.Failed, "0 store.put failed"},
		{"store.put", func(string, gjson.Result) ([]byte, error) { return nil, lost() }, journal.Failed, "0 store.put sent_unknown"},
		{"store.remove", nil, journal.OK, "0 store.remove applied"},
		{"store.get", nil, "", ""},
		{"store.set", nil, "", ""},
	} {
		s := newScriptedEngine(t, nil, test.ends)
		entry, err := s.all.Resolve(test.function)
		must(t, err)
		engine := s.inScope("folder").engine
		value, err := engine.Pass(t.Context(), entry, []byte(`{"k":"$0"}`), "alice")
		s.wantCalls(test.function + ` {"k":"$0"}`)
		if (err == nil) != (test.ends == nil) || err == nil && string(value) != `{"id":"x"}` {
			t.Errorf("%s: got %s and error %v, want an error %t", test.function, value, err, test.ends != nil)
		}
		rows, listErr := s.journal.List(t.Context(), &journal.Filter{})
		wantRows := 1
		if test.status == "" {
			wantRows = 0
		}
		switch {
		case listErr != nil || len(rows) != wantRows:
			t.Errorf("%s: got runs %+v and error %v, want %d runs", test.function, rows, listErr, wantRows)
		case wantRows == 1:
			if rows[0].Caller != "alice" || rows[0].Calls != 1 || rows[0].Writes != 1 {
				t.Errorf("%s: recorded run %+v, want one call and one write of alice", test.function, rows[0])
			}
			if past, err := s.journal.Read(t.Context(), rows[0].ID, nil); err != nil || past.Scope != "folder" {
				t.Errorf("%s: recorded run %+v, error %v, want the engine's scope, folder", test.function, past, err)
			}
			s.wantRun(rows[0].ID, test.status, test.want)
		}
	}
}

// TestPassWithoutJournal: a call that cannot be recorded is not sent, unless it is safe to repeat.
func TestPassWithoutJournal(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, unwritable{&journal.Memory{}}, nil)
	for function, code := range map[string]fault.Code{"store.put": fault.Unavailable, "store.get": ""} {
		entry, err := s.all.Resolve(function)
		must(t, err)
		_, err = s.engine.Pass(t.Context(), entry, []byte(`{}`), "")
		if fault.CodeOf(err) != code || err != nil && fault.OutcomeOf(err) != fault.NotSent {
			t.Errorf("%s: got %v (%s), want code %q, and not_sent for an error", function, err, fault.OutcomeOf(err), code)
		}
	}
	s.wantCalls(`store.get {}`)
}

// unwritable is a driver whose writes fail.
type unwritable struct{ *journal.Memory }

func (unwritable) Write(context.Context, []journal.Write) ([]bool, error) {
	return nil, errors.New("the disk is full")
}
