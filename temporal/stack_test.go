//go:build unix

package temporal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/porttest"
	"github.com/onecall-mcp/onecall/internal/sqldb/postgrestest"
	"github.com/onecall-mcp/onecall/internal/syncbuf"
)

// temporalServer is Temporal's development server, with its database in a file.
type temporalServer struct {
	program, folder, address string
	flags                    []string
	running                  *exec.Cmd
	ended                    chan struct{} // closed when the running process has ended
	log                      bytes.Buffer
}

// startTemporal starts a server that ends with the test, with additional flags. It skips the test if the program is missing.
func startTemporal(t testing.TB, flags ...string) *temporalServer {
	t.Helper()
	program := filepath.Join(os.Getenv("ONECALL_TEST_BIN"), "temporal")
	if _, err := os.Stat(program); err != nil {
		if program, err = exec.LookPath("temporal"); err != nil {
			t.Skip("the program temporal is not installed: go install github.com/temporalio/cli/cmd/temporal@v1.5.1")
		}
	}
	s := &temporalServer{program: program, folder: t.TempDir(), address: "127.0.0.1:" + porttest.Reserve(t), flags: flags}
	s.start(t)
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("the Temporal server: %s", s.log.Bytes())
		}
	})
	return s
}

// start starts the server and waits until it has its namespace. The server ends if its database is still locked; then it is started again.
func (s *temporalServer) start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clitest.TooLong)
	defer cancel()
	for !s.startOnce(ctx, t) {
		if s.kill(); ctx.Err() != nil {
			t.Fatal("the Temporal server did not start in time")
		}
	}
}

// startOnce starts the server and reports whether it has its namespace before it ends.
func (s *temporalServer) startOnce(ctx context.Context, t testing.TB) (up bool) {
	t.Helper()
	_, port, _ := strings.Cut(s.address, ":")
	s.running = exec.Command(s.program, append([]string{"server", "start-dev", "--headless", "--port", port, "--log-level", "error",
		"--db-filename", filepath.Join(s.folder, "temporal.db"), "--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000"},
		s.flags...)...)
	s.running.Env = append(os.Environ(), "HOME="+s.folder)
	s.running.Stdout, s.running.Stderr = &s.log, &s.log
	if err := s.running.Start(); err != nil {
		t.Fatal(err)
	}
	s.ended = make(chan struct{})
	go func(running *exec.Cmd, ended chan struct{}) {
		_ = running.Wait()
		close(ended)
	}(s.running, s.ended)
	polltest.Try(ctx, func() bool {
		select {
		case <-s.ended:
			return true
		default:
			up = s.cli("operator", "namespace", "describe", "default").Run() == nil
			return up
		}
	})
	return up
}

// cli returns a command of the server's own command line.
func (s *temporalServer) cli(args ...string) *exec.Cmd {
	cmd := exec.Command(s.program, append(args, "--address", s.address)...)
	cmd.Env = append(os.Environ(), "HOME="+s.folder)
	return cmd
}

// kill ends the server as kill -9 does.
func (s *temporalServer) kill() {
	_ = s.running.Process.Kill()
	<-s.ended
}

// upstream is a service that chains call. It records what was written, and how often.
type upstream struct {
	*httptest.Server
	mu      sync.Mutex
	written map[string]int
	traces  map[string]string // the traceparent of the last read, by id
	polled  map[string]int
	marks   map[int]chan struct{} // by n: closed when n ids have been written

	onPoison func() // runs at the start of each GET /read/poison; nil: nothing runs
}

