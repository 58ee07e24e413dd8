package chain_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
)

func TestMentions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text, want string
		resumes    bool
		faults     int
	}{
		{`{"steps":[{"fn":"a.b"},{"expr":"1"},{"fn":"c","forEach":"$0","undo":{"fn":"d"}}]}`, "/steps/0/fn a.b /steps/2/fn c /steps/2/undo/fn d", false, 0},
		{`{"steps":[{"chain":{"steps":[{"fn":"a"},{"chain":{"steps":[{"fn":"b"}]}}]}}]}`, "/steps/0/chain/steps/0/fn a /steps/0/chain/steps/1/chain/steps/0/fn b", false, 0},
		{`{"resume":"run_1","replace":{"2":{"fn":"a"},"x/y":{"expr":"1"}}}`, "/replace/2/fn a", true, 0},
		{`{"resume":"run_1","steps":[{"fn":"a"}]}`, "/steps/0/fn a", true, 0},
		{`{"resume":null,"steps":[{"fn":"a"}]}`, "/steps/0/fn a", false, 0},
		{`{"key":"k"}`, "", true, 0},
		{`{"continuation_token":"oc1_x"}`, "", false, 0},
		{`{"params":{"continuation_token":"oc1_x"}}`, "", false, 0},
		{`{}`, "", false, 1},
		{`[]`, "", false, 1},
		{`{"steps":[`, "", false, 1},
		{`{"steps":[{"fn":"a","fn":"b"}]}`, "", false, 1},
		{`{"steps":"[]"}`, "", false, 1},
		{`{"steps":[{"fn":"a"},{"fn":3}]}`, "/steps/0/fn a", false, 2},
		{`{"steps":[{"fn":"a","fnn":"b"}]}`, "/steps/0/fn a", false, 1},
		{`{"resume":"r","replace":{"0":1}}`, "", true, 1},
	} {
		m, faults := chain.FindMentions([]byte(test.text))
		var got []string
		for _, f := range m.Functions {
			got = append(got, f.At, f.Function)
		}
		if strings.Join(got, " ") != test.want || m.Resumes != test.resumes || len(faults) != test.faults {
			t.Errorf("%s: %q, resumes %t, faults %v; want %q, %t, %d", test.text, got, m.Resumes, faults, test.want, test.resumes, test.faults)
		}
	}
}

// FuzzMentions: the mentions of a chain that is valid as a saved chain include all functions that it calls, and all that undo calls.
func FuzzMentions(f *testing.F) {
	f.Add(`{"steps":[{"fn":"a.b"},{"chain":{"steps":[{"fn":"c","undo":{"fn":"d"}}]}}]}`)
	f.Add(`{"st\u0065ps":[{"f\u006e":"a"}],"return":"$0"}`)
	f.Add(`{"steps":[{"fn":"a"}],"continuation_token":"x"}`)
	f.Fuzz(func(t *testing.T, text string) {
		m, faults := chain.FindMentions([]byte(text))
		fn, invalid := chain.Saved("x", []byte(text), &chain.Options{})
		if len(invalid) > 0 {
			return
		}
		if len(faults) > 0 {
			t.Fatalf("%s: %v, want none, as Saved accepts it", text, faults[0])
		}
		var mentioned []string
		for _, f := range m.Functions {
			mentioned = append(mentioned, f.Function)
		}
		for _, name := range append(slices.Clone(fn.Spec.Saved.Names), fn.Spec.Saved.Undoes...) {
			if !slices.Contains(mentioned, name) {
				t.Errorf("%s: the mentions lack %s", text, name)
			}
		}
	})
}
