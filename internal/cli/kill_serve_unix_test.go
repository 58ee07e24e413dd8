//go:build unix

package cli

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal/sqljournal/postgrestest"
)

// pair are two replicas over one PostgreSQL, of which clients use one at a time.
type pair struct {
	*site
	store   string // of the journal
	servers [2]*serving
	gone    [2]func() // waits until all processes of one have ended
	current atomic.Pointer[serving]
	runs    atomic.Int64
	tries   atomic.Int64 // requests that did not end well
}

const pairClients = 2

func newPair(t *testing.T, postgres *postgrestest.Server) *pair {
	t.Helper()
	p := &pair{site: newSite(t, pairClients, map[string]string{"store": "${JOURNAL_STORE}", "key": "${JOURNAL_KEY}"}), store: postgres.Database(t)}
	for i := range p.servers {
		p.start(t, i)
	}
	p.current.Store(p.servers[0])
	return p
}

// start starts a replica in a process of its own.
func (p *pair) start(t *testing.T, i int) {
	t.Helper()
	address := make(chan string, 1)
	s := &serving{stderr: &tail{address: address}, ended: make(chan error, 1)}
	s.cmd = self(t, t.TempDir(), "serve", "--http", "127.0.0.1:0", "--config", p.config, "--replica", fmt.Sprint("r", i))
	s.cmd.Env = append(s.cmd.Env, "JOURNAL_STORE="+p.store, "JOURNAL_KEY=a key that both of the replicas have got")
	var started func()
	started, p.gone[i] = family(t, s.cmd)
	s.listen(t, address)
	started()
	p.servers[i] = s
}

// kill kills the replica that clients use when it is at work; they go on with the other, and it is started again.
func (p *pair) kill(t *testing.T, round int) {
	t.Helper()
	i := round % 2
	p.working(t, pairClients, p.effects(t, pairClients), nil)
	time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
	_ = p.servers[i].cmd.Process.Kill()
	<-p.servers[i].ended
	p.gone[i]() // a call that had left may still arrive until then
	p.current.Store(p.servers[1-i])
	p.start(t, i)
}

// work has a client make runs, one after the other, until it is told to stop; the last it brings to its end.
func (p *pair) work(t *testing.T, client int, stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		run := p.provision(t, client, fmt.Sprintf("c%dn%d", client, n))
		if !p.through(t, run) {
			return
		}
		run.finished(t)
		p.runs.Add(1)
	}
}

// through sends a run until it is through, to whichever replica is the current one.
func (p *pair) through(t *testing.T, run *provision) bool {
	request, last := run.chain(), ""
	for end := time.Now().Add(4 * tooLong); time.Now().Before(end) && t.Context().Err() == nil; {
		text, err := post(t, p.current.Load().url, request)
		answer := gjson.Parse(text)
		if err == nil && answer.Get("ok").Bool() {
			return true
		}
		p.tries.Add(1)
		last = fmt.Sprint(text, err)
		request = run.chain()
		if err == nil {
			run.check(t, answer)
		}
		if answer.Get("error.code").Str == "resume_conflict" {
			request = fmt.Sprintf(`{"resume":%q,"assume":%s}`, answer.Get("resume").Str, assumption(t, run.assume(t, answer)))
			continue
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("%s does not end: %s", run.name, last)
	return false
}

// post sends a chain as a client of MCP without a session does; an error means that nobody has answered it.
func post(t *testing.T, url, chain string) (text string, err error) {
	w := &wire{url: url, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: tooLong}, version: statelessVersion}
	r, err := w.try(t, http.MethodPost, w.message(t, "1", "tools/call", map[string]any{"name": "chain", "arguments": json.RawMessage(chain)}), nil)
	if err != nil {
		return "", err
	}
	if text = r.answer().Get("result.content.0.text").Str; text == "" {
		return "", fmt.Errorf("%d %s", r.status, r.body)
	}
	return text, nil
}

// killed has clients work while kill is called n times.
func (p *pair) killed(t *testing.T, n int, kill func(round int)) {
	t.Helper()
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for client := range pairClients {
		clients.Go(func() { p.work(t, client, stop) })
	}
	for round := 0; round < n && !t.Failed(); round++ {
		kill(round)
	}
	close(stop)
	clients.Wait()
	t.Logf("%d runs, %d requests that did not end well", p.runs.Load(), p.tries.Load())
}

// TestKilledReplicas kills the replica that clients use at random points of their chains; the other goes on with them, and each write is done
// once.
func TestKilledReplicas(t *testing.T) {
	t.Parallel()
	n := kills(t, 1, 4)
	p := newPair(t, postgrestest.Start(t))
	p.killed(t, n, func(round int) { p.kill(t, round) })
}

// TestKilledPostgres kills PostgreSQL in the middle of runs, and starts it again: each write is done once, what is told of writes is so, and the
// runs come to their end.
func TestKilledPostgres(t *testing.T) {
	t.Parallel()
	n := kills(t, 1, 3)
	postgres := postgrestest.Start(t)
	p := newPair(t, postgres)
	p.killed(t, n, func(round int) {
		p.working(t, pairClients, p.effects(t, pairClients), nil)
		time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
		postgres.Stop([]syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL}[round%2])
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
		if err := postgres.Restart(); err != nil {
			t.Fatal(err)
		}
	})
}
