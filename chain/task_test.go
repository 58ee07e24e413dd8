package chain_test

import (
	"context"
	"slices"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestTasks: the task of a call is recorded as soon as it is known. While it is not known what the call did, a resume asks for that task
// and does not make the call again; what it learns is the outcome of the call.
func TestTasks(t *testing.T) {
	t.Parallel()
	unknown := func() error { return fault.New(fault.Timeout, "it is not done yet") }
	for name, test := range map[string]struct {
		ends    []error  // how the attempts end
		resumes []string // what is sent after the first attempt
		log     []string // the attempts
		ok      bool
		outcome string // of the write in the last answer
	}{
		"done meanwhile":   {[]error{unknown(), nil}, []string{""}, []string{"new", "t1"}, true, ""},
		"failed meanwhile": {[]error{unknown(), refuses()}, []string{""}, []string{"new", "t1"}, false, "failed"},
		"failed, then made again": {[]error{unknown(), refuses(), nil}, []string{"", ""},
			[]string{"new", "t1", "new"}, true, ""},
		"not known": {[]error{unknown(), unknown(), unknown()}, []string{"", ""}, []string{"new", "t1", "t1"}, false, "sent_unknown"},
		"assumed": {[]error{unknown(), unknown(), nil}, []string{"", `,"assume":{"0":"not_sent"}`}, []string{"new", "t1", "new"}, true,
			""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log []string
			all := newRegistry(t, []steps.Function{{Spec: steps.Spec{Name: "job.run", EffectDeclared: true},
				Call: func(ctx context.Context, _ []byte) ([]byte, error) {
					task := steps.TaskOf(ctx)
					end := test.ends[len(log)]
					if log = append(log, task.Known); task.Known == "" {
						log[len(log)-1] = "new"
						must(t, task.Report("t1"))
					}
					return []byte(`"done"`), end
				}}})
			engine := engineOn(t, all, chain.Options{Journal: newJournal(t, nil)}, false)
			answer := gjson.ParseBytes(engine.Run(t.Context(), []byte(`{"steps":[{"fn":"job.run"}]}`), nil).JSON)
			if answer.Get("writes.0.outcome").Str != "sent_unknown" {
				t.Fatalf("got %s, want sent_unknown", answer.Raw)
			}
			for _, more := range test.resumes {
				answer = gjson.ParseBytes(engine.Run(t.Context(), []byte(`{"resume":"`+answer.Get("resume").Str+`"`+more+`}`), nil).JSON)
			}
			if answer.Get("ok").Bool() != test.ok || answer.Get("writes.0.outcome").Str != test.outcome || !slices.Equal(log, test.log) {
				t.Errorf("got %s after the attempts %q; want ok %t, outcome %q and the attempts %q", answer.Raw, log, test.ok, test.outcome, test.log)
			}
		})
	}
}
