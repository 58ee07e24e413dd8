//go:build unix

package temporal_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// pollTwice is a chain that polls, pauses, polls again and writes.
func pollTwice(id string) string {
	return fmt.Sprintf(`{"steps":[{"fn":"http.poll","args":{"id":%q},"repeat":{"until":"$result.polls == 2","max":5,"delayMs":20000}},`+
		`{"fn":"http.write","args":{"id":%q}}]}`+"\n", id, id)
}

// awaitWaiting waits until n runs wait.
func (s *stack) awaitWaiting(t *testing.T, n int) {
	t.Helper()
	polltest.Until(t, fmt.Sprintf("%d runs wait", n), func() bool {
		listed, _, _ := s.run(t, "runs", "--status", "waiting", "--json")
		return gjson.Get(listed, "runs.#").Int() == int64(n)
	})
}

// TestPauses: chains that pause take no slot of a worker, and outlive the worker. A batch that is cancelled during a pause continues when
// it is resumed. No call is made twice.
func TestPauses(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	first := s.startWorker(t, "--jobs", "1")
	var ids []string
	lines := ""
	for i := range 5 {
		ids = append(ids, fmt.Sprint("p", i))
		lines += pollTwice(ids[i])
	}
	clitest.Write(t, s.home, "p.jsonl", lines)
	c := s.begin(t, "run", "--durable", "p.jsonl")
	s.awaitWaiting(t, len(ids)) // one after the other in the only slot
	first.kill()
	for _, id := range ids {
		if n := s.polls(id); n != 1 {
			t.Errorf("%s was polled %d times before the end of its pause, want 1", id, n)
		}
	}
	s.startWorker(t, "--jobs", "1")
	<-c.ended
	if ok := s.checkAnswers(t, ids, c.stdout.String()); ok != len(ids) || strings.Contains(c.stderr.String(), "approve") {
		t.Errorf("%d ok, want %d: %s%s", ok, len(ids), &c.stdout, &c.stderr)
	}
	s.record(t, "paused", c.batch())

	ids = append(ids, "cancelled")
	clitest.Write(t, s.home, "c.jsonl", pollTwice("cancelled"))
	c = s.begin(t, "run", "--durable", "c.jsonl")
	s.awaitWaiting(t, 1)
	_ = c.cmd.Process.Signal(os.Interrupt)
	<-c.ended
	if a := c.stdout.String(); gjson.Get(a, "error.code").Str != "cancelled" || !strings.Contains(a, "pauses until") {
		t.Errorf("a chain cancelled during its pause: got %s, want cancelled with the end of the pause: %s", a, &c.stderr)
	}
	if answers, message, status := s.run(t, "resume", c.batch()); status != "0" || s.checkAnswers(t, ids[5:], answers) != 1 {
		t.Errorf("resume: got exit %s, want 0 and 1 ok: %s%s", status, answers, message)
	}
	for _, id := range ids {
		if n := s.polls(id); n != 2 {
			t.Errorf("%s was polled %d times, want 2", id, n)
		}
	}
}
