//go:build unix

package temporal_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
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
)

var batchID = regexp.MustCompile(`batch-[0-9]+-[a-z0-9]+`)

// killings returns how many things are killed: ONECALL_TEST_KILLS, or a few.
func killings(t testing.TB) int {
	if text := os.Getenv("ONECALL_TEST_KILLS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 4
}

// TestKills: workers, the Temporal server, PostgreSQL, Redis and clients are killed at random moments of batches, and started again.
// No write is made twice, none is lost, and each answer is true.
func TestKills(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	for range 3 {
		s.startWorker(t)
	}
	count, unknown := map[string]int{}, 0
	killings := killings(t)
	for round := 0; round < killings; {
		name := fmt.Sprintf("b%d", round)
		ids := s.batch(t, name, 1000)
		var stdout, stderr bytes.Buffer
		client := s.command(t, "run", "--durable", name+".jsonl", "--out", name+".out")
		client.Stdout, client.Stderr = &stdout, &stderr
		if err := client.Start(); err != nil {
			t.Fatal(err)
		}
		clientEnds := make(chan error, 1)
		go func() { clientEnds <- client.Wait() }()
		for range min(2, killings-round) {
			time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
			victim := []string{"worker", "worker", "temporal", "postgres", "redis", "client"}[rand.IntN(6)]
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
			case "redis":
				s.redis.Kill()
				s.redis.Restart()
			case "client":
				_ = client.Process.Kill()
			}
		}
		select {
		case <-clientEnds:
		case <-time.After(clitest.TooLong):
			for _, w := range s.workers { // what they are at goes to their logs
				_ = w.cmd.Process.Signal(syscall.SIGQUIT)
				<-w.ended
			}
			t.Fatalf("the batch of round %d does not end; killed: %v", round, count)
		}
		path := filepath.Join(s.home, name+".out")
		answers, err := os.ReadFile(path)
		for tries := 0; err != nil && tries < 10; tries++ {
			id := batchID.FindString(stderr.String())
			if id == "" { // it was killed before it had begun
				break
			}
			_, said, status := s.run(t, "resume", id, "--out", path)
			t.Logf("resume: exit %s: %.300s", status, said)
			answers, err = os.ReadFile(path)
		}
		if err != nil {
			if batchID.MatchString(stderr.String()) {
				t.Fatalf("no answers: %v: %s", err, stderr.Bytes())
			}
			continue
		}
		unknown += len(ids) - s.checkAnswers(t, ids, string(answers))
	}
	t.Logf("killed: %v; %d chains did not end well", count, unknown)
}

// TestClientDies: the batch goes on without its client, and resume has its answers.
func TestClientDies(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.startWorker(t)
	ids := s.batch(t, "b", 100)
	var stderr lockedBuffer
	client := s.command(t, "run", "--durable", "b.jsonl")
	client.Stderr = &stderr
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(clitest.TooLong); !batchID.MatchString(stderr.String()) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	_ = client.Process.Kill()
	_ = client.Wait()
	id := batchID.FindString(stderr.String())
	s.record(t, "batch", id)
	for range 2 { // the second time nothing is left to do
		answers, said, status := s.run(t, "resume", id)
		if ok := s.checkAnswers(t, ids, answers); ok != len(ids) || status != "0" {
			t.Errorf("%d ok, exit %s: %s", ok, status, said)
		}
	}
	listed, _, _ := s.run(t, "runs", "--json")
	if n := gjson.Get(listed, "runs.#").Int(); n != 1 || gjson.Get(listed, "runs.0.status").Str != "ok" || gjson.Get(listed, "runs.0.parts.ok").Int() != int64(len(ids)) {
		t.Errorf("runs: %.500s", listed)
	}
	if _, said, status := s.run(t, "resume", "batch-261123000000-nosuchbatch0"); status != "2" || !strings.Contains(said, "there is no batch") {
		t.Errorf("exit %s: %s", status, said)
	}
}

