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
		ends     func(string, gjson.Result) ([]byte, error)
		status   journal.Status // "": the call is not recorded
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
		value, err := s.engine.Pass(t.Context(), entry, []byte(`{"k":"$0"}`), "alice")
		s.wantCalls(test.function + ` {"k":"$0"}`)
		if (err == nil) != (test.ends == nil) || err == nil && string(value) != `{"id":"x"}` {
			t.Errorf("%s: %s, %v", test.function, value, err)
		}
		rows, failed := s.journal.List(t.Context(), &journal.Filter{})
		switch {
		case failed != nil || len(rows) > 1 || len(rows) == 0 != (test.status == ""):
			t.Errorf("%s: runs %+v, %v", test.function, rows, failed)
		case len(rows) == 1:
			if rows[0].Caller != "alice" || rows[0].Calls != 1 || rows[0].Writes != 1 {
				t.Errorf("recorded run %+v", rows[0])
			}
			s.wantRun(rows[0].ID, test.status, test.want)
		}
	}
}

// TestPassWithoutJournal: a call that cannot be recorded is not sent; a call that is safe to repeat is.
func TestPassWithoutJournal(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, unwritable{&journal.Memory{}}, nil)
	for function, code := range map[string]fault.Code{"store.put": fault.Unavailable, "store.get": ""} {
		entry, err := s.all.Resolve(function)
		must(t, err)
		if _, err := s.engine.Pass(t.Context(), entry, []byte(`{}`), ""); fault.CodeOf(err) != code || code != "" &&
			fault.OutcomeOf(err) != fault.NotSent {
			t.Errorf("%s: %v", function, err)
		}
	}
	s.wantCalls(`store.get {}`)
}

// unwritable is a driver that writes nothing.
type unwritable struct{ *journal.Memory }

func (unwritable) Write(context.Context, []journal.Write) ([]bool, error) {
	return nil, errors.New("the disk is full")
}
