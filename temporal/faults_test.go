//go:build unix

package temporal_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/budget/pgstore"
	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/durable"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/syncbuf"
)

// awaitBatch returns the id of the batch that a client begins.
func (c *client) awaitBatch(t *testing.T) string {
	t.Helper()
	return awaitText(t, &c.stderr, batchID)
}

// awaitText waits until a process has written text that matches what, and returns the match.
func awaitText(t testing.TB, written *syncbuf.Buffer, what *regexp.Regexp) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clitest.TooLong)
	defer cancel()
	match := written.Await(ctx, what, 1)
	if match == nil {
		t.Fatalf("the process did not write %s: %s", what, written)
	}
	return match[0]
}

// hold makes calls of /read/poison wait until release is closed. Each sends on reached first.
func (u *upstream) hold() (reached, release chan struct{}) {
	reached, release = make(chan struct{}, 10), make(chan struct{})
	u.poison(func() {
		reached <- struct{}{}
		<-release
	})
	return reached, release
}

// deleteResults waits until the store of results has the first of keys, then removes them all from it.
func (s *stack) deleteResults(t *testing.T, keys ...string) {
	t.Helper()
	store, err := pgstore.New(&pgstore.Options{URL: s.database})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	polltest.Until(t, "the store has "+keys[0], func() bool {
		_, err := store.Get(t.Context(), keys[0], nil)
		return err == nil
	})
	for _, key := range keys {
		if err := store.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
}

// writeThenPoison returns a chain that writes, and then reads /read/poison.
func writeThenPoison(id, extra string) string {
	return fmt.Sprintf(`{"steps":[{"fn":"http.write","args":{"id":%q}},{"fn":"http.read","args":{"id":"poison"}}]%s}`+"\n", id, extra)
}

// TestNullKey: a null key counts as none, so the worker that follows a dead one finds the run.
func TestNullKey(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	var once sync.Once
	first := s.startWorker(t)
	s.poison(func() {
		once.Do(func() {
			first.kill()
			s.startWorker(t)
		})
	})
	clitest.Write(t, s.home, "n.jsonl", writeThenPoison("w", `,"key":null`))
	if out, message, status := s.run(t, "run", "--durable", "n.jsonl"); status != "0" || s.writes("w") != 1 {
		t.Errorf("got exit %s, %d writes, want 0 and 1: %s%s", status, s.writes("w"), out, message)
	}
}

// TestOtherConfiguration: with a journal on this machine's disk, a batch can be resumed only with its own configuration.
func TestOtherConfiguration(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	text, err := os.ReadFile(filepath.Join(s.home, "onecall.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	local := regexp.MustCompile(`(?m)^(journal|results):.*\n`).ReplaceAllString(string(text), "")
	clitest.Write(t, s.home, "a.yaml", local)
	clitest.Write(t, s.home, "b.yaml", local)
	s.startWorker(t, "--config", "a.yaml")
	s.startWorker(t, "--config", "b.yaml")
	s.poison(func() { panic(http.ErrAbortHandler) })
	clitest.Write(t, s.home, "n.jsonl", writeThenPoison("w", ""))
	_, message, _ := s.run(t, "run", "--durable", "n.jsonl", "--config", "a.yaml")
	s.poison(nil)
	id := batchID.FindString(message)
	if _, message, status := s.run(t, "resume", id, "--config", "b.yaml"); status != "2" || !strings.Contains(message, "a.yaml") {
		t.Errorf("resume with another configuration: got exit %s, want 2 and the name a.yaml: %s", status, message)
	}
	if out, message, status := s.run(t, "resume", id, "--config", "a.yaml"); status != "0" || s.writes("w") != 1 {
		t.Errorf("got exit %s, %d writes, want 0 and 1: %s%s", status, s.writes("w"), out, message)
	}
}

// TestTerminated: a batch that an operator has terminated in Temporal continues when it is resumed.
func TestTerminated(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.startWorker(t)
	reached, release := s.hold()
	clitest.Write(t, s.home, "n.jsonl", writeThenPoison("w", ""))
	c := s.begin(t, "run", "--durable", "n.jsonl")
	id := c.awaitBatch(t)
	<-reached
	if out, err := s.cli("workflow", "terminate", "--workflow-id", "onecall-"+id, "--reason", "test").CombinedOutput(); err != nil {
		t.Fatalf("terminate: %v: %s", err, out)
	}
	<-c.ended
	close(release)
	if out, message, status := s.run(t, "resume", id); status != "0" || s.writes("w") != 1 {
		t.Errorf("got exit %s, %d writes, want 0 and 1: %s%s", status, s.writes("w"), out, message)
	}
}

// TestLostInput: if the store loses a chain and its result, the answers of other chains are not affected.
func TestLostInput(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.startWorker(t)
	release := make(chan struct{})
	s.poison(func() { <-release })
	ids := s.batch(t, "b", 10)
	clitest.Write(t, s.home, "slow.jsonl", `{"steps":[{"fn":"http.read","args":{"id":"poison"}}]}`+"\n")
	c := s.begin(t, "run", "--durable", "b.jsonl", "slow.jsonl")
	b := &durable.Batch{ID: c.awaitBatch(t)}
	s.deleteResults(t, b.ResultKey(durable.FirstAssignment(3)), b.InputKey(3))
	close(release)
	<-c.ended
	out, message, _ := s.run(t, "resume", b.ID)
	for _, answers := range []string{c.stdout.String(), out} {
		if strings.Count(answers, `"ok":true`) != len(ids) || strings.Count(answers, `"code":"token_expired"`) != 1 {
			t.Errorf("want %d ok and one token_expired: %s%s%s", len(ids), answers, &c.stderr, message)
		}
	}
}

// TestServerPauses: no write is broken off if the Temporal server does not answer for two seconds.
func TestServerPauses(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.startWorker(t)
	reached, release := s.hold()
	clitest.Write(t, s.home, "n.jsonl", writeThenPoison("w", ""))
	c := s.begin(t, "run", "--durable", "n.jsonl")
	<-reached
	if err := s.running.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2200 * time.Millisecond)
	if err := s.running.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	close(release)
	<-c.ended
	if !strings.Contains(c.stdout.String(), `"ok":true`) || len(reached) > 0 {
		t.Errorf("the chain failed or was run again (%d more reads): %s%s", len(reached), &c.stdout, &c.stderr)
	}
}

// TestResumeLine: a line that resumes a run is refused, as it has no key of its own.
func TestResumeLine(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.startWorker(t)
	clitest.Write(t, s.home, "r.jsonl", `{"resume":"run_aaaaaaaaaaaaaaaaaaaaaaaaaa"}`+"\n"+`{"steps":[{"expr":"1"}]}`+"\n")
	out, message, status := s.run(t, "run", "--durable", "r.jsonl")
	if status != "3" || !strings.Contains(out, `"code":"not_supported"`) || !strings.Contains(out, `"ok":true`) {
		t.Errorf("exit %s, want 3 with one line refused: %s%s", status, out, message)
	}
	listed, _, _ := s.run(t, "runs", batchID.FindString(message)) // the refused line has no run
	if !strings.Contains(listed, "r.jsonl  failed") || !strings.Contains(listed, "\n    1 of 2 parts: 1 ok\n    not_supported\n") {
		t.Errorf("runs lists %s, want not_supported, and 1 ok of 2 parts", listed)
	}
}

// TestNoWorker: a chain that no worker takes is cancelled without waiting for a worker, and runs when it is resumed.
func TestNoWorker(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	ids := s.batch(t, "b", 1)
	c := s.begin(t, "run", "--durable", "b.jsonl")
	awaitText(t, &c.stderr, regexp.MustCompile("no worker is polling"))
	_ = c.cmd.Process.Signal(os.Interrupt)
	<-c.ended
	if status := c.cmd.ProcessState.ExitCode(); status != 130 || !strings.Contains(c.stderr.String(), "ends when a worker notices") {
		t.Errorf("interrupted: exit %d, want 130: %s", status, &c.stderr)
	}
	s.startWorker(t)
	for range 2 { // the first time the batch may still be ending
		answers, message, status := s.run(t, "resume", c.batch())
		if ok := s.checkAnswers(t, ids, answers); ok == 1 && status == "0" {
			return
		}
		t.Logf("resume: %s%s", answers, message)
	}
	t.Error("resume did not complete the batch")
}

// TestAddressErrorHidesCredentials: the error about a wrong address does not repeat it, because it may contain credentials.
func TestAddressErrorHidesCredentials(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"temporal://me:hunter2@127.0.0.1:7233/default", "temporal://127.0.0.1:7233/default?api_key=hunter2"} {
		if a := runDurable(t, engine); a.Get("error.code").Str != "bad_request" || strings.Contains(a.Raw, "hunter2") {
			t.Errorf("want bad_request without the credentials: %s", a)
		}
	}
}