// TestInterruptedBatch: an interrupt cancels the batch; what was done is answered, and resume does the rest.
func TestInterruptedBatch(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.startWorker(t, "--jobs", "4")
	ids := s.batch(t, "b", 200)
	var stdout, stderr lockedBuffer
	client := s.command(t, "run", "--durable", "b.jsonl")
	client.Stdout, client.Stderr = &stdout, &stderr
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(clitest.TooLong); s.writes(ids[20]) == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	_ = client.Process.Signal(os.Interrupt)
	_ = client.Wait()
	ok := s.checkAnswers(t, ids, stdout.String())
	if ok == 0 || ok == len(ids) || !strings.Contains(stdout.String(), `"cancelled"`) {
		t.Errorf("%d of %d were done: %s", ok, len(ids), stderr.String())
	}
	s.record(t, "cancelled", batchID.FindString(stderr.String()))
	answers, said, status := s.run(t, "resume", batchID.FindString(stderr.String()))
	if all := s.checkAnswers(t, ids, answers); status != "0" || all != len(ids) {
		t.Errorf("resumed: %d ok, exit %s: %s", all, status, said)
	}
	if want := fmt.Sprintf("%d chains of %d again", len(ids)-ok, len(ids)); !strings.Contains(said, want) {
		t.Errorf("want %q: %s", want, said)
	}
}

// TestApprovalOverRestarts: a chain waits for approval while everything is started again, holds no worker, and goes on when it is given.
func TestApprovalOverRestarts(t *testing.T) {
	t.Parallel()
	s := newStack(t, "approve: write\napproveBy: person\n")
	s.startWorker(t, "--jobs", "1")
	ids := s.batch(t, "a", 1)
	var stderr lockedBuffer
	client := s.command(t, "run", "--durable", "a.jsonl")
	client.Stderr = &stderr
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	run := ""
	for end := time.Now().Add(clitest.TooLong); run == "" && time.Now().Before(end); {
		listed, _, _ := s.run(t, "runs", "--status", "waiting", "--json")
		run = gjson.Get(listed, "runs.0.id").Str
	}
	// The only slot of the only worker is free.
	clitest.Write(t, s.home, "read.json", `{"steps":[{"fn":"http.read","args":{"id":"x"}}]}`)
	if out, said, status := s.run(t, "run", "--durable", "read.json"); status != "0" {
		t.Errorf("beside the chain that waits: exit %s: %s%s", status, out, said)
	}
	_ = client.Process.Kill()
	_ = client.Wait()
	s.workers[0].kill()
	s.temporalServer.kill()
	s.postgres.Stop(syscall.SIGQUIT)
	s.redis.Kill()
	s.redis.Restart()
	if err := s.postgres.Restart(); err != nil {
		t.Fatal(err)
	}
	s.temporalServer.start(t)
	s.startWorker(t, "--jobs", "1")
	if out, said, status := s.run(t, "approve", run); status != "0" || !strings.Contains(said, "its workers go on with it") {
		t.Errorf("approve: exit %s: %s%s", status, out, said)
	}
	answers, said, status := s.run(t, "resume", batchID.FindString(stderr.String()))
	if ok := s.checkAnswers(t, ids, answers); ok != 1 || status != "0" {
		t.Errorf("exit %s: %s%s", status, answers, said)
	}
	s.record(t, "approved", batchID.FindString(stderr.String()))
}

// TestPoison: a chain that each of its workers dies of is parked, and told of; the others end well.
func TestPoison(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	var mu sync.Mutex
	died := 0
	ready := s.startWorker(t)
	s.poison(func() {
		mu.Lock()
		defer mu.Unlock()
		ready.kill()
		died++
		ready = s.startWorker(t)
	})
	reads := func(id string) string { return `{"steps":[{"fn":"http.read","args":{"id":"` + id + `"}}]}` + "\n" }
	clitest.Write(t, s.home, "p.jsonl", reads("a")+reads("b")+reads("poison"))
	answers, said, status := s.run(t, "run", "--durable", "p.jsonl")
	lines := strings.SplitAfter(strings.TrimSuffix(answers, "\n"), "\n")
	if len(lines) != 3 || status != "1" {
		t.Fatalf("exit %s: %s%s", status, answers, said)
	}
	if !gjson.Get(lines[0], "ok").Bool() || !gjson.Get(lines[1], "ok").Bool() {
		t.Errorf("the others: %s", answers)
	}
	if code := gjson.Get(lines[2], "error.code").Str; code != "internal" || !strings.Contains(lines[2], "its workers ended each time") || died < 10 {
		t.Errorf("after %d deaths: %s", died, lines[2])
	}
	s.record(t, "parked", batchID.FindString(said))
	s.poison(nil)
	answers, said, status = s.run(t, "resume", batchID.FindString(said))
	if strings.Count(answers, `"ok":true`) != 3 || status != "0" {
		t.Errorf("resumed: exit %s: %s%s", status, answers, said)
	}
}

// lockedBuffer is a bytes.Buffer that a process writes and a test reads.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
