//go:build unix

package temporal_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/durable"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

var (
	batchID   = regexp.MustCompile(`batch-[0-9]+-[a-z0-9]+`)
	durableID = regexp.MustCompile(`(?:batch|key)-[-a-z0-9]+`)
)

// envInt returns the number in an environment variable, or fallback if the variable is unset.
func envInt(t testing.TB, variable string, fallback int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestKills: workers, the Temporal server, PostgreSQL and clients are killed at random moments of batches, and started again.
// No write is made twice, none is lost, and each answer is correct.
func TestKills(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	for range 3 {
		s.startWorker(t)
	}
	count, unknown := map[string]int{}, 0
	killings := envInt(t, "ONECALL_TEST_KILLS", 4)
	for round := 0; round < killings; {
		name := fmt.Sprintf("b%d", round)
		ids := s.batch(t, name, 1000)
		client := s.begin(t, "run", "--durable", name+".jsonl", "--out", name+".out")
		for range min(2, killings-round) {
			time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
			victim := []string{"worker", "worker", "temporal", "postgres", "client"}[rand.IntN(5)]
			count[victim]++
			round++
			switch victim {
			case "worker":
				i := rand.IntN(len(s.workers))
				s.workers[i].kill()
				s.workers = slices.Delete(s.workers, i, i+1)
				s.startWorker(t)
			case "temporal":
				s.temporalServer.kill()
				s.temporalServer.start(t)
			case "postgres":
				s.postgres.Stop(syscall.SIGQUIT)
				if err := s.postgres.Restart(); err != nil {
					t.Fatal(err)
				}
			case "client":
				client.kill()
			}
		}
		select {
		case <-client.ended:
		case <-time.After(clitest.TooLong):
			for _, w := range s.workers { // their stacks go to their logs
				_ = w.cmd.Process.Signal(syscall.SIGQUIT)
				<-w.ended
			}
			t.Fatalf("the batch did not end by round %d; killed: %v", round, count)
		}
		path := filepath.Join(s.home, name+".out")
		answers, err := os.ReadFile(path)
		for tries := 0; err != nil && tries < 10; tries++ {
			id := client.batch()
			if id == "" { // it was killed before it began the batch
				break
			}
			_, message, status := s.run(t, "resume", id, "--out", path)
			t.Logf("resume: exit %s: %.300s", status, message)
			answers, err = os.ReadFile(path)
		}
		if err != nil {
			if client.batch() != "" {
				t.Fatalf("the batch has no answers: %v: %s", err, &client.stderr)
			}
			continue
		}
		unknown += len(ids) - s.checkAnswers(t, ids, string(answers))
	}
	t.Logf("killed: %v; %d chains not ok", count, unknown)
}

// TestManyChains: a batch of many chains of five steps, over four workers. One worker is killed after each tenth of the chains, and the
// Temporal server once. ONECALL_TEST_CHAINS sets the number of chains.
func TestManyChains(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	for range 4 {
		s.startWorker(t, "--jobs", "32")
	}
	ids := s.batchOf(t, "b", envInt(t, "ONECALL_TEST_CHAINS", 1000), 5)
	client := s.begin(t, "run", "--durable", "b.jsonl", "--out", "b.out")
	began, killed := time.Now(), 0
	for part := 1; part < 10; part++ {
		select {
		case <-client.ended:
		case <-s.reached(len(ids) * part / 10):
			s.workers[0].kill()
			s.workers = s.workers[1:]
			s.startWorker(t, "--jobs", "32")
			if killed++; killed == 3 {
				s.temporalServer.kill()
				s.temporalServer.start(t)
			}
		}
	}
	<-client.ended
	answers, err := os.ReadFile(filepath.Join(s.home, "b.out"))
	if err != nil {
		t.Fatalf("the batch has no answers: %v: %s", err, &client.stderr)
	}
	ok := s.checkAnswers(t, ids, string(answers))
	for line := range strings.Lines(string(answers)) {
		if !gjson.Get(line, "ok").Bool() && gjson.Get(line, "error.outcome").Str != "sent_unknown" { // its worker was killed
			t.Errorf("a chain failed although its worker was not killed: %s", line)
		}
	}
	t.Logf("%d chains, %d ok, %d workers killed, %v", len(ids), ok, killed, time.Since(began).Round(time.Second))
}

// TestClientDies: a batch continues without its client, and resume writes its answers.
func TestClientDies(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.startWorker(t)
	ids := s.batch(t, "b", 100)
	client := s.begin(t, "run", "--durable", "b.jsonl")
	id := client.awaitBatch(t)
	client.kill()
	s.record(t, "batch", id)
	parent := gjson.Result{}
	polltest.Until(t, "the end is recorded", func() bool {
		report, _, _ := s.run(t, "runs", id, "--json")
		parent = gjson.Parse(report)
		return parent.Get("status").Str == "ok"
	})
	if parent.Get("key").Str != id {
		t.Errorf("the recorded end lacks the key %s of the batch: %.500s", id, parent.Raw)
	}
	if _, message, status := s.run(t, "resume", parent.Get("id").Str); status != "2" || !strings.Contains(message, "resume "+id) {
		t.Errorf("resume of the batch's run: got exit %s, want 2 and resume %s: %s", status, id, message)
	}
	for _, wrong := range [][]string{{"--dry-run"}, {"--assume", "1=applied"}, {"--set", "a=1"}, {"b.jsonl"}} {
		if out, message, status := s.run(t, append([]string{"resume", id}, wrong...)...); status != "2" || out != "" {
			t.Errorf("resume with %s: got exit %s, want 2 and no output: %s%s", wrong, status, message, out)
		}
	}
	for range 2 { // the second time nothing is left to do
		answers, message, status := s.run(t, "resume", id)
		if ok := s.checkAnswers(t, ids, answers); ok != len(ids) || status != "0" {
			t.Errorf("resume: %d ok, want %d; exit %s: %s", ok, len(ids), status, message)
		}
	}
	listed, _, _ := s.run(t, "runs", "--json")
	if n := gjson.Get(listed, "runs.#").Int(); n != 1 || gjson.Get(listed, "runs.0.status").Str != "ok" ||
		gjson.Get(listed, "runs.0.parts.ok").Int() != int64(len(ids)) {
		t.Errorf("runs lists %.500s, want one run with %d ok parts", listed, len(ids))
	}
	if _, message, status := s.run(t, "resume", "batch-261123000000-nosuchbatch0"); status != "2" ||
		!strings.Contains(message, "there is no batch") {
		t.Errorf(`resume of an unknown batch: got exit %s, want 2 and "there is no batch": %s`, status, message)
	}
}

// TestInterruptedBatch: an interrupt cancels the batch. Chains that have ended are answered, and resume runs the rest.
func TestInterruptedBatch(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.startWorker(t, "--jobs", "4")
	ids := s.batch(t, "b", 200)
	client := s.begin(t, "run", "--durable", "b.jsonl")
	<-s.reached(21)
	_ = client.cmd.Process.Signal(os.Interrupt)
	<-client.ended
	ok := s.checkAnswers(t, ids, client.stdout.String())
	if want := fmt.Sprintf("%d of %d ok: onecall-temporal resume %s", ok, len(ids), client.batch()); !strings.Contains(client.stderr.String(),
		want) {
		t.Errorf("stderr lacks %q: %s", want, &client.stderr)
	}
	if ok == 0 || ok == len(ids) || !strings.Contains(client.stdout.String(), `"cancelled"`) {
		t.Errorf("%d of %d ok, want some, and some cancelled: %s", ok, len(ids), &client.stderr)
	}
	s.record(t, "cancelled", client.batch())
	answers, message, status := s.run(t, "resume", client.batch())
	if resumed := s.checkAnswers(t, ids, answers); status != "0" || resumed != len(ids) {
		t.Errorf("resume: %d ok, want %d; exit %s: %s", resumed, len(ids), status, message)
	}
	if want := fmt.Sprintf("%d chains of %d again", len(ids)-ok, len(ids)); !strings.Contains(message, want) {
		t.Errorf("the message of resume lacks %q: %s", want, message)
	}
}

// TestApprovalOverRestarts: a chain waits for approval while everything is restarted. It takes no slot, and continues when it is approved.
func TestApprovalOverRestarts(t *testing.T) {
	t.Parallel()
	s := newStack(t, "approve: write\napproveBy: person\n")
	s.startWorker(t, "--jobs", "1")
	ids := s.batch(t, "a", 1)
	client := s.begin(t, "run", "--durable", "a.jsonl")
	run := ""
	polltest.Until(t, "the run waits", func() bool {
		listed, _, _ := s.run(t, "runs", "--status", "waiting", "--json")
		run = gjson.Get(listed, "runs.0.id").Str
		return run != ""
	}, &client.stderr)
	// The only slot of the only worker is free.
	clitest.Write(t, s.home, "read.json", `{"steps":[{"fn":"http.read","args":{"id":"x"}}]}`)
	if out, message, status := s.run(t, "run", "--durable", "read.json"); status != "0" {
		t.Errorf("a chain run while another waits: got exit %s, want 0: %s%s", status, out, message)
	}
	client.kill()
	s.workers[0].kill()
	s.temporalServer.kill()
	s.postgres.Stop(syscall.SIGQUIT)
	if err := s.postgres.Restart(); err != nil {
		t.Fatal(err)
	}
	s.temporalServer.start(t)
	s.startWorker(t, "--jobs", "1")
	if out, message, status := s.run(t, "approve", run); status != "0" || !strings.Contains(message, "workers continue the run") {
		t.Errorf("approve: got exit %s, want 0, and workers that go on: %s%s", status, out, message)
	}
	answers, message, status := s.run(t, "resume", client.batch())
	if ok := s.checkAnswers(t, ids, answers); ok != 1 || status != "0" {
		t.Errorf("resume after the approval: got exit %s, %d ok, want 0 and 1: %s%s", status, ok, answers, message)
	}
	s.record(t, "approved", client.batch())
}

// TestPoison: a chain that kills each of its workers is parked, with a fault that says so. The other chains end ok.
func TestPoison(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	var mu sync.Mutex
	deaths := 0
	ready := s.startWorker(t)
	s.poison(func() {
		mu.Lock()
		defer mu.Unlock()
		ready.kill()
		deaths++
		ready = s.startWorker(t)
	})
	reads := func(id string) string { return `{"steps":[{"fn":"http.read","args":{"id":"` + id + `"}}]}` + "\n" }
	clitest.Write(t, s.home, "p.jsonl", reads("a")+reads("b")+reads("poison"))
	answers, message, status := s.run(t, "run", "--durable", "p.jsonl")
	lines := strings.SplitAfter(strings.TrimSuffix(answers, "\n"), "\n")
	if len(lines) != 3 || status != "1" {
		t.Fatalf("%d answers, want 3; exit %s, want 1: %s%s", len(lines), status, answers, message)
	}
	if !gjson.Get(lines[0], "ok").Bool() || !gjson.Get(lines[1], "ok").Bool() {
		t.Errorf("the other chains failed: %s", answers)
	}
	if code := gjson.Get(lines[2], "error.code").Str; code != "internal" || !strings.Contains(lines[2], "its workers ended each time") ||
		deaths < 10 {
		t.Errorf("%d workers died, want at least 10; the poisonous chain: %s", deaths, lines[2])
	}
	s.record(t, "parked", batchID.FindString(message))
	s.poison(nil)
	answers, message, status = s.run(t, "resume", batchID.FindString(message))
	if strings.Count(answers, `"ok":true`) != 3 || status != "0" {
		t.Errorf("resume: got exit %s, want 0 and 3 ok: %s%s", status, answers, message)
	}
}

// TestResumeSingleChain: a failed chain, with or without a key, is resumed by the id of its durable run.
func TestResumeSingleChain(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.startWorker(t)
	for name, extra := range map[string]string{"plain": "", "keyed": `,"key":"nightly","durable":true`} {
		clitest.Write(t, s.home, name+".json", `{"steps":[{"fn":"http.write","args":{"id":"`+name+`"}},{"fn":"http.read","args":{"id":"poison"}}]`+
			extra+`}`)
		s.poison(func() { panic(http.ErrAbortHandler) })
		args := []string{"run", name + ".json"}
		if name == "plain" {
			args = append(args, "--durable")
		}
		out, message, status := s.run(t, args...)
		id := durableID.FindString(message)
		if status == "0" || id == "" {
			t.Fatalf("%s: want a failure with an id: exit %s: %s%s", name, status, out, message)
		}
		s.poison(nil)
		for range 2 { // the second time it is done
			out, message, status = s.run(t, "resume", id)
			if status != "0" || !gjson.Get(out, "ok").Bool() || strings.Contains(message, "could not") || s.writes(name) != 1 {
				t.Errorf("%s: resume: got exit %s, %d writes, want 0, 1 and ok: %s%s", name, status, s.writes(name), out, message)
			}
		}
	}
}

// TestLostResults: a chain whose answer the store has lost is not reported as never begun, and resume gets its answer again.
func TestLostResults(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.startWorker(t)
	release := make(chan struct{})
	s.poison(func() { <-release })
	ids := s.batch(t, "b", 10)
	clitest.Write(t, s.home, "slow.jsonl", `{"steps":[{"fn":"http.read","args":{"id":"poison"}}]}`+"\n")
	client := s.begin(t, "run", "--durable", "b.jsonl", "slow.jsonl")
	s.deleteResults(t, (&durable.Batch{ID: client.awaitBatch(t)}).ResultKey(durable.FirstAssignment(3))) // the results of the fourth chain
	close(release)
	<-client.ended
	answers := strings.SplitAfter(client.stdout.String(), "\n")
	if len(answers) != len(ids)+2 || !strings.Contains(answers[3], `"code":"token_expired","message":"the chain was begun`) {
		t.Fatalf("want %d answers, the fourth token_expired: %s%s", len(ids)+1, answers, &client.stderr)
	}
	resumed, message, status := s.run(t, "resume", client.batch())
	if strings.Count(resumed, `"ok":true`) != len(ids)+1 || status != "0" || s.writes(ids[3]) != 1 {
		t.Errorf("resume: got exit %s, %d writes, want 0, 1 and %d ok: %s%s", status, s.writes(ids[3]), len(ids)+1, resumed, message)
	}
}

// TestOtherJournalSingleChain: a worker with another journal refuses a single chain, too.
func TestOtherJournalSingleChain(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	// The results are on the disk, as those in PostgreSQL are in the journal's database.
	config := strings.ReplaceAll(readFile(t, s.home, "onecall.yaml"), "results: {store: postgres}", "results: {store: disk}")
	clitest.Write(t, s.home, "onecall.yaml", config)
	other := strings.ReplaceAll(config, "${JOURNAL_KEY}", "${OTHER_KEY}")
	s.variables = append(s.variables, "OTHER_KEY=the key of another journal, as it happens")
	clitest.Write(t, s.home, "other.yaml", regexp.MustCompile(`store: "postgres[^"]*"`).
		ReplaceAllString(other, fmt.Sprintf("store: %q", s.postgres.Database(t))))
	s.startWorker(t, "--config", "other.yaml")
	clitest.Write(t, s.home, "one.json", `{"steps":[{"fn":"http.write","args":{"id":"one"}}]}`)
	answer, message, _ := s.run(t, "run", "--durable", "one.json")
	if gjson.Get(answer, "error.code").Str != "bad_request" || !strings.Contains(answer, "another journal") || s.writes("one") != 0 {
		t.Errorf("the other worker did not refuse the chain: %s%s", answer, message)
	}
}

// TestOtherJournal: a worker with another journal begins nothing.
func TestOtherJournal(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	text, err := os.ReadFile(filepath.Join(s.home, "onecall.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	other := regexp.MustCompile(`store: "postgres[^"]*"`).ReplaceAll(text, fmt.Appendf(nil, "store: %q", s.postgres.Database(t)))
	clitest.Write(t, s.home, "other.yaml", string(other))
	s.startWorker(t, "--config", "other.yaml")
	ids := s.batch(t, "b", 3)
	client := s.begin(t, "run", "--durable", "b.jsonl")
	awaitText(t, &s.workers[0].log, regexp.MustCompile("journal has no batch"))
	s.startWorker(t)
	<-client.ended
	answers := client.stdout.String()
	handled := strings.Count(answers, `"ok":true`) + strings.Count(answers, "take it on")
	if s.checkAnswers(t, ids, answers); handled != len(ids) {
		t.Errorf("%d chains ok or refused, want %d: %s%s", handled, len(ids), answers, &client.stderr)
	}
}