func newUpstream(t testing.TB) *upstream {
	u := &upstream{written: map[string]int{}, traces: map[string]string{}, polled: map[string]int{}, marks: map[int]chan struct{}{}}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, text string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, text)
	}
	mux.HandleFunc("POST /write/{id}", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(50 * time.Millisecond)
		u.mu.Lock()
		u.written[r.PathValue("id")]++
		for n, mark := range u.marks {
			if n <= len(u.written) {
				close(mark)
				delete(u.marks, n)
			}
		}
		u.mu.Unlock()
		answer(w, fmt.Sprintf(`{"id":%q}`, r.PathValue("id")))
	})
	mux.HandleFunc("GET /read/{id}", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(50 * time.Millisecond)
		u.mu.Lock()
		onPoison := u.onPoison
		u.traces[r.PathValue("id")] = r.Header.Get("Traceparent")
		u.mu.Unlock()
		if r.PathValue("id") == "poison" && onPoison != nil {
			onPoison()
		}
		answer(w, fmt.Sprintf(`{"id":%q}`, r.PathValue("id")))
	})
	mux.HandleFunc("GET /poll/{id}", func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.polled[r.PathValue("id")]++
		answer(w, fmt.Sprintf(`{"polls":%d}`, u.polled[r.PathValue("id")]))
	})
	u.Server = httptest.NewServer(mux)
	t.Cleanup(u.Close)
	return u
}

// poison sets the function that each GET /read/poison runs first; nil: none.
func (u *upstream) poison(onPoison func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.onPoison = onPoison
}

// traceOf returns the traceparent that the last read of an id came with.
func (u *upstream) traceOf(id string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.traces[id]
}

// reached returns a channel that is closed when n ids have been written, or more.
func (u *upstream) reached(n int) <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	mark := make(chan struct{})
	if n <= len(u.written) {
		close(mark)
	} else {
		u.marks[n] = mark
	}
	return mark
}

// writes returns how often something was written.
func (u *upstream) writes(id string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.written[id]
}

// polls returns how often something was polled.
func (u *upstream) polls(id string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.polled[id]
}

// stack is everything that durable runs need: a Temporal server, PostgreSQL, a service, and a folder with the configuration.
type stack struct {
	*temporalServer
	*upstream
	postgres  *postgrestest.Server
	database  string // its URL
	home      string
	variables []string // the environment variables of commands
	workers   []*worker
}

// newStack starts a stack. extra is added to the configuration.
func newStack(t testing.TB, extra string) *stack {
	t.Helper()
	s := &stack{temporalServer: startTemporal(t), upstream: newUpstream(t), postgres: postgrestest.Start(t), home: t.TempDir()}
	s.database = s.postgres.Database(t)
	host := strings.TrimPrefix(s.URL, "http://")
	clitest.Write(t, s.home, "onecall.yaml", fmt.Sprintf(`engine: temporal://%s
journal: {store: %q, key: "${JOURNAL_KEY}"}
results: {store: postgres}
http:
  allow: [%q]
  endpoints:
    write:
      method: POST
      url: "http://%s/write/{id}"
      input: {type: object, required: [id], properties: {id: {type: string}}}
    read:
      url: "http://%s/read/{id}"
      input: {type: object, required: [id], properties: {id: {type: string}}}
    poll:
      url: "http://%s/poll/{id}"
      input: {type: object, required: [id], properties: {id: {type: string}}}
%s`, s.address, s.database, host, host, host, host, extra))
	s.variables = []string{"JOURNAL_KEY=a key that all who take part have got"}
	t.Cleanup(func() { s.endWorkers(t) })
	return s
}

// endWorkers kills the workers, and shows their logs if the test has failed.
func (s *stack) endWorkers(t testing.TB) {
	for _, w := range s.workers {
		w.kill()
		if t.Failed() {
			t.Logf("a worker: %s", &w.log)
		}
	}
}

// command returns an onecall command that runs in the stack's folder.
func (s *stack) command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := clitest.Self(t, s.home, args...)
	cmd.Env = append(cmd.Env, s.variables...)
	return cmd
}

