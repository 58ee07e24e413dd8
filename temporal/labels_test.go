//go:build unix

package temporal_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestServedLabels: what a model was shown goes with its chain to the workers, so that a rule asks there as well: about the values that it
// wrote after it was shown something, and not about those from before. What a person approves, the workers do.
func TestServedLabels(t *testing.T) {
	t.Parallel()
	s := newStack(t, `functions: {http.read: {gives: [untrusted]}, http.write: {takes: {id: target}}}
flows: {rules: [{from: untrusted, to: target, do: approve, through: model}]}
`+fmt.Sprintf(callers, digest("ann"), digest("bob")))
	server := s.serve(t)
	s.startWorker(t)
	write := func(id string) string {
		return server.ask(t, "ann", "chain", fmt.Sprintf(`{"steps":[{"fn":"http.write","args":{"id":%q}}],"async":true}`, id)).Get("run").Str
	}
	if report, answer := server.awaitEnd(t, "ann", write("before")); report.Get("status").Str != "ok" || s.writes("before") != 1 {
		t.Fatalf("before anything was shown: %d writes: %s: %s", s.writes("before"), report, answer)
	}
	server.ask(t, "ann", "chain", `{"steps":[{"fn":"http.read","args":{"id":"mail"}}]}`)
	for id, asks := range map[string]bool{"before": false, "invented": true} {
		writes := s.writes(id)
		run := write(id)
		report, answer := server.awaitEnd(t, "ann", run)
		if !asks {
			if report.Get("status").Str != "ok" || s.writes(id) != writes+1 {
				t.Errorf("%s: %d writes: %s: %s", id, s.writes(id)-writes, report, answer)
			}
			continue
		}
		flow := answer.Get("error.calls.0.flows.0").Str
		if report.Get("status").Str != "waiting" || answer.Get("approve").Exists() || !strings.HasPrefix(flow, "untrusted: ") || s.writes(id) != 0 {
			t.Fatalf("%s: %d writes, want none, and a person who is asked: %s: %s", id, s.writes(id), report, answer)
		}
		if _, stderr, status := s.run(t, "approve", run); status != "0" {
			t.Fatalf("approve: status %s: %s", status, stderr)
		}
		server.ask(t, "ann", "chain", `{"resume":"`+run+`"}`)
		report, answer = server.awaitEnd(t, "ann", run)
		if report.Get("status").Str != "ok" || s.writes(id) != 1 {
			t.Errorf("%s, approved: %d writes, want 1: %s: %s", id, s.writes(id), report, answer)
		}
	}
}