// run runs a command and returns what it prints.
func (s *stack) run(t testing.TB, args ...string) (stdout, stderr, status string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := s.command(t, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	return out.String(), errs.String(), clitest.ExitCode(err)
}

// client is a command that runs beside the test.
type client struct {
	cmd            *exec.Cmd
	stdout, stderr syncbuf.Buffer
	ended          chan struct{}
}

// begin starts a command.
func (s *stack) begin(t testing.TB, args ...string) *client {
	t.Helper()
	c := &client{cmd: s.command(t, args...), ended: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	go func() {
		_ = c.cmd.Wait()
		close(c.ended)
	}()
	return c
}

func (c *client) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
}

// batch returns the id of the batch that the command has begun, or "" if it has not begun one yet.
func (c *client) batch() string { return batchID.FindString(c.stderr.String()) }

// worker is a worker process.
type worker struct {
	cmd   *exec.Cmd
	log   syncbuf.Buffer
	ended chan struct{}
	err   error // how the process ended; set before ended is closed
}

// startWorker starts a worker and waits until it is ready.
func (s *stack) startWorker(t testing.TB, args ...string) *worker {
	t.Helper()
	w := &worker{cmd: s.command(t, append([]string{"worker"}, args...)...), ended: make(chan struct{})}
	w.cmd.Stderr = &w.log
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.workers = append(s.workers, w)
	ctx, cancel := context.WithTimeout(context.Background(), clitest.TooLong)
	defer cancel()
	go func() {
		w.err = w.cmd.Wait()
		close(w.ended)
		cancel()
	}()
	if w.log.Await(ctx, regexp.MustCompile("ready"), 1) == nil {
		w.kill()
		t.Fatalf("the worker did not become ready: %v: %s", w.err, &w.log)
	}
	return w
}

func (w *worker) kill() {
	_ = w.cmd.Process.Kill()
	<-w.ended
}

// batch writes a file of n chains, each of which reads and then writes, and returns what they write.
func (s *stack) batch(t testing.TB, name string, n int) (ids []string) {
	return s.batchOf(t, name, n, 2)
}

// batchOf writes a file of n chains. The first step of a chain reads an id, each further one takes the id that the step before it
// returned, and the last one writes it.
func (s *stack) batchOf(t testing.TB, name string, n, steps int) (ids []string) {
	t.Helper()
	var lines strings.Builder
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s-%d", name, i))
		fmt.Fprintf(&lines, `{"steps":[{"fn":"http.read","args":{"id":%q}}`, ids[i])
		for step := range steps - 2 {
			fmt.Fprintf(&lines, `,{"fn":"http.read","args":{"id":"$%d.id"}}`, step)
		}
		fmt.Fprintf(&lines, `,{"fn":"http.write","args":{"id":"$%d.id"}}]}`+"\n", steps-2)
	}
	clitest.Write(t, s.home, name+".jsonl", lines.String())
	return ids
}

// checkAnswers checks that the answers of a batch are in the order of its chains, and that each is correct: a write that is ok was made
// once, one that was not sent was not made, and none was made twice. It returns how many chains are ok.
func (s *stack) checkAnswers(t testing.TB, ids []string, answers string) (ok int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(answers, "\n"), "\n")
	if len(lines) != len(ids) {
		t.Fatalf("got %d answers, want %d: %.300s", len(lines), len(ids), answers)
	}
	for i, line := range lines {
		answer := gjson.Parse(line)
		times := s.writes(ids[i])
		switch outcome := answer.Get("error.outcome").Str; {
		case answer.Get("ok").Bool():
			if ok++; answer.Get("result.id").Str != ids[i] || times != 1 {
				t.Errorf("%s is ok and was written %d times, want 1: %s", ids[i], times, line)
			}
		case times > 1, times == 1 && outcome != "sent_unknown":
			t.Errorf("%s failed and was written %d times, want none, or once with sent_unknown: %s", ids[i], times, line)
		case !json.Valid([]byte(line)):
			t.Errorf("an answer is not JSON: %s", line)
		}
	}
	return ok
}
